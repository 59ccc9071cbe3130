#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/prompt_row.h"
#include "data/row_report.h"

namespace verlcpp::data {

/// Which files to read, and how; the fields are verl's keys of the same name.
struct PromptOptions {
  std::string key = "data.train_files";  // or data.val_files: names the files in messages
  std::vector<std::string> train_files;
  std::string prompt_key = "prompt";
  std::string reward_fn_key = "data_source";
  bool filter_overlong_prompts = false;  // a row with an unknown role is dropped, not an error
};

/// A leading "~" or "~/" becomes $HOME.
std::string expand_home(const std::string& path);

/// Reads every row of the files, in order: .parquet, .jsonl, and .json (an array, or one object a
/// line). What is wrong with a row goes to `report`; `visit` gets every row that is JSON, as
/// far as it could be read, while it is the report's row at hand. One DataError names every file
/// that cannot be read.
void scan_prompts(const PromptOptions& options, RowReport& report,
                  const std::function<void(ParsedRow)>& visit);

/// The rows of all files; one DataError for all that is wrong with them (RowReport).
std::vector<PromptRow> read_prompts(const PromptOptions& options);

/// verl's data.train_max_samples and val_max_samples: which of `total` rows to take. With shuffle a
/// random choice without replacement by data.seed, in the order drawn, else the first ones. A limit
/// of -1, or one past the end, keeps all rows. ConfigError, naming `key`, for 0 and less than -1.
std::vector<int64_t> sample_rows(int64_t total, int64_t max_samples, bool shuffle, uint64_t seed,
                                 const std::string& key = "data.train_max_samples");

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
