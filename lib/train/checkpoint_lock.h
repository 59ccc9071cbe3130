#pragma once

#include <string>

#include "train/made_folders.h"

namespace verlcpp::train {

/// A run's hold on the folder it saves to (trainer.default_local_dir): two runs there would remove
/// each other's half-written checkpoints and overwrite each other's tracker. An advisory lock
/// (flock) on the file .lock in it, which the kernel releases however the process ends. Where the
/// file system has no such locks, a warning says so.
class CheckpointLock {
 public:
  /// Makes the folder if need be, takes it and writes to it. `about` begins messages: key, value
  /// and origin. ConfigError while another run has it, DeviceError when it cannot be made or
  /// written; then nothing is left behind.
  CheckpointLock(const std::string& folder, const std::string& about);
  /// Removes the file, and the folder if it was made here and nothing has been saved.
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

 private:
  bool take(const std::string& about);
  void write_owner(const std::string& about) const;
  void release();

  std::string path_;
  MadeFolders made_;
  int file_ = -1;
};

}  // namespace verlcpp::train
