#include "train/metrics.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"

namespace verlcpp::train {
namespace {

std::string shortest(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf");
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

/// The step of a complete row, or -1.
int64_t step_of(const std::string& line) {
  const auto row = nlohmann::json::parse(line, nullptr, false);
  if (!row.is_object() || !row.contains("step") || !row.contains("data") ||
      !row["step"].is_number_integer())
    return -1;
  return row["step"].get<int64_t>();
}

}  // namespace

void Metrics::set(const std::string& name, double value) {
  for (auto& [known, old] : values_) {
    if (known != name) continue;
    old = value;
    return;
  }
  values_.emplace_back(name, value);
}

void Metrics::set_summary(const std::string& name, std::span<const double> values) {
  if (values.empty()) return;
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  set(name + "/mean", sum / static_cast<double>(values.size()));
  set(name + "/max", *std::max_element(values.begin(), values.end()));
  set(name + "/min", *std::min_element(values.begin(), values.end()));
}

double Metrics::at(const std::string& name) const {
  for (const auto& [known, value] : values_) {
    if (known == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string console_line(int64_t step, const Metrics& metrics) {
  std::string line = "step:" + std::to_string(step);
  for (const auto& [name, value] : metrics.values()) line += " - " + name + ":" + shortest(value);
  return line;
}

std::string json_line(int64_t step, const Metrics& metrics) {
  std::string line = "{\"step\":" + std::to_string(step) + ",\"data\":{";
  bool first = true;
  for (const auto& [name, value] : metrics.values()) {
    line +=
        (first ? "\"" : ",\"") + name + "\":" + (std::isfinite(value) ? shortest(value) : "null");
    first = false;
  }
  return line + "}}";
}

std::string metrics_path(const std::string& project, const std::string& experiment) {
  if (const char* path = std::getenv("VERL_FILE_LOGGER_PATH")) return path;
  const char* root = std::getenv("VERL_FILE_LOGGER_ROOT");
  return (std::filesystem::path(root == nullptr ? "." : root) / project / (experiment + ".jsonl"))
      .string();
}

std::string MetricsFile::open(int64_t done_steps) {
  std::error_code failed;
  const auto parent = std::filesystem::path(path_).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, failed);
  if (failed) {
    throw DeviceError("metrics file " + path_ + ": cannot create its folder: " + failed.message());
  }
  if (std::filesystem::exists(path_) && !std::filesystem::is_regular_file(path_)) {
    throw DataError("metrics file " + path_ + " is not a regular file");
  }
  std::ifstream in(path_, std::ios::binary);
  std::uintmax_t keep = 0;
  int64_t cut_rows = 0;
  bool torn = false;
  std::string line;
  while (in && std::getline(in, line)) {
    const bool complete = !in.eof();  // the newline was there
    const int64_t step = complete ? step_of(line) : -1;
    if (cut_rows == 0 && !torn && step >= 0 && step <= done_steps) {
      keep += line.size() + 1;
    } else if (step >= 0) {
      ++cut_rows;
    } else if (complete) {
      throw DataError(
          "metrics file " + path_ + ": row '" + line.substr(0, 60) +
          "' is not a metrics row; set trainer.experiment_name or VERL_FILE_LOGGER_PATH "
          "to a file of its own");
    } else {
      torn = true;
    }
  }
  in.close();
  if (!std::ofstream(path_, std::ios::binary | std::ios::app)) {
    throw DeviceError("metrics file " + path_ + ": cannot write: " + std::strerror(errno));
  }
  if (cut_rows == 0 && !torn) return "";
  std::filesystem::resize_file(path_, keep, failed);
  if (failed) throw DeviceError("metrics file " + path_ + ": cannot cut it: " + failed.message());
  std::string message = "metrics file " + path_ + ": cut";
  if (cut_rows > 0) {
    message += " " + std::to_string(cut_rows) + " row(s) after step " + std::to_string(done_steps);
  }
  if (torn) message += std::string(cut_rows > 0 ? " and" : "") + " a torn line";
  return message;
}

void MetricsFile::append(int64_t step, const Metrics& metrics) const {
  std::ofstream out(path_, std::ios::binary | std::ios::app);
  out << json_line(step, metrics) + "\n" << std::flush;
  if (!out) {
    throw DeviceError("metrics file " + path_ + ": cannot write step " + std::to_string(step) +
                      ": " + std::strerror(errno));
  }
}

}  // namespace verlcpp::train
