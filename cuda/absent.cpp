#include "base/error.h"
#include "cuda/runtime.h"

namespace verlcpp::cuda {

namespace {

constexpr const char* kAbsent =
    "trainer.device=cuda: this verlcpp-train was built without CUDA; trainer.device=cpu is what it "
    "runs";

}  // namespace

std::unique_ptr<Backend> make_backend(int) { throw DeviceError(kAbsent); }

std::map<std::string, std::string> describe_device(int) { throw DeviceError(kAbsent); }

}  // namespace verlcpp::cuda
