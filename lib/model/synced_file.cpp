#include "model/synced_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace verlcpp::model {

SyncedFile::SyncedFile(std::string path, int64_t bytes_needed)
    : path_(std::move(path)), bytes_needed_(bytes_needed) {
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) fail();
}

SyncedFile::~SyncedFile() {
  if (file_ >= 0) ::close(file_);
}

void SyncedFile::fail() const {
  throw DeviceError(path_ + ": cannot write " + std::to_string(bytes_needed_) +
                    " bytes: " + std::strerror(errno));
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
  const auto parent = std::filesystem::path(path_).parent_path();
  const int folder = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_CLOEXEC);
  if (folder < 0) fail();
  const bool synced = ::fsync(folder) == 0;
  const int reason = errno;
  ::close(folder);
  errno = reason;
  if (!synced) fail();
}

void write_synced(const std::string& path, const std::string& text) {
  SyncedFile file(path, static_cast<int64_t>(text.size()));
  file.write(std::as_bytes(std::span(text)));
  file.close();
}

}  // namespace verlcpp::model
