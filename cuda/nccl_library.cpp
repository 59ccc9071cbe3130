#include "cuda/nccl_library.h"

#include <string>

#include "base/error.h"

namespace verlcpp::cuda {
namespace {

constexpr int kOldest = NCCL_VERSION(2, 18, 1);  // the first with ncclCommSplit

std::string text_of(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

Library open_nccl() {
  const Library library("several GPUs", {"libnccl.so.2"});
  int version = 0;
  library.function<decltype(ncclGetVersion)>("ncclGetVersion")(&version);
  if (version < kOldest) {
    throw DeviceError("trainer.device=cuda: several GPUs need NCCL " + text_of(kOldest) +
                      " or newer, found NCCL " + text_of(version) + " (" + library.path() +
                      "); name the folder of a newer one in LD_LIBRARY_PATH");
  }
  return library;
}

const NcclLibrary& nccl() {
  static const NcclLibrary library;
  return library;
}

}  // namespace verlcpp::cuda
