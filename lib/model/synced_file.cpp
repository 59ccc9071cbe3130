#include "model/synced_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace verlcpp::model {

namespace {

/// Given to the system at once, and written before the disk is waited for.
constexpr int64_t kPiece = int64_t{64} << 20, kMostUnsynced = 4 * kPiece;

}  // namespace

SyncedFile::SyncedFile(std::string path, int64_t bytes_needed, Open how, std::function<void()> beat)
    : path_(std::move(path)), bytes_needed_(bytes_needed), beat_(std::move(beat)) {
  const int create = how == Open::kCreate ? O_CREAT | O_TRUNC : 0;
  file_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | create, 0644);
  if (file_ < 0) fail();
}

SyncedFile::~SyncedFile() {
  if (file_ >= 0) ::close(file_);
}

void SyncedFile::fail() const {
  throw DeviceError(path_ + ": cannot write " + std::to_string(bytes_needed_) +
                    " bytes: " + std::strerror(errno));
}

// By pieces: where the file system has no such call, it is emulated block by block.
void SyncedFile::reserve() {
  for (int64_t first = 0; first < bytes_needed_; first += kPiece) {
    if (beat_) beat_();
    errno = ::posix_fallocate(file_, first, std::min(kPiece, bytes_needed_ - first));
    if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT || errno == EIO) fail();
  }
}

void SyncedFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(file_, bytes.data(), std::min<size_t>(bytes.size(), kPiece), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
    wrote(written);
  }
}

void SyncedFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), std::min<size_t>(bytes.size(), kPiece));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes = bytes.subspan(static_cast<size_t>(written));
    wrote(written);
  }
}

/// Keeps what `close` has to wait for small.
void SyncedFile::wrote(int64_t bytes) {
  if (beat_) beat_();
  unsynced_ += bytes;
  if (unsynced_ < kMostUnsynced) return;
  if (::fdatasync(file_) != 0) fail();
  unsynced_ = 0;
  if (beat_) beat_();
}

void SyncedFile::close() {
  if (::fsync(file_) != 0) fail();
  if (::close(std::exchange(file_, -1)) != 0) fail();
  sync_folder(std::filesystem::path(path_).parent_path().string());
}

void write_synced(const std::string& path, const std::string& text) {
  SyncedFile file(path, static_cast<int64_t>(text.size()));
  file.write(std::as_bytes(std::span(text)));
  file.close();
}

void sync_folder(const std::string& folder) {
  const int file = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = file >= 0 && ::fsync(file) == 0;
  const int reason = errno;
  if (file >= 0) ::close(file);
  if (!synced) throw DeviceError(folder + ": cannot sync the folder: " + std::strerror(reason));
}

}  // namespace verlcpp::model
