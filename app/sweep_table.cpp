#include "app/sweep_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace verlcpp::app {
namespace {

using nlohmann::ordered_json;

/// The columns, in this order; one that ends with / is every metric that begins so.
constexpr std::array kTableMetrics = {"critic/score/mean", "val-core/", "actor/loss",
                                      "timing_s/step"};
constexpr size_t kLongestError = 300;  // bytes, in the table

bool belongs(const std::string& name, const std::string& column) {
  return column.ends_with('/') ? name.starts_with(column) : name == column;
}

const double* find(const JobResult& result, const std::string& name) {
  for (const auto& [known, value] : result.metrics) {
    if (known == name) return &value;
  }
  return nullptr;
}

std::vector<std::string> metric_columns(const std::vector<JobResult>& results) {
  std::vector<std::string> columns;
  for (const std::string column : kTableMetrics) {
    for (const JobResult& result : results) {
      for (const auto& [name, value] : result.metrics) {
        const bool there = std::find(columns.begin(), columns.end(), name) != columns.end();
        if (belongs(name, column) && !there) columns.push_back(name);
      }
    }
  }
  return columns;
}

/// Whether `name` is the end of that key alone.
bool tells_apart(const std::string& name, const std::vector<std::string>& keys) {
  return std::count_if(keys.begin(), keys.end(), [&](const std::string& key) {
           return key == name || key.ends_with("." + name);
         }) == 1;
}

/// lr of actor_rollout_ref.actor.optim.lr, or optim.lr where another key ends with lr.
std::string short_name(const std::string& key, const std::vector<std::string>& keys) {
  for (size_t dot = key.rfind('.'); dot != std::string::npos && dot > 0;
       dot = key.rfind('.', dot - 1)) {
    if (tells_apart(key.substr(dot + 1), keys)) return key.substr(dot + 1);
  }
  return key;
}

std::string how_it_ended(const JobResult& result) {
  if (!result.end) return "not started";
  if (result.end->code == 0) return "ok";
  if (result.end->code == 75) return "stopped (75)";
  return "exit " + std::to_string(result.end->code);
}

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

using Row = std::vector<std::string>;

std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows[0].size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - row[i].size(), ' ');
      text += row[i] + (i + 1 < row.size() ? gap + "  " : "\n");
    }
  }
  return text;
}

Row header(const SweepPlan& plan, const std::vector<std::string>& metrics) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : plan.jobs[0].job.swept) {
    keys.push_back(key.substr(std::min(key.find_first_not_of("+~"), key.size())));
  }
  Row row{"job"};
  for (const std::string& key : keys) row.push_back(short_name(key, keys));
  row.insert(row.end(), {"ended", "steps"});
  row.insert(row.end(), metrics.begin(), metrics.end());
  return row;
}

std::string errors(const std::vector<JobResult>& results) {
  std::string text;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].end || results[i].end->error.empty()) continue;
    std::string error = results[i].end->error;
    if (error.size() > kLongestError) error = error.substr(0, kLongestError) + "...";
    text += "job " + std::to_string(i) + ": " + error + "\n";
  }
  return text;
}

}  // namespace

void read_metrics(const std::string& file, JobResult& result) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const ordered_json row = ordered_json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("data") || !row.contains("step")) continue;
    if (!row["step"].is_number_integer() || !row["data"].is_object()) continue;
    result.steps = row["step"].get<int64_t>();
    for (const auto& [name, value] : row["data"].items()) {
      if (!value.is_number()) continue;
      const auto known = std::find_if(result.metrics.begin(), result.metrics.end(),
                                      [&](const auto& each) { return each.first == name; });
      if (known == result.metrics.end()) {
        result.metrics.emplace_back(name, value.get<double>());
      } else {
        known->second = value.get<double>();
      }
    }
  }
}

std::string to_table(const SweepPlan& plan, const std::vector<JobResult>& results) {
  const std::vector<std::string> metrics = metric_columns(results);
  std::vector<Row> rows{header(plan, metrics)};
  for (size_t i = 0; i < results.size(); ++i) {
    Row row{std::to_string(i)};
    for (const auto& [key, value] : plan.jobs[i].job.swept) row.push_back(value);
    row.push_back(how_it_ended(results[i]));
    row.push_back(results[i].metrics.empty() ? "-" : std::to_string(results[i].steps));
    for (const std::string& name : metrics) {
      const double* value = find(results[i], name);
      row.push_back(value == nullptr ? "-" : number(*value));
    }
    rows.push_back(std::move(row));
  }
  return aligned(rows) + errors(results);
}

std::string to_json_lines(const SweepPlan& plan, const std::vector<JobResult>& results) {
  std::string text;
  for (size_t i = 0; i < results.size(); ++i) {
    const PlannedJob& planned = plan.jobs[i];
    const auto& end = results[i].end;
    ordered_json row{{"job", i}, {"swept", ordered_json::object()}};
    for (const auto& [key, value] : planned.job.swept) row["swept"][key] = value;
    row["overrides"] = planned.job.overrides;
    row["folder"] = planned.folder;
    row["exit_code"] = end ? ordered_json(end->code) : ordered_json();
    row["error"] = end && !end->error.empty() ? ordered_json(end->error) : ordered_json();
    row["seconds"] = end ? ordered_json(end->seconds) : ordered_json();
    row["step"] = results[i].metrics.empty() ? ordered_json() : ordered_json(results[i].steps);
    row["metrics"] = ordered_json::object();
    for (const auto& [name, value] : results[i].metrics) row["metrics"][name] = value;
    // An error line may hold bytes that are no UTF-8.
    text += row.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  }
  return text;
}

}  // namespace verlcpp::app
