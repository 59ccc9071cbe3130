#include <memory>

#include "cpu/cpu_backend.h"
#include "support/catch.h"
#include "transformers_case.h"

using namespace verlcpp;

TEST_CASE("log-probs, gradients and training steps equal transformers'", "[parity]") {
  test::compare_with_transformers(
      [](const auto&, const auto& host) {
        return parallel::host_device(std::make_unique<cpu::CpuBackend>(), host);
      },
      {DType::kFloat32, DType::kFloat64});
}
