#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace verlcpp::train {

/// The folders that had to be made for something, so that a run that is refused afterwards can take
/// them back.
class MadeFolders {
 public:
  /// Makes `folder` ("" is the working folder) and what is missing above it; `failed` says why it
  /// could not.
  MadeFolders(const std::filesystem::path& folder, std::error_code& failed);
  /// Brings their names to the disk: without them what is synced inside is lost with the power.
  /// DeviceError names a folder above them.
  void sync() const;
  /// Removes those of them in which there is nothing.
  void remove_empty() const;

 private:
  std::vector<std::filesystem::path> made_;  // deepest first
};

}  // namespace verlcpp::train
