#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace verlcpp {

/// An error that is not a bug of ours. `exit_code()` is what `main` returns for it:
/// 2 = the user's configuration or data, 3 = the machine (device, communicator, disk).
class Error : public std::runtime_error {
 public:
  Error(const std::string& message, int exit_code)
      : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// The configuration is wrong. The message names the key, its origin, the value and what is valid.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(message, 2) {}
};

/// A data, model or checkpoint file is wrong. The message names the file, the row, the value and
/// what is valid.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(message, 2) {}
};

/// The machine failed: device, communicator, disk.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(message, 3) {}
};

/// Throws std::logic_error (exit code 1: a bug of ours) with the caller's place unless `condition`.
void expects(bool condition, std::string_view what,
             std::source_location where = std::source_location::current());

}  // namespace verlcpp
