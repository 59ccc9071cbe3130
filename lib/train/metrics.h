#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace verlcpp::train {

/// One step's numbers under verl's metric names, in the order they were set.
class Metrics {
 public:
  void set(const std::string& name, double value);
  /// name/mean, name/max, name/min; nothing for no values.
  void set_summary(const std::string& name, std::span<const double> values);
  /// All of `more`.
  void set(const Metrics& more);
  const std::vector<std::pair<std::string, double>>& values() const { return values_; }
  /// The value, or NaN.
  double at(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, double>> values_;
};

/// verl's console line: "step:1 - actor/entropy:0.31 - ...", numbers in the shortest form that
/// reads back to the same value.
std::string console_line(int64_t step, const Metrics& metrics);
/// As Python prints a dict: "{'val-core/a/acc/mean@1': 0.5}".
std::string python_dict(const Metrics& metrics);
/// verl's file logger row: {"step":1,"data":{"actor/entropy":0.31}}; a number that is not finite is
/// null.
std::string json_line(int64_t step, const Metrics& metrics);

/// verl's file logger: $VERL_FILE_LOGGER_PATH, else <$VERL_FILE_LOGGER_ROOT or .>/<project>/
/// <experiment>.jsonl.
std::string metrics_path(const std::string& project, const std::string& experiment);

/// Appends one row a step, and one for step 0 when there is a validation before training.
/// DeviceError names the path when the disk does not take it.
class MetricsFile {
 public:
  explicit MetricsFile(std::string path) : path_(std::move(path)) {}
  /// DataError for a file that holds anything but metrics rows in the order of their steps and a
  /// torn last line, DeviceError for one that cannot be written. Changes nothing.
  void check() const;
  /// For a run that continues after `done_steps`: cuts rows of later steps (all rows for 0) and a
  /// torn last line, ends a last row that lacks its line feed; returns what was cut, and which rows
  /// are missing, as messages.
  std::vector<std::string> open(int64_t done_steps) const;
  /// Adds what a validation after `step` found (names beginning with "val-") to that row, where it
  /// is the last and has none yet, in one write; or as a row of its own where all rows are of
  /// earlier steps or there is no file yet. Else, or where a line is torn, false, and the file
  /// stays as it is.
  bool add_validation(int64_t step, const Metrics& metrics) const;
  /// Whether there is a row of `step` without a validation.
  bool lacks_validation(int64_t step) const;
  /// One write. A row that does not fit is cut back at once.
  void append(int64_t step, const Metrics& metrics) const;
  /// Brings all rows to the disk.
  void sync() const;
  const std::string& path() const { return path_; }

 private:
  struct Scan;
  Scan scan(int64_t done_steps) const;
  void write(const std::string& text, int64_t step) const;
  bool extend_last_row(int64_t step, const Metrics& metrics) const;
  [[noreturn]] void throw_foreign(const std::string& line) const;
  [[noreturn]] void throw_disordered(int64_t line, int64_t step, int64_t before_line,
                                     int64_t before) const;

  std::string path_;
};

}  // namespace verlcpp::train
