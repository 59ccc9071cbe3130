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

NcclLibrary::NcclLibrary() {
  int version = 0;
  get_version(&version);
  if (version < kOldest) {
    throw DeviceError("NCCL " + text_of(version) + " is too old: several GPUs need " +
                      text_of(kOldest) + " or newer; name its folder in LD_LIBRARY_PATH");
  }
}

const NcclLibrary& nccl() {
  static const NcclLibrary library;
  return library;
}

}  // namespace verlcpp::cuda
