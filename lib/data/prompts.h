#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/message.h"

namespace verlcpp::data {

/// One row of data.train_files, in verl's columns.
struct PromptRow {
  int64_t row = 0;  // index in the concatenated files, before any subsampling
  std::string data_source;
  std::vector<Message> prompt;
  std::string ground_truth;  // reward_model.ground_truth; a number as JSON prints it
  std::string tools_json;    // tools: a JSON list of schemas; empty without that column
  std::string extra_json;    // extra_info as JSON text; empty without that column
  std::string origin;        // "file:line", or "file[index]" for an element of a JSON array
};

/// Which files to read, and how; the fields are verl's keys of the same name.
struct PromptOptions {
  std::vector<std::string> train_files;
  std::string prompt_key = "prompt";
  std::string reward_fn_key = "data_source";
  int64_t train_max_samples = -1;  // -1: all
  bool shuffle = true;
  uint64_t seed = 0;
};

/// A leading "~" or "~/" becomes $HOME.
std::string expand_home(const std::string& path);

/// Reads every row of .jsonl and .json files (a JSON array, or one object a line), in file order.
/// One DataError names every file that cannot be read; another every bad row (20 are shown) with
/// file, line, field, value and what is valid.
std::vector<PromptRow> read_prompts(const PromptOptions& options);

/// verl's data.train_max_samples: with shuffle a random choice without replacement by data.seed, in
/// the order drawn, else the first rows. A limit of -1, or one past the end, keeps all rows.
std::vector<PromptRow> subsample(std::vector<PromptRow> rows, int64_t train_max_samples,
                                 bool shuffle, uint64_t seed);

/// read_prompts and subsample, saying verl's "dataset len: N" and what was selected.
std::vector<PromptRow> load_prompts(const PromptOptions& options);

/// Which rows each step takes: a pure function of (seed, epoch, step). An epoch is a permutation of
/// all rows (file order without shuffle) of which the incomplete last batch is dropped. Steps and
/// epochs count from 0.
class PromptOrder {
 public:
  /// Throws ConfigError when `train_batch_size` is not in 1..rows.
  PromptOrder(int64_t rows, int64_t train_batch_size, bool shuffle, uint64_t seed);

  int64_t steps_per_epoch() const { return rows_ / train_batch_size_; }
  int64_t epoch(int64_t step) const { return step / steps_per_epoch(); }
  /// train_batch_size indices into the loaded rows.
  std::vector<int64_t> indices(int64_t step) const;

 private:
  int64_t rows_, train_batch_size_;
  bool shuffle_;
  uint64_t seed_;
};

/// The GRPO group's name: one per prompt and epoch, the same at any layout.
std::string sample_uid(int64_t epoch, int64_t row);

}  // namespace verlcpp::data
