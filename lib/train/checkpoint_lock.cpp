#include "train/checkpoint_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/log.h"

namespace verlcpp::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLock = ".lock";

[[noreturn]] void throw_unwritable(const std::string& about, const std::string& reason) {
  throw DeviceError(about + " cannot be written: " + reason);
}

MadeFolders make_folder(const std::string& folder, const std::string& about) {
  std::error_code failed;
  MadeFolders made(folder, failed);
  if (!failed) return made;
  made.remove_empty();
  throw_unwritable(about, failed.message());
}

/// Whether `path` is still the name of the open file.
bool names(const std::string& path, int file) {
  struct stat open = {}, named = {};
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

}  // namespace

CheckpointLock::CheckpointLock(const std::string& folder, const std::string& about)
    : path_((fs::path(folder) / kLock).string()), made_(make_folder(folder, about)) {
  try {
    while (!take(about)) {
    }
    write_owner(about);
    made_.sync();
  } catch (...) {
    release();
    throw;
  }
}

/// False when the file went away meanwhile: the run that had the folder has just ended.
bool CheckpointLock::take(const std::string& about) {
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw_unwritable(about, std::strerror(errno));
  int failed = 0;
  do {
    failed = ::flock(file_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  } while (failed == EINTR);
  if (failed == 0 && names(path_, file_)) return true;
  if (failed != 0 && failed != EWOULDBLOCK) {
    log::warning(about + " cannot be locked (" + std::strerror(failed) +
                 "): nothing keeps a second run from saving there");
    return true;
  }
  ::close(file_);
  file_ = -1;
  if (failed == 0) return false;
  throw ConfigError(about +
                    ": another run saves its checkpoints there; wait for its end, or set "
                    "trainer.experiment_name or trainer.default_local_dir to a folder of this "
                    "run's own");
}

/// For somebody who wonders what the file is; and the proof that the folder takes bytes.
void CheckpointLock::write_owner(const std::string& about) const {
  const std::string text = "process " + std::to_string(::getpid()) + " saves here\n";
  if (::ftruncate(file_, 0) == 0 &&
      ::pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) {
    return;
  }
  throw_unwritable(about, std::strerror(errno));
}

void CheckpointLock::release() {
  if (file_ >= 0) {
    ::unlink(path_.c_str());  // while it is held: nobody else's file goes
    ::close(file_);
  }
  made_.remove_empty();
}

CheckpointLock::~CheckpointLock() { release(); }

}  // namespace verlcpp::train
