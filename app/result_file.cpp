#include "app/result_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "model/synced_file.h"

namespace verlcpp::app {
namespace {

namespace fs = std::filesystem;

/// What `path` names, whether it is there or not: a link stays one.
fs::path result_file(const std::string& path) {
  std::error_code ignored;
  fs::path named = path;
  for (int links = 0; links < 40 && fs::is_symlink(named, ignored); ++links) {
    const fs::path target = fs::read_symlink(named, ignored);
    named = target.is_absolute() ? target : named.parent_path() / target;
  }
  const fs::path real = fs::weakly_canonical(named, ignored);
  return real.empty() ? named : real;
}

/// A new file beside `file`, under the first of FILE.tmp, FILE.tmp2, ... that nothing has: what is
/// there may be somebody else's. Its descriptor, or -1 with errno, and its name.
std::pair<int, std::string> create_aside(const fs::path& file) {
  std::string name;
  for (int number = 1; number <= 100; ++number) {
    name = file.string() + ".tmp" + (number == 1 ? "" : std::to_string(number));
    const int made = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (made >= 0 || errno != EEXIST) return {made, name};
  }
  return {-1, name};
}

}  // namespace

void check_writable(const std::string& flag, const std::string& path) {
  const std::string about = flag + " " + path + " cannot be written: ";
  const fs::path file = result_file(path);
  std::error_code ignored;
  const bool exists = fs::exists(file, ignored);
  if (exists && !fs::is_regular_file(file, ignored)) {
    throw ConfigError(about +
                      "it is no regular file; valid: a file, or a name that is not there yet");
  }
  if (fs::is_symlink(file, ignored)) throw ConfigError(about + "its links lead in a circle");
  errno = 0;
  if (exists && !std::ofstream(file, std::ios::app))
    throw ConfigError(about + std::strerror(errno));
  const auto [made, aside] = create_aside(file);
  if (made < 0) throw ConfigError(about + std::strerror(errno) + " (" + aside + ")");
  ::close(made);
  fs::remove(aside, ignored);
}

void write_result(const std::string& path, const std::string& json) {
  const fs::path file = result_file(path);
  std::error_code failed;
  const auto [made, aside] = create_aside(file);
  if (made < 0) throw DeviceError(aside + ": cannot be made: " + std::strerror(errno));
  ::close(made);
  try {
    model::write_synced(aside, json + "\n");
  } catch (...) {
    fs::remove(aside, failed);
    throw;
  }
  fs::rename(aside, file, failed);
  if (failed) {
    throw DeviceError(file.string() + ": cannot be renamed from " + aside + ": " +
                      failed.message());
  }
  model::sync_folder(file.parent_path().string());
}

}  // namespace verlcpp::app
