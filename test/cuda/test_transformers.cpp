#include "cuda/runtime.h"
#include "support/catch.h"
#include "transformers_case.h"

using namespace verlcpp;

TEST_CASE("on a GPU log-probs, gradients and training steps equal transformers'", "[parity]") {
  test::compare_with_transformers(
      [](const auto& me, const auto& host) { return cuda::make_device(me, host, 1); },
      {DType::kFloat32, DType::kBFloat16});
}
