#include "data/prompts.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "data/json_reason.h"
#include "data/line_file.h"
#include "data/message_reader.h"

namespace verlcpp::data {
namespace {

using Json = nlohmann::ordered_json;  // what templates print of a row keeps its order

constexpr int kShownProblems = 20;
constexpr int kMaxDepth = 64;  // printing a deeper value back would overflow the stack

/// Collects what is wrong over all rows, so that one message shows everything.
class Report {
 public:
  void add(const std::string& origin, const std::string& problem) {
    if (origin != last_origin_) ++rows_;
    last_origin_ = origin;
    if (++problems_ <= kShownProblems) text_ += "\n  " + origin + ": " + problem;
  }
  void throw_if_any() const {
    if (rows_ == 0) return;
    std::string message = "data.train_files: " + std::to_string(rows_) +
                          (rows_ == 1 ? " bad row:" : " bad rows:") + text_;
    if (problems_ > kShownProblems) {
      message += "\n  and " + std::to_string(problems_ - kShownProblems) + " more problems";
    }
    throw DataError(message);
  }

 private:
  int64_t rows_ = 0, problems_ = 0;
  std::string last_origin_, text_;
};

Json parse(std::string_view text) {
  return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) throw DataError("nested deeper than " + std::to_string(kMaxDepth));
    return true;
  });
}

class RowParser {
 public:
  RowParser(const PromptOptions& options, Report& report) : options_(options), report_(report) {}

  void add(const Json& json, const std::string& origin) {
    origin_ = origin;
    ok_ = true;
    if (!json.is_object()) {
      problem("the row is " + shown_json(json) + "; valid: a JSON object");
      return;
    }
    PromptRow row;
    row.row = next_row_;
    row.origin = origin;
    read_prompt(json, row);
    read_data_source(json, row);
    read_ground_truth(json, row);
    const auto tools = json.find("tools");
    if (tools != json.end()) {
      row.tools_json = read_tools(*tools, [this](const std::string& text) { problem(text); });
    }
    if (json.contains("extra_info")) row.extra_json = json["extra_info"].dump();
    ++next_row_;
    if (ok_) rows_.push_back(std::move(row));
  }
  std::vector<PromptRow> take() { return std::move(rows_); }

 private:
  void problem(const std::string& text) {
    ok_ = false;
    report_.add(origin_, text);
  }
  const Json* field(const Json& json, const std::string& key, const std::string& valid) {
    const auto found = json.find(key);
    if (found != json.end()) return &*found;
    problem(key + " is missing; valid: " + valid);
    return nullptr;
  }

  void read_prompt(const Json& json, PromptRow& row) {
    const std::string& key = options_.prompt_key;
    const std::string valid = R"(a string, or a list of {"role": ..., "content": ...})";
    const Json* prompt = field(json, key, valid);
    if (prompt == nullptr) return;
    if (prompt->is_string() && !prompt->get_ref<const std::string&>().empty()) {
      row.prompt.push_back({"user", prompt->get<std::string>()});
      return;
    }
    if (!prompt->is_array() || prompt->empty()) {
      problem(key + " is " + shown_json(*prompt) + "; valid: " + valid + ", not empty");
      return;
    }
    const auto tell = [this](const std::string& text) { problem(text); };
    for (size_t i = 0; i < prompt->size(); ++i) {
      row.prompt.push_back(read_message((*prompt)[i], key + "[" + std::to_string(i) + "]", tell));
    }
  }

  void read_data_source(const Json& json, PromptRow& row) {
    const std::string& key = options_.reward_fn_key;
    const std::string valid = "a string that names the reward function";
    const Json* source = field(json, key, valid);
    if (source == nullptr) return;
    if (!source->is_string()) {
      problem(key + " is " + shown_json(*source) + "; valid: " + valid);
      return;
    }
    row.data_source = source->get<std::string>();
  }

  void read_ground_truth(const Json& json, PromptRow& row) {
    const Json* reward_model = field(json, "reward_model", R"({"ground_truth": ...})");
    if (reward_model == nullptr) return;
    if (!reward_model->is_object()) {
      problem("reward_model is " + shown_json(*reward_model) + R"(; valid: {"ground_truth": ...})");
      return;
    }
    const auto truth = reward_model->find("ground_truth");
    const std::string valid = "; valid: a string or a number";
    if (truth == reward_model->end()) {
      problem("reward_model.ground_truth is missing" + valid);
    } else if (truth->is_string()) {
      row.ground_truth = truth->get<std::string>();
    } else if (truth->is_number()) {
      row.ground_truth = truth->dump();
    } else {
      problem("reward_model.ground_truth is " + shown_json(*truth) + valid);
    }
  }

  const PromptOptions& options_;
  Report& report_;
  std::string origin_;
  bool ok_ = true;
  int64_t next_row_ = 0;
  std::vector<PromptRow> rows_;
};

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

void read_lines(const std::string& path, RowParser& parser, Report& report) {
  for_each_line(path, 0, [&](const Line& line) {
    if (is_blank(line.text)) return true;
    const std::string origin = path + ":" + std::to_string(line.number);
    try {
      parser.add(parse(line.text), origin);
    } catch (const Json::exception& error) {
      report.add(origin, "not JSON: " + json_reason(error.what(), true));
    } catch (const DataError& error) {
      report.add(origin, error.what());
    }
    return true;
  });
}

void read_array(const std::string& path, RowParser& parser) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  Json array;
  try {
    array = parse(text.view());
  } catch (const Json::exception& error) {
    throw DataError("data.train_files: " + path +
                    " is not JSON: " + json_reason(error.what(), false));
  } catch (const DataError& error) {
    throw DataError("data.train_files: " + path + " is " + error.what());
  }
  for (size_t i = 0; i < array.size(); ++i) {
    parser.add(array[i], path + "[" + std::to_string(i) + "]");
  }
}

/// '[' for a JSON array, '{' for one object a line, 0 for a file of blanks.
char first_character(const std::string& path) {
  char first = 0;
  for_each_line(path, 0, [&](const Line& line) {
    const size_t at = line.text.find_first_not_of(" \t\r");
    if (at == std::string_view::npos) return true;
    first = line.text[at];
    return false;
  });
  return first;
}

/// What is wrong with the file as a whole; empty when its rows can be read.
std::string file_problem(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".parquet") return path + ": .parquet is not read yet; .json and .jsonl are";
  if (ending != ".json" && ending != ".jsonl") {
    return path + ": the ending '" + ending + "' is not known; .json and .jsonl are read";
  }
  if (const std::string why = why_unreadable(path); !why.empty()) return path + " " + why;
  if (first_character(path) == 0) return path + " is empty";
  return "";
}

}  // namespace

std::string expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || (path != "~" && !path.starts_with("~/"))) return path;
  return home + path.substr(1);
}

std::vector<PromptRow> read_prompts(const PromptOptions& options) {
  if (options.train_files.empty()) {
    throw ConfigError("data.train_files is empty; valid: one or more .json or .jsonl files");
  }
  std::string problems;
  for (const std::string& file : options.train_files) {
    const std::string problem = file_problem(expand_home(file));
    if (!problem.empty()) problems += "\n  " + problem;
  }
  if (!problems.empty()) throw DataError("data.train_files cannot be read:" + problems);

  Report report;
  RowParser parser(options, report);
  for (const std::string& file : options.train_files) {
    const std::string path = expand_home(file);
    if (first_character(path) == '[') {
      read_array(path, parser);
    } else {
      read_lines(path, parser, report);
    }
  }
  report.throw_if_any();
  std::vector<PromptRow> rows = parser.take();
  if (rows.empty()) throw DataError("data.train_files: there is no row in the files");
  return rows;
}

std::vector<PromptRow> subsample(std::vector<PromptRow> rows, int64_t train_max_samples,
                                 bool shuffle, uint64_t seed) {
  const auto total = static_cast<int64_t>(rows.size());
  if (train_max_samples < -1 || train_max_samples == 0) {
    throw ConfigError("data.train_max_samples is " + std::to_string(train_max_samples) +
                      "; valid: -1 (all) or a positive number of rows");
  }
  if (train_max_samples == -1 || train_max_samples >= total) return rows;
  if (!shuffle) {
    rows.resize(static_cast<size_t>(train_max_samples));
    return rows;
  }
  const auto order = random_permutation(total, rng_key(seed, RngPurpose::kSubsample), 0);
  std::vector<PromptRow> chosen;
  for (int64_t i = 0; i < train_max_samples; ++i) {
    chosen.push_back(std::move(rows[static_cast<size_t>(order[static_cast<size_t>(i)])]));
  }
  return chosen;
}

std::vector<PromptRow> load_prompts(const PromptOptions& options) {
  std::vector<PromptRow> rows = read_prompts(options);
  const size_t total = rows.size();
  log::info("dataset len: " + std::to_string(total));
  rows = subsample(std::move(rows), options.train_max_samples, options.shuffle, options.seed);
  if (rows.size() < total) {
    log::info("selected " + std::to_string(rows.size()) + (options.shuffle ? " random" : " first") +
              " samples out of " + std::to_string(total));
  }
  return rows;
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
