#include "base/error.h"
#include "cuda/runtime.h"

namespace verlcpp::cuda {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError(
      "trainer.device=cuda: this verlcpp-train was built without CUDA; trainer.device=cpu is what "
      "it "
      "runs");
}

}  // namespace

void expect_room(int64_t, const Reservation&) { refuse(); }

std::unique_ptr<Backend> make_backend(int, const std::optional<Reservation>&) { refuse(); }

}  // namespace verlcpp::cuda
