#include "cuda/cudnn_library.h"

#include <cstddef>

#include "base/error.h"
#include "base/log.h"
#include "cuda/library.h"

namespace verlcpp::cuda {
namespace {

constexpr size_t kOldest = 91400;  // what the packed plans were checked with
constexpr size_t kSound = 91900;   // older ones need the care that ragged.cu takes

std::string version_text(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/// Never closed. One a process, because cudnn-frontend keeps one handle a process.
const Library& library() {
  static const Library cudnn("packed attention in bfloat16", {"libcudnn.so.9"});
  return cudnn;
}

size_t version() { return library().function<size_t()>("cudnnGetVersion")(); }

}  // namespace

std::string cudnn_version() { return version_text(version()); }

void* open_cudnn() {
  static void* const handle = [] {
    const std::string found = "cuDNN " + cudnn_version() + " (" + library().path() + ")";
    if (version() < kOldest) {
      throw DeviceError("trainer.device=cuda: packed attention in bfloat16 needs cuDNN " +
                        version_text(kOldest) + " or newer, found " + found +
                        "; name the folder of a newer one in LD_LIBRARY_PATH");
    }
    if (version() < kSound) {
      log::info("attention runs on " + found + "; " + version_text(kSound) +
                " or newer has fewer known faults and is faster on short documents");
    }
    return library().handle();
  }();
  return handle;
}

}  // namespace verlcpp::cuda
