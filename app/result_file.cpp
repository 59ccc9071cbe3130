#include "app/result_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "model/synced_file.h"

namespace verlcpp::app {
namespace {

/// What `path` names; a link stays one.
std::filesystem::path result_file(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, ignored);
  return real.empty() ? std::filesystem::path(path) : real;
}

std::string aside(const std::filesystem::path& file) { return file.string() + ".tmp"; }

}  // namespace

void check_writable(const std::string& flag, const std::string& path) {
  const std::string about = flag + " " + path + " cannot be written: ";
  const std::filesystem::path file = result_file(path);
  std::error_code ignored;
  const bool exists = std::filesystem::exists(file, ignored);
  if (exists && !std::filesystem::is_regular_file(file, ignored)) {
    throw ConfigError(about +
                      "it is no regular file; valid: a file, or a name that is not there yet");
  }
  errno = 0;
  if (exists && !std::ofstream(file, std::ios::app))
    throw ConfigError(about + std::strerror(errno));
  if (!std::ofstream(aside(file))) {
    throw ConfigError(about + std::strerror(errno) + " (" + aside(file) + ")");
  }
  std::filesystem::remove(aside(file), ignored);
}

void write_result(const std::string& path, const std::string& json) {
  const std::filesystem::path file = result_file(path);
  std::error_code failed;
  try {
    model::write_synced(aside(file), json + "\n");
  } catch (...) {
    std::filesystem::remove(aside(file), failed);
    throw;
  }
  std::filesystem::rename(aside(file), file, failed);
  if (failed) {
    throw DeviceError(file.string() + ": cannot be renamed from " + aside(file) + ": " +
                      failed.message());
  }
  model::sync_folder(file.parent_path().string());
}

}  // namespace verlcpp::app
