#include "base/error.h"
#include "cuda/runtime.h"

namespace verlcpp::cuda {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError(
      "trainer.device=cuda: this verlcpp-train was built without CUDA; trainer.device=cpu is what "
      "it runs");
}

}  // namespace

std::unique_ptr<Backend> make_backend(int, const BackendOptions&) { refuse(); }

parallel::RankDevice make_device(const parallel::Topology&, const parallel::RankCommunicators&,
                                 std::optional<int64_t>, const BackendOptions&) {
  refuse();
}

std::map<std::string, std::string> describe_device(int) { refuse(); }

bool usable(bool, std::string* why) {
  *why = "this verlcpp-train was built without CUDA";
  return false;
}

void expect_room(int64_t, Reservation&) { refuse(); }

void expect_libraries(bool, bool) { refuse(); }

}  // namespace verlcpp::cuda
