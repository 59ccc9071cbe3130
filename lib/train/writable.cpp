#include "train/writable.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace verlcpp::train {
namespace {

namespace fs = std::filesystem;

/// A file without a name, where the file system has such ones.
bool makes_unnamed_file(const fs::path& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  return file >= 0;
}

std::string why_no_file_is_made(const fs::path& folder) {
  if (makes_unnamed_file(folder)) return "";
  std::string name = (folder / ".verlcpp-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    return errno == ENOENT ? folder.string() + " takes no new files" : std::strerror(errno);
  }
  ::rmdir(name.c_str());
  return "";
}

}  // namespace

std::string unwritable_reason(const std::string& folder) {
  fs::path path = fs::path(folder).lexically_normal();
  std::error_code ignored;
  while (!path.empty() && path != path.root_path() && !fs::exists(path, ignored)) {
    path = path.parent_path();
  }
  if (path.empty()) path = ".";
  if (!fs::is_directory(path, ignored)) return std::strerror(ENOTDIR);
  return why_no_file_is_made(path);
}

std::string unwritable_file_reason(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return unwritable_reason(file.parent_path().string());
  const int opened = ::open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (opened < 0) return std::strerror(errno);
  ::close(opened);
  return "";
}

}  // namespace verlcpp::train
