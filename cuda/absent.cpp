#include "base/error.h"
#include "cuda/runtime.h"

namespace verlcpp::cuda {

std::unique_ptr<Backend> make_backend(int, const BackendOptions&) {
  throw DeviceError(
      "trainer.device=cuda: this verlcpp-train was built without CUDA; trainer.device=cpu is what "
      "it "
      "runs");
}

}  // namespace verlcpp::cuda
