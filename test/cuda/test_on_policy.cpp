#include "cuda/runtime.h"
#include "on_policy_case.h"
#include "support/catch.h"

using namespace verlcpp;

// The bound in bfloat16, whose activations carry 8 bits, is on a log-prob of -7 to -8.
TEST_CASE("on a GPU the first mini-batch is on policy up to rounding") {
  for (const auto& [dtype, bound] : {std::pair{DType::kFloat32, 2e-5}, {DType::kBFloat16, 0.05}}) {
    double sampled = 0, updated = 0;
    for (const test::MemoryCase& c : test::memory_cases()) {
      const test::OnPolicyDifference d = test::on_policy_difference(
          c, test::memory_config(c, "cuda", dtype), [](const auto& me, const auto& host) {
            return cuda::make_device(me, host, me.sizes().world);
          });
      INFO(name_of(dtype) << " " << c.name);
      CHECK(d.sampled < bound);
      CHECK(d.updated < bound);
      sampled = std::max(sampled, d.sampled);
      updated = std::max(updated, d.updated);
    }
    WARN(name_of(dtype) << ": largest difference of a log-prob: sampled " << sampled << ", updated "
                        << updated);
  }
}
