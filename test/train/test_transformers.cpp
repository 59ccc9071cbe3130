#include <cmath>
#include <memory>

#include "cpu/cpu_backend.h"
#include "support/catch.h"
#include "transformers_case.h"

using namespace verlcpp;

TEST_CASE("one tensor's norm: what is allowed, and that more, or no number, is found") {
  using test::allowed_norm_error;
  CHECK(allowed_norm_error(DType::kBFloat16, 2, 100, 0.4) == 0.5);
  CHECK(allowed_norm_error(DType::kBFloat16, 2, 100, 0) == 0.08);
  CHECK(allowed_norm_error(DType::kFloat32, 2, 100, 0.4) == 1e-4);
  CHECK(allowed_norm_error(DType::kFloat32, 0, 100, 0.4) == 5e-5);
  CHECK(allowed_norm_error(DType::kFloat64, 2, 100, 0.4) == 2e-12);
  test::WorstNorm worst;
  worst.add("a", -0.05, 0.1);
  worst.add("b", 0.04, 0.1);
  CHECK(worst.part == 0.5);
  CHECK(worst.tensor == "a");
  worst.add("c", NAN, 0.1);
  worst.add("d", 0.2, 0.1);
  CHECK(worst.part > 1);
  CHECK(worst.tensor == "c");
}

TEST_CASE("log-probs, gradients and training steps equal transformers'", "[parity]") {
  test::compare_with_transformers(
      [](const auto&, const auto& host) {
        return parallel::host_device(std::make_unique<cpu::CpuBackend>(), host);
      },
      {DType::kFloat32, DType::kFloat64});
}
