#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/chat_template.h"
#include "data/prompts.h"
#include "data/tokenizer.h"
#include "reward/manager.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// Prompts as a run takes them, with their tokens.
struct Prompts {
  std::vector<data::PromptRow> rows;
  std::vector<std::vector<int32_t>> ids;  // of rows, cut to data.max_prompt_length
};

/// The files of one key, data.train_files or data.val_files, and how many rows are sampled of them.
struct PromptFiles {
  std::string key;
  std::vector<std::string> files;
  std::string max_samples_key;
  int64_t max_samples = -1;
};
PromptFiles train_prompt_files(const DataConfig& config);
PromptFiles val_prompt_files(const DataConfig& config);
/// Those that a run reads: for training, and for validation where somebody named some or asked for
/// one (otherwise the shipped tree's need not exist).
std::vector<PromptFiles> prompt_files(const TrainConfig& config, const config::Node& tree);

/// Reads all files and checks every row, also those that are not sampled: columns, types, roles, a
/// scorer for its data_source, a ground truth that the scorer can use, a prompt that renders, has
/// tokens and is no longer than data.max_prompt_length. One DataError (RowReport) names all bad
/// rows. As in verl, data.filter_overlong_prompts drops a prompt that is too long or does not
/// render, after sampling; without it data.truncation says whether a long one is an error or is
/// cut, and a line tells how many were. That no row is left is an error. Prints "dataset len: N",
/// what was sampled, and "filter dataset len: M". `beat` is called at every row; what it throws
/// goes through.
Prompts scan_prompts(const DataConfig& config, const PromptFiles& files,
                     const data::Tokenizer& tokenizer, const data::ChatTemplate& chat,
                     const reward::Manager& reward, const std::function<void()>& beat);

/// verl's data.truncation of a prompt to `limit` tokens: left keeps the end, right the beginning,
/// middle both halves (the second one token longer when `limit` is odd).
std::vector<int32_t> truncate_prompt(std::vector<int32_t> ids, int64_t limit,
                                     const std::string& truncation);

}  // namespace verlcpp::train
