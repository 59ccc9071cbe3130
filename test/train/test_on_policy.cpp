// Before the first update the policy is the one that sampled: its log-probs may differ from those
// that the rollout and the log-prob pass computed by rounding alone.

#include "cpu/cpu_backend.h"
#include "on_policy_case.h"
#include "support/catch.h"

using namespace verlcpp;

TEST_CASE("the first mini-batch is on policy up to rounding") {
  for (const auto& [dtype, bound] : {std::pair{DType::kFloat64, 1e-12}, {DType::kFloat32, 2e-5}}) {
    for (const test::MemoryCase& c : test::memory_cases()) {
      const test::OnPolicyDifference d = test::on_policy_difference(
          c, test::memory_config(c, "cpu", dtype), [](const auto&, const auto& host) {
            return parallel::host_device(std::make_unique<cpu::CpuBackend>(), host);
          });
      INFO(name_of(dtype) << " " << c.name << ": sampled " << d.sampled << ", updated "
                          << d.updated);
      CHECK(d.sampled < bound);
      CHECK(d.updated < bound);
    }
  }
}
