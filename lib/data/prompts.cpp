#include "data/prompts.h"

#include <cstdlib>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "base/rng.h"
#include "data/row_file.h"

namespace verlcpp::data {

std::string expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || (path != "~" && !path.starts_with("~/"))) return path;
  return home + path.substr(1);
}

void scan_prompts(const PromptOptions& options, RowReport& report,
                  const std::function<void(ParsedRow)>& visit) {
  if (options.train_files.empty()) {
    throw ConfigError(options.key +
                      " is empty; valid: one or more .parquet, .json or .jsonl files");
  }
  std::string problems;
  for (const std::string& file : options.train_files) {
    const std::string problem = row_file_problem(expand_home(file));
    if (!problem.empty()) problems += "\n  " + problem;
  }
  if (!problems.empty()) throw DataError(options.key + " cannot be read:" + problems);

  const RowColumns columns{
      .prompt_key = options.prompt_key,
      .reward_fn_key = options.reward_fn_key,
      .unknown_role = options.filter_overlong_prompts ? Fate::kDropped : Fate::kStops};
  const std::vector<std::string> wanted{
      options.prompt_key, options.reward_fn_key, "reward_model", "tools", "extra_info", "images",
      "videos",           "agent_name"};
  const auto visit_row = [&](const FileRow& row) {
    report.next_row(row.origin);
    if (row.json == nullptr) {
      report.add("unreadable", row.problem);
      return;
    }
    ParsedRow parsed = parse_prompt_row(*row.json, columns, report);
    parsed.row.row = report.rows() - 1;
    parsed.row.origin = row.origin;
    visit(std::move(parsed));
  };
  for (const std::string& file : options.train_files) {
    const std::string path = expand_home(file);
    try {
      for_each_row(path, wanted, visit_row);
    } catch (const DataError& error) {
      if (!std::string_view(error.what()).starts_with(path)) throw;  // of `visit`
      throw DataError(options.key + ": " + error.what());
    }
  }
}

std::vector<PromptRow> read_prompts(const PromptOptions& options) {
  RowReport report(options.key);
  std::vector<PromptRow> rows;
  scan_prompts(options, report, [&](ParsedRow parsed) {
    if (!report.row_has_problem()) rows.push_back(std::move(parsed.row));
  });
  report.throw_if_unusable();
  return rows;
}

std::vector<int64_t> sample_rows(int64_t total, int64_t max_samples, bool shuffle, uint64_t seed,
                                 const std::string& key) {
  if (max_samples < -1 || max_samples == 0) {
    throw ConfigError(key + " is " + std::to_string(max_samples) +
                      "; valid: -1 (all) or a positive number of rows");
  }
  const bool all = max_samples == -1 || max_samples >= total;
  std::vector<int64_t> chosen;
  if (shuffle && !all) {
    chosen = random_permutation(total, rng_key(seed, RngPurpose::kSubsample), 0);
  } else {
    chosen.resize(static_cast<size_t>(total));
    std::iota(chosen.begin(), chosen.end(), 0);
  }
  if (!all) chosen.resize(static_cast<size_t>(max_samples));
  return chosen;
}

PromptOrder::PromptOrder(int64_t rows, int64_t train_batch_size, bool shuffle, uint64_t seed)
    : rows_(rows), train_batch_size_(train_batch_size), shuffle_(shuffle), seed_(seed) {
  if (train_batch_size >= 1 && train_batch_size <= rows) return;
  throw ConfigError("data.train_batch_size is " + std::to_string(train_batch_size) +
                    "; valid: 1 to " + std::to_string(rows) + ", the number of rows read");
}

std::vector<int64_t> PromptOrder::indices(int64_t step) const {
  expects(step >= 0, "steps count from 0");
  const int64_t first = step % steps_per_epoch() * train_batch_size_;
  std::vector<int64_t> batch(static_cast<size_t>(train_batch_size_));
  if (!shuffle_) {
    for (size_t i = 0; i < batch.size(); ++i) batch[i] = first + static_cast<int64_t>(i);
    return batch;
  }
  const auto order = random_permutation(rows_, rng_key(seed_, RngPurpose::kDataOrder),
                                        static_cast<uint64_t>(epoch(step)));
  for (size_t i = 0; i < batch.size(); ++i) batch[i] = order[static_cast<size_t>(first) + i];
  return batch;
}

std::string sample_uid(int64_t epoch, int64_t row) {
  return "e" + std::to_string(epoch) + "-r" + std::to_string(row);
}

}  // namespace verlcpp::data
