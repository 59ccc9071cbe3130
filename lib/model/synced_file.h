#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace verlcpp::model {

/// A file being written. `close` syncs file and folder to disk; a file destroyed before is left as
/// it is. Every call ends within the time that a quarter of a GiB takes to reach the disk, or gives
/// signs of life meanwhile. DeviceError names the path, the bytes needed and the reason.
class SyncedFile {
 public:
  enum class Open { kCreate, kExisting };
  /// Creates or empties `path`, or opens it as it is. `bytes_needed`: of the whole file, for
  /// messages and `reserve`. `beat`, if any, is the sign of life.
  SyncedFile(std::string path, int64_t bytes_needed, Open how = Open::kCreate,
             std::function<void()> beat = {});
  ~SyncedFile();
  SyncedFile(const SyncedFile&) = delete;
  SyncedFile& operator=(const SyncedFile&) = delete;
  /// Takes all of its bytes on the disk now, where the file system can, so that a full disk is
  /// known before anything is computed for it.
  void reserve();
  /// Goes on where the last `write` ended, at first at the start.
  void write(std::span<const std::byte> bytes);
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  void close();

 private:
  [[noreturn]] void fail() const;  // with errno's reason
  void wrote(int64_t bytes);

  std::string path_;
  int64_t bytes_needed_;
  std::function<void()> beat_;
  int64_t unsynced_ = 0;
  int file_ = -1;
};

/// The whole of `text` as a file, synced.
void write_synced(const std::string& path, const std::string& text);

/// Brings the names in a folder ("" is the working folder) to the disk. DeviceError names the
/// folder.
void sync_folder(const std::string& folder);

}  // namespace verlcpp::model
