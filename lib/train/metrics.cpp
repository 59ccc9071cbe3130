#include "train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

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
#include <string_view>

#include "base/error.h"
#include "model/synced_file.h"
#include "train/made_folders.h"

namespace verlcpp::train {
namespace {

std::string shortest(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf");
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

constexpr std::string_view kRowEnd = "}}";

std::string json_members(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics.values()) {
    // A data_source in a name may hold anything.
    text += (text.empty() ? "" : ",") + nlohmann::json(name).dump() + ":" +
            (std::isfinite(value) ? shortest(value) : "null");
  }
  return text;
}

/// The metrics file opened at its end.
struct OpenFile {
  explicit OpenFile(const std::string& path)
      : fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
    if (fd >= 0) return;
    throw DeviceError("metrics file " + path + ": cannot write: " + std::strerror(errno));
  }
  ~OpenFile() { ::close(fd); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  const int fd;
};

MadeFolders make_folder(const std::string& path) {
  std::error_code failed;
  MadeFolders made(std::filesystem::path(path).parent_path(), failed);
  if (!failed) return made;
  made.remove_empty();
  throw DeviceError("metrics file " + path + ": cannot create its folder: " + failed.message());
}

/// The step of a row, from 0 (a validation before training), or -1.
int64_t step_of(const std::string& line) {
  const auto row = nlohmann::json::parse(line, nullptr, false);
  if (!row.is_object() || !row.contains("step") || !row.contains("data") ||
      !row["step"].is_number_integer())
    return -1;
  const auto step = row["step"].get<int64_t>();
  return step >= 0 ? step : -1;
}

/// Whether `line`, up to the first zero, may be what is left of a row.
bool begins_like_row(const std::string& line) {
  constexpr std::string_view kBegin = "{\"step\":";
  const std::string_view text = std::string_view(line).substr(0, line.find('\0'));
  return kBegin.starts_with(text.substr(0, kBegin.size()));
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
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

void Metrics::set(const Metrics& more) {
  for (const auto& [name, value] : more.values()) set(name, value);
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

std::string python_dict(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics.values()) {
    text += (text.empty() ? "'" : ", '") + name + "': " + shortest(value);
  }
  return "{" + text + "}";
}

std::string json_line(int64_t step, const Metrics& metrics) {
  return "{\"step\":" + std::to_string(step) + ",\"data\":{" + json_members(metrics) +
         std::string(kRowEnd);
}

std::string metrics_path(const std::string& project, const std::string& experiment) {
  if (const char* path = std::getenv("VERL_FILE_LOGGER_PATH")) return path;
  const char* root = std::getenv("VERL_FILE_LOGGER_ROOT");
  return (std::filesystem::path(root == nullptr ? "." : root) / project / (experiment + ".jsonl"))
      .string();
}

/// What the file holds for a run that continues after some step.
struct MetricsFile::Scan {
  std::uintmax_t keep = 0;  // bytes of the rows up to that step
  int64_t last_step = 0;    // up to which `missing` has been filled in
  int64_t last_row = -1;    // the last row that is kept
  std::string missing;      // steps without a row: "2, 5 to 7"
  int64_t cut_rows = 0;
  bool cut_first_validation = false;  // a row of step 0 is among them
  bool torn = false;
  bool lacks_line_feed = false;  // the last row that is kept

  /// The rows go on with `step`.
  void follow(int64_t step) {
    const int64_t first = last_step + 1, last = step - 1;
    last_step = step;
    if (first > last) return;
    missing += (missing.empty() ? "" : ", ") + std::to_string(first);
    if (first < last) missing += " to " + std::to_string(last);
  }
};

MetricsFile::Scan MetricsFile::scan(int64_t done_steps) const {
  std::ifstream in(path_, std::ios::binary);
  Scan found;
  std::string line, not_a_row;  // the first line that is none, while no other follows it
  int64_t number = 0, before = -1, before_number = 0, blank_lines = 0;
  while (in && std::getline(in, line)) {
    ++number;
    const bool ended = !in.eof();
    if (ended && is_blank(line)) {
      ++blank_lines;  // harmless at the end
      continue;
    }
    if (!not_a_row.empty() || (blank_lines > 0 && !found.torn)) throw_foreign(not_a_row);
    // Zeros are what a loss of power can leave in place of bytes.
    const bool zeros = line.find('\0') != std::string::npos;
    const int64_t step = zeros ? -1 : step_of(line);
    if (step < 0) {
      // Before the first row nothing says that the file is ours, but a row's begin.
      const bool half_row = (!ended || zeros) && begins_like_row(line);
      if (before < 0 && !found.torn && !half_row) throw_foreign(line);
      if (ended && !zeros && !found.torn) not_a_row = line;
      found.torn = true;
      continue;
    }
    if (found.torn) {
      ++found.cut_rows;
      continue;
    }
    if (step <= before) throw_disordered(number, step, before_number, before);
    before = step;
    before_number = number;
    if (step > done_steps || done_steps == 0) {
      if (ended) {
        ++found.cut_rows;
        found.cut_first_validation = found.cut_first_validation || step == 0;
      } else {
        found.torn = true;
      }
      continue;
    }
    found.keep += line.size() + (ended ? 1 : 0);
    found.lacks_line_feed = !ended;
    found.follow(step);
    found.last_row = step;
  }
  found.follow(done_steps + 1);
  return found;
}

void MetricsFile::throw_foreign(const std::string& line) const {
  throw DataError("metrics file " + path_ + ": row '" + line.substr(0, 60) +
                  "' is not a metrics row; set trainer.experiment_name or VERL_FILE_LOGGER_PATH "
                  "to a file of its own");
}

void MetricsFile::throw_disordered(int64_t line, int64_t step, int64_t before_line,
                                   int64_t before) const {
  throw DataError("metrics file " + path_ + ": line " + std::to_string(line) + " is of step " +
                  std::to_string(step) + ", after step " + std::to_string(before) + " of line " +
                  std::to_string(before_line) +
                  "; valid: rows in the order of their steps. Put them in order, or set "
                  "trainer.experiment_name or VERL_FILE_LOGGER_PATH to a file of its own");
}

void MetricsFile::check() const {
  const bool exists = std::filesystem::exists(path_);
  if (exists && !std::filesystem::is_regular_file(path_)) {
    throw DataError("metrics file " + path_ + " is not a regular file");
  }
  if (exists) {
    scan(0);
    const OpenFile writable(path_);
    return;
  }
  const MadeFolders made = make_folder(path_);
  try {
    const OpenFile writable(path_);
  } catch (const DeviceError&) {
    made.remove_empty();
    throw;
  }
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
  made.remove_empty();
}

std::vector<std::string> MetricsFile::open(int64_t done_steps) const {
  check();
  make_folder(path_).sync();
  const Scan found = scan(done_steps);
  std::vector<std::string> messages;
  if (!found.missing.empty()) {
    messages.push_back("metrics file " + path_ + ": no rows of steps " + found.missing +
                       ", which an earlier part of this run did");
  }
  std::error_code failed;
  if (std::filesystem::exists(path_) && std::filesystem::file_size(path_) != found.keep) {
    std::filesystem::resize_file(path_, found.keep, failed);
  }
  if (failed) throw DeviceError("metrics file " + path_ + ": cannot cut it: " + failed.message());
  if (found.lacks_line_feed) write("\n", found.last_row);
  if (found.cut_rows == 0 && !found.torn) return messages;
  std::string cut = "metrics file " + path_ + ": cut";
  if (found.cut_rows > 0) {
    cut += " " + std::to_string(found.cut_rows) + " row(s) " +
           (found.cut_first_validation ? "from step 0 on"
                                       : "after step " + std::to_string(done_steps));
  }
  if (found.torn) cut += std::string(found.cut_rows > 0 ? " and" : "") + " a torn line";
  messages.push_back(cut);
  return messages;
}

bool MetricsFile::add_validation(int64_t step, const Metrics& metrics) const {
  make_folder(path_).sync();
  const Scan found = scan(std::numeric_limits<int64_t>::max() - 1);
  std::error_code none;
  const std::uintmax_t size =
      std::filesystem::exists(path_) ? std::filesystem::file_size(path_, none) : 0;
  if (size != found.keep || found.lacks_line_feed || found.last_row > step) return false;
  if (found.last_row == step) return lacks_validation(step) && extend_last_row(step, metrics);
  append(step, metrics);
  return true;
}

bool MetricsFile::lacks_validation(int64_t step) const {
  std::ifstream in(path_, std::ios::binary);
  std::string line;
  while (in && std::getline(in, line)) {
    if (step_of(line) != step) continue;
    const auto row = nlohmann::json::parse(line);
    const auto names = row["data"].items();
    return std::none_of(names.begin(), names.end(),
                        [](const auto& item) { return item.key().starts_with("val-"); });
  }
  return false;
}

/// Its end is written over by more members and the same end, so that a kill leaves the one row or
/// the other.
bool MetricsFile::extend_last_row(int64_t step, const Metrics& metrics) const {
  const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) throw DeviceError("metrics file " + path_ + ": cannot write: " + strerror(errno));
  const std::string end = std::string(kRowEnd) + "\n";
  const off_t at = ::lseek(fd, 0, SEEK_END) - static_cast<off_t>(end.size());
  char found[4] = {};  // and what is before the end: { of a row without members
  const bool ours = at > 0 && ::pread(fd, found, sizeof found, at - 1) == sizeof found &&
                    std::string_view(found + 1, end.size()) == end;
  const std::string text = (found[0] == '{' ? "" : ",") + json_members(metrics) + end;
  const ssize_t written = ours ? ::pwrite(fd, text.data(), text.size(), at) : 0;
  const int reason = errno;
  const bool whole = written == static_cast<ssize_t>(text.size());
  if (ours && !whole) {  // as it was
    const bool back = ::pwrite(fd, end.data(), end.size(), at) > 0 &&
                      ::ftruncate(fd, at + static_cast<off_t>(end.size())) == 0;
    ::close(fd);
    throw DeviceError("metrics file " + path_ + ": cannot write the validation of step " +
                      std::to_string(step) + ": " +
                      (written < 0 ? std::strerror(reason) : "the disk is full") +
                      (back ? "" : "; a torn line is left"));
  }
  ::close(fd);
  return ours;
}

void MetricsFile::append(int64_t step, const Metrics& metrics) const {
  write(json_line(step, metrics) + "\n", step);
}

void MetricsFile::write(const std::string& text, int64_t step) const {
  const OpenFile file(path_);
  const off_t size = ::lseek(file.fd, 0, SEEK_END);
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t written = ::write(file.fd, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      // Where even this fails, the next resume cuts the torn line.
      const bool cut = ::ftruncate(file.fd, size) == 0;
      throw DeviceError("metrics file " + path_ + ": cannot write the " +
                        std::to_string(text.size()) + " bytes of step " + std::to_string(step) +
                        ": " + std::strerror(reason) + (cut ? "" : "; a torn line is left"));
    }
    left.remove_prefix(static_cast<size_t>(written));
  }
}

void MetricsFile::sync() const {
  const OpenFile file(path_);
  if (::fsync(file.fd) != 0) {
    throw DeviceError("metrics file " + path_ + ": cannot sync: " + std::strerror(errno));
  }
  model::sync_folder(std::filesystem::path(path_).parent_path().string());
}

}  // namespace verlcpp::train
