// Frequencies that transformers 5.24 forms of the same parameters, in float32.

#include "model/rotary.h"
#include "support/catch.h"

using namespace verlcpp::model;

namespace {

void check_frequencies(const Rotary& rotary, const std::vector<double>& want) {
  const std::vector<double> got = rotary.inverse_frequencies(2 * static_cast<int64_t>(want.size()));
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    INFO(i);
    CHECK(got[i] == Approx(want[i]).epsilon(5e-7));
  }
}

}  // namespace

TEST_CASE("rotary frequencies without scaling are powers of theta") {
  check_frequencies({.theta = 10000}, {1, 0.1, 0.01, 0.001});
}

TEST_CASE("linear scaling divides every frequency") {
  check_frequencies({.type = Rotary::Type::kLinear, .factor = 4},
                    {0.25, 0.079056941, 0.0250000004, 0.00790569466, 0.00249999994, 0.000790569466,
                     0.000250000012, 7.90569466e-05});
}

TEST_CASE("llama3 scaling keeps short waves, stretches long ones and blends between") {
  check_frequencies({.type = Rotary::Type::kLlama3,
                     .theta = 500000,
                     .factor = 8,
                     .original_context = 8192,
                     .low_freq_factor = 1,
                     .high_freq_factor = 4},
                    {1, 0.193922758, 0.0376060307, 0.00729266508, 0.000524846022, 3.42810235e-05,
                     6.64786967e-06, 1.28917316e-06});
}

TEST_CASE("yarn ramps between dimensions that turn fast and slowly") {
  check_frequencies({.type = Rotary::Type::kYarn, .factor = 4, .original_context = 32768},
                    {1, 0.316227764, 0.100000001, 0.0316227786, 0.00999999978, 0.00256935088,
                     0.000625000044, 0.000138349656});
  check_frequencies(
      {.type = Rotary::Type::kYarn, .factor = 4, .original_context = 1024, .truncate = false},
      {1, 0.316227764, 0.0853986368, 0.0191267766, 0.00355697144, 0.000790569466, 0.000250000012,
       7.90569466e-05});
  check_frequencies({.type = Rotary::Type::kYarn, .factor = 3, .original_context = 1024},
                    {1, 0.316227764, 0.0833333358, 0.0210818518, 0.00499999989, 0.00105409266,
                     0.00033333333, 0.000105409257});
}

TEST_CASE("yarn's factor of q and k") {
  CHECK(yarn_attention_factor(4) == Approx(1.138629436111989));
  CHECK(yarn_attention_factor(3) == Approx(1.109861228866811));
  CHECK(yarn_attention_factor(4, 0.7) / yarn_attention_factor(4, 1.4) ==
        Approx(0.9187319887286866));
  CHECK(yarn_attention_factor(1) == 1);
}
