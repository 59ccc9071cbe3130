#include "data/replay.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "data/json_reason.h"

namespace verlcpp::data {
namespace {

using Json = nlohmann::json;

constexpr int kShownProblems = 20;
constexpr size_t kShownValue = 60;
// A log-probability is at most 0; the rounding of what recorded it may end just above.
constexpr double kLogProbRounding = 1e-3;

template <class Count>
std::string counted(Count count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= kShownValue ? text : text.substr(0, kShownValue) + "...";
}

/// Reads the fields of one row; every problem goes to `problems`.
class RowReader {
 public:
  RowReader(const Json& json, const ReplayOptions& options) : json_(json), options_(options) {}

  Trajectory read() {
    Trajectory out;
    out.uid = text("uid", true);
    if (json_.contains("data_source")) out.data_source = text("data_source", false);
    out.prompt_ids = tokens("prompt_ids", options_.max_prompt_length, "data.max_prompt_length");
    out.response_ids =
        tokens("response_ids", options_.max_response_length, "data.max_response_length");
    read_mask(out);
    out.reward = number("reward", json_.value("reward", Json()), "a finite number");
    read_log_probs(out);
    if (json_.contains("temperature")) read_temperature(out);
    return out;
  }

  std::vector<std::string> problems;

 private:
  void bad(const std::string& field, const Json& value, const std::string& valid) {
    const bool element = field.find('[') != std::string::npos;
    const bool missing = value.is_null() && !element && !json_.contains(field);
    problems.push_back(field + " is " + (missing ? "missing" : shown(value)) + "; valid: " + valid);
  }

  std::string text(const std::string& field, bool required) {
    const Json value = json_.value(field, Json());
    const std::string valid = required ? "a string, not empty" : "a string";
    if (!value.is_string() || (required && value.get_ref<const std::string&>().empty())) {
      bad(field, value, valid);
      return "";
    }
    return value.get<std::string>();
  }

  void read_temperature(Trajectory& out) {
    const Json& value = json_["temperature"];
    const std::string valid = "a finite number above 0";
    out.temperature = number("temperature", value, valid);
    if (value.is_number() && out.temperature <= 0) bad("temperature", value, valid);
  }

  double number(const std::string& field, const Json& value, const std::string& valid) {
    if (!value.is_number() || !std::isfinite(value.get<double>())) {
      bad(field, value, valid);
      return 0;
    }
    return value.get<double>();
  }

  std::vector<int32_t> tokens(const std::string& field, int64_t limit, const std::string& key) {
    const Json value = json_.value(field, Json());
    const std::string valid = "token ids from 0 to " + std::to_string(options_.vocab - 1);
    if (!value.is_array() || value.empty()) {
      bad(field, value, "a list of " + valid + ", not empty");
      return {};
    }
    if (static_cast<int64_t>(value.size()) > limit) {
      problems.push_back(field + " has " + std::to_string(value.size()) + " tokens; valid: 1 to " +
                         key + "=" + std::to_string(limit));
    }
    std::vector<int32_t> out;
    for (size_t i = 0; i < value.size(); ++i) {
      const Json& item = value[i];
      const bool whole = item.is_number_integer();
      const bool fits = whole &&
                        (!item.is_number_unsigned() || item.get<uint64_t>() <= INT32_MAX) &&
                        item.get<int64_t>() >= 0 && item.get<int64_t>() < options_.vocab;
      if (!fits) {
        bad(field + "[" + std::to_string(i) + "]", item, valid);
        return {};
      }
      out.push_back(item.get<int32_t>());
    }
    return out;
  }

  /// The list `field`, which must be as long as response_ids; null (and a problem) when it is not.
  const Json* response_list(const std::string& field, const Trajectory& out) {
    const auto found = json_.find(field);
    if (found == json_.end()) return nullptr;
    if (!found->is_array()) {
      bad(field, *found, "a list with one entry for each of response_ids");
      return nullptr;
    }
    if (found->size() != out.response_ids.size() && !out.response_ids.empty()) {
      problems.push_back(field + " has " + counted(found->size(), "entry", "entries") +
                         "; valid: " + std::to_string(out.response_ids.size()) +
                         ", one for each of response_ids");
      return nullptr;
    }
    return &*found;
  }

  void read_mask(Trajectory& out) {
    out.response_mask.assign(out.response_ids.size(), 1);
    const Json* mask = response_list("response_mask", out);
    if (mask == nullptr) return;
    for (size_t i = 0; i < out.response_mask.size(); ++i) {
      const Json& item = (*mask)[i];
      const bool zero = item == 0 || item == false, one = item == 1 || item == true;
      if ((!zero && !one) || item.is_number_float()) {
        return bad("response_mask[" + std::to_string(i) + "]", item, "0 or 1");
      }
      out.response_mask[i] = one;
    }
  }

  void read_log_probs(Trajectory& out) {
    const Json* list = response_list("rollout_log_probs", out);
    if (list == nullptr) return;
    for (size_t i = 0; i < out.response_ids.size(); ++i) {
      const std::string name = "rollout_log_probs[" + std::to_string(i) + "]";
      const std::string valid = "a finite number of at most 0";
      const size_t before = problems.size();
      out.rollout_log_probs.push_back(number(name, (*list)[i], valid));
      if (out.rollout_log_probs.back() > kLogProbRounding) bad(name, (*list)[i], valid);
      if (problems.size() > before) return;
    }
  }

  const Json& json_;
  const ReplayOptions& options_;
};

struct ParsedRow {
  Trajectory trajectory;
  std::vector<std::string> problems;
  std::vector<std::string> unread;  // fields that mean nothing here
};

ParsedRow parse_row(std::string_view text, const ReplayOptions& options) {
  static const std::set<std::string> kFields{"uid",         "prompt_ids",       "response_ids",
                                             "reward",      "response_mask",    "temperature",
                                             "data_source", "rollout_log_probs"};
  constexpr int kMaxDepth = 16;
  Json json;
  try {
    json = Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
      if (depth > kMaxDepth) throw DataError("the row is nested too deeply");
      return true;
    });
  } catch (const Json::exception& error) {
    return {{}, {"not JSON: " + json_reason(error.what(), true)}, {}};
  } catch (const DataError& error) {
    return {{}, {error.what()}, {}};
  }
  if (!json.is_object()) return {{}, {"the row is " + shown(json) + "; valid: an object"}, {}};
  RowReader reader(json, options);
  ParsedRow row;
  row.trajectory = reader.read();
  row.problems = std::move(reader.problems);
  for (const auto& [key, value] : json.items()) {
    if (!kFields.contains(key)) row.unread.push_back(key);
  }
  return row;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

/// Counts the rows of each uid within the current step.
class GroupCheck {
 public:
  GroupCheck(const ReplayOptions& options) : options_(options) {}

  void add(const std::string& uid, int64_t line) {
    if (counts_.empty()) first_line_ = line;
    ++counts_[uid];
    ++rows_;
  }
  /// Called after each full step; describes the first broken group.
  void close_step(int64_t step, int64_t last_line) {
    for (const auto& [uid, count] : counts_) {
      if (count == options_.n || !problem.empty()) continue;
      problem = options_.path + ": step " + std::to_string(step) + " (lines " +
                std::to_string(first_line_) + " to " + std::to_string(last_line) + ") has " +
                std::to_string(count) + " rows with uid \"" + uid +
                "\"; valid: actor_rollout_ref.rollout.n=" + std::to_string(options_.n) +
                " of each of data.train_batch_size=" + std::to_string(options_.train_batch_size) +
                " uids";
    }
    counts_.clear();
    rows_ = 0;
  }
  int64_t rows() const { return rows_; }
  std::string problem;

 private:
  const ReplayOptions& options_;
  std::map<std::string, int64_t> counts_;
  int64_t first_line_ = 0, rows_ = 0;
};

}  // namespace

ReplayReader::ReplayReader(ReplayOptions options) : options_(std::move(options)) {
  const std::string& path = options_.path;
  expects(rows_per_step() > 0 && options_.vocab > 0, "ReplayReader: sizes are positive");
  if (const std::string why = why_unreadable(path); !why.empty()) {
    throw DataError("actor_rollout_ref.rollout.replay_path: " + path + " " + why);
  }
  std::string shown_problems;
  int64_t bad_rows = 0, problems = 0;
  std::set<std::string> unread;
  GroupCheck groups(options_);
  for_each_line(path, 0, [&](const Line& line) {
    if (is_blank(line.text)) return true;
    if (rows_ % rows_per_step() == 0) step_offset_.push_back(line.offset);
    ++rows_;
    const ParsedRow row = parse_row(line.text, options_);
    const std::string place = path + ":" + std::to_string(line.number);
    if (!row.problems.empty()) ++bad_rows;
    for (const std::string& problem : row.problems) {
      if (++problems <= kShownProblems) shown_problems += "\n  " + place + ": " + problem;
    }
    for (const std::string& field : row.unread) {
      if (!unread.insert(field).second) continue;
      log::warning(place + ": field \"" + field + "\" means nothing in a recorded trajectory");
    }
    groups.add(row.trajectory.uid, line.number);
    if (groups.rows() == rows_per_step()) groups.close_step(steps() - 1, line.number);
    return true;
  });
  if (bad_rows > 0) {
    if (problems > kShownProblems) {
      shown_problems += "\n  and " + std::to_string(problems - kShownProblems) + " more problems";
    }
    throw DataError("actor_rollout_ref.rollout.replay_path: " + std::to_string(bad_rows) +
                    (bad_rows == 1 ? " bad row:" : " bad rows:") + shown_problems);
  }
  if (!groups.problem.empty()) {
    throw DataError("actor_rollout_ref.rollout.replay_path: " + groups.problem);
  }
  if (rows_ == 0) throw DataError("actor_rollout_ref.rollout.replay_path: " + path + " is empty");
}

void ReplayReader::require_steps(int64_t wanted) const {
  if (wanted <= steps()) return;
  throw DataError("actor_rollout_ref.rollout.replay_path: " + options_.path + " has " +
                  counted(rows_, "row", "rows") + ", enough for " +
                  counted(steps(), "step", "steps") +
                  " of data.train_batch_size=" + std::to_string(options_.train_batch_size) +
                  " x actor_rollout_ref.rollout.n=" + std::to_string(options_.n) + " rows; " +
                  counted(wanted, "step needs ", "steps need ") +
                  counted(wanted * rows_per_step(), "row", "rows"));
}

std::vector<Trajectory> ReplayReader::step(int64_t k) const {
  require_steps(k + 1);
  std::vector<Trajectory> out;
  for_each_line(options_.path, step_offset_[static_cast<size_t>(k)], [&](const Line& line) {
    if (is_blank(line.text)) return true;
    ParsedRow row = parse_row(line.text, options_);
    if (!row.problems.empty()) {
      throw DataError(options_.path + " changed during the run: " + row.problems.front());
    }
    out.push_back(std::move(row.trajectory));
    return static_cast<int64_t>(out.size()) < rows_per_step();
  });
  if (static_cast<int64_t>(out.size()) == rows_per_step()) return out;
  throw DataError(options_.path + " changed during the run: it became shorter");
}

namespace {

int64_t bytes_of_first_rows(const std::string& path, int64_t rows) {
  if (rows == 0) return 0;
  int64_t seen = 0, bytes = 0;
  for_each_line(path, 0, [&](const Line& line) {
    if (!line.complete) return false;
    ++seen;
    bytes = line.offset + static_cast<int64_t>(line.text.size()) + 1;
    return seen < rows;
  });
  if (seen == rows) return bytes;
  throw DataError("actor_rollout_ref.rollout.record_path: " + path + " has " +
                  std::to_string(seen) + " rows; the steps before the resumed one wrote " +
                  std::to_string(rows) + "; set it to a file of its own");
}

}  // namespace

ReplayWriter::ReplayWriter(const std::string& path, int64_t keep_rows)
    : file_(path, bytes_of_first_rows(path, keep_rows)), rows_(keep_rows) {}

void ReplayWriter::check(const std::string& path, int64_t keep_rows) {
  bytes_of_first_rows(path, keep_rows);
}

std::string ReplayWriter::why_foreign(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return "";
  if (std::string why = why_unreadable(path); !why.empty()) return why;
  bool ours = true;
  for_each_line(path, 0, [&](const Line& line) {
    constexpr std::string_view kBegin = "{\"uid\":";  // as written here
    const std::string_view begin = line.text.substr(0, line.text.find('\0'));
    const bool torn = !line.complete || begin.size() < line.text.size();
    if (torn && kBegin.starts_with(begin.substr(0, kBegin.size()))) return false;
    const Json row = Json::parse(line.text, nullptr, false);
    ours = row.is_object() && row.contains("uid") && row.contains("prompt_ids") &&
           row.contains("response_ids") && row.contains("reward");
    return false;
  });
  return ours ? "" : "holds something else than recorded trajectories";
}

void ReplayWriter::write_step(std::span<const Trajectory> trajectories) {
  std::string text;
  for (const Trajectory& t : trajectories) {
    expects(std::isfinite(t.reward) && std::isfinite(t.temperature), "recorded numbers are finite");
    nlohmann::ordered_json row{{"uid", t.uid}};
    if (!t.data_source.empty()) row["data_source"] = t.data_source;
    row["prompt_ids"] = t.prompt_ids;
    row["response_ids"] = t.response_ids;
    row["response_mask"] = t.response_mask;
    row["reward"] = t.reward;
    if (!t.rollout_log_probs.empty()) row["rollout_log_probs"] = t.rollout_log_probs;
    row["temperature"] = t.temperature;
    text += row.dump() + "\n";
  }
  if (!text.empty()) file_.write(text);
  rows_ += static_cast<int64_t>(trajectories.size());
}

}  // namespace verlcpp::data
