#include "model/synced_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace verlcpp::model {

SyncedFile::SyncedFile(std::string path, int64_t bytes_needed, Open how)
    : path_(std::move(path)), bytes_needed_(bytes_needed) {
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

void SyncedFile::reserve() {
  errno = ::posix_fallocate(file_, 0, bytes_needed_);
  if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT || errno == EIO) fail();
}

void SyncedFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
}

void SyncedFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
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
