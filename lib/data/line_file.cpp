#include "data/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace verlcpp::data {

namespace fs = std::filesystem;

std::string why_unreadable(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return "does not exist";
  if (status.type() == fs::file_type::directory) return "is a folder, not a file";
  if (error) return "cannot be opened: " + error.message();
  if (status.type() != fs::file_type::regular) return "is not a regular file";
  errno = 0;
  if (std::ifstream(path)) return "";
  return std::string("cannot be opened: ") + std::strerror(errno);
}

void for_each_line(const std::string& path, int64_t offset,
                   const std::function<bool(const Line&)>& visit) {
  if (const std::string reason = why_unreadable(path); !reason.empty()) {
    throw DataError(path + " " + reason);
  }
  std::ifstream in(path, std::ios::binary);
  in.seekg(offset);
  std::string text;
  Line line;
  line.offset = offset;
  while (std::getline(in, text)) {
    ++line.number;
    line.complete = !in.eof();
    line.text = text;
    if (line.offset == 0 && line.text.starts_with("\xEF\xBB\xBF")) line.text.remove_prefix(3);
    if (!visit(line)) return;
    line.offset += static_cast<int64_t>(text.size()) + 1;
  }
  if (in.bad()) throw DataError(path + " cannot be read: " + std::strerror(errno));
}

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw DeviceError(path + ": " + what + ": " + std::strerror(errno));
}

}  // namespace

LineWriter::LineWriter(std::string path, int64_t keep_bytes) : path_(std::move(path)) {
  std::error_code error;
  const fs::path folder = fs::path(path_).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) throw DeviceError(folder.string() + ": cannot create the folder: " + error.message());
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) fail(path_, "cannot open for writing");
  if (::ftruncate(file_, keep_bytes) != 0 || ::lseek(file_, 0, SEEK_END) < 0) {
    const int saved = errno;
    ::close(file_);
    errno = saved;
    fail(path_, "cannot cut to " + std::to_string(keep_bytes) + " bytes");
  }
}

LineWriter::~LineWriter() { ::close(file_); }

void LineWriter::write(std::string_view text) {
  expects(text.ends_with('\n'), "LineWriter::write takes whole lines");
  const std::string what = "cannot write " + std::to_string(text.size()) + " bytes";
  const off_t size = ::lseek(file_, 0, SEEK_END);
  while (!text.empty()) {
    const ssize_t done = ::write(file_, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      const int reason = errno;
      const bool cut = size >= 0 && ::ftruncate(file_, size) == 0;
      errno = reason;
      fail(path_, cut ? what : what + " (a torn line is left)");
    }
    text.remove_prefix(static_cast<size_t>(done));
  }
}

void LineWriter::sync() {
  if (::fsync(file_) != 0) fail(path_, "cannot sync");
  const fs::path folder = fs::path(path_).parent_path();
  const int names = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = names >= 0 && ::fsync(names) == 0;
  const int reason = errno;
  if (names >= 0) ::close(names);
  errno = reason;
  if (!synced) fail(path_, "cannot sync its folder");
}

}  // namespace verlcpp::data
