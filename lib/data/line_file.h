#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace verlcpp::data {

/// One line of a text file, without its line feed.
struct Line {
  int64_t number = 0;    // from 1
  int64_t offset = 0;    // bytes from the start of the file
  bool complete = true;  // ends with a line feed
  std::string_view text;
};

/// Empty when `path` is a readable regular file; else the reason: "does not exist", "is a folder",
/// "is not a regular file", "cannot be opened: ...". A pipe, which may never end, is not opened.
std::string why_unreadable(const std::string& path);

/// Calls `visit` for the lines from byte `offset` on until it returns false. A UTF-8 byte order
/// mark at the start of the file is skipped. DataError when the file cannot be read.
void for_each_line(const std::string& path, int64_t offset,
                   const std::function<bool(const Line&)>& visit);

/// Lines at the end of a file, written whole steps at a time so that a killed run tears at most the
/// last one. DeviceError names the path on every failure.
class LineWriter {
 public:
  /// Creates missing folders; keeps the first `keep_bytes` bytes of an existing file.
  LineWriter(std::string path, int64_t keep_bytes);
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  /// One write; `text` ends with a line feed. What does not fit is cut back at once.
  void write(std::string_view text);
  /// Brings all lines to the disk.
  void sync();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace verlcpp::data
