#include <cmath>
#include <limits>

#include "algo/policy_loss.h"
#include "support/catch.h"

using namespace verlcpp::algo;

namespace {

using Values = std::vector<double>;

struct Batch {
  Values log_prob, old_log_prob, advantage, weight, ref_log_prob, entropy;

  PolicyLossInputs inputs() const {
    return {log_prob, old_log_prob, advantage, weight, ref_log_prob, entropy};
  }
};

struct Result {
  PolicyLossSums sums;
  Values d_log_prob, d_entropy;
};

Result run(const PolicyLossOptions& options, const Batch& batch) {
  // Poisoned, so that a value that is not written shows.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Result out{{}, Values(batch.log_prob.size(), nan), Values(batch.entropy.size(), nan)};
  out.sums = vanilla_policy_loss(options, batch.inputs(), out.d_log_prob, out.d_entropy);
  return out;
}

/// One token of weight 1 with ratio r.
Result one(double ratio, double advantage) {
  return run({}, {{std::log(ratio)}, {0}, {advantage}, {1}, {}, {}});
}

void check_token(double ratio, double advantage, double loss, double gradient, double clipped,
                 double lower) {
  INFO("ratio " << ratio << ", advantage " << advantage);
  const Result result = one(ratio, advantage);
  CHECK(result.sums.pg_loss == Approx(loss).epsilon(1e-12));
  CHECK(result.d_log_prob[0] == Approx(gradient).epsilon(1e-12));
  CHECK(result.sums.clipped == clipped);
  CHECK(result.sums.clipped_lower == lower);
}

/// Tokens of every kind, none near a corner: inside, clipped on both sides for both signs, below
/// the dual clip, weight zero.
Batch mixed_batch() {
  return {{-1.0, -0.5, -2.0, -0.3, -1.7, -0.2, -3.0},   {-1.1, -0.9, -1.5, -1.0, -1.2, -2.5, 0.0},
          {1.5, 0.7, 2.0, -0.8, -1.2, -0.5, 3.0},       {0.1, 0.2, 0.3, 0.1, 0.05, 0.15, 0.0},
          {-1.3, -0.45, -1.9, -0.6, -1.75, -0.9, -1.0}, {0.5, 0.9, 1.1, 0.2, 0.7, 0.3, 0.4}};
}

}  // namespace

TEST_CASE("The dual-clip loss, token by token") {
  // Limits 0.8 and 1.2, c = 3. Columns: ratio, A, loss, d loss / d log_prob, clipped, lower.
  check_token(1.1, 2, -2.2, -2.2, 0, 0);  // inside
  check_token(1.5, 2, -2.4, 0, 1, 0);     // held above
  check_token(0.5, 2, -1.0, -1.0, 0, 0);  // below, but the plain loss is the larger one
  check_token(1.1, -2, 2.2, 2.2, 0, 0);   // inside
  check_token(0.5, -2, 1.6, 0, 1, 0);     // held below
  check_token(1.5, -2, 3.0, 3.0, 0, 0);   // above, but below c
  check_token(4.0, -2, 6.0, 0, 0, 1);     // dual clip
  check_token(4.0, 2, -2.4, 0, 1, 0);     // no dual clip for A > 0
  check_token(2.0, 0, 0, 0, 0, 0);        // no advantage
}

TEST_CASE("The log ratio is clamped to 20") {
  const Result low = run({}, {{-30}, {0}, {2}, {1}, {}, {}});
  CHECK(low.sums.pg_loss == Approx(-2 * std::exp(-20.0)).epsilon(1e-12));
  CHECK(low.d_log_prob[0] == 0);
  CHECK(low.sums.ppo_kl == 20);
  const Result high = run({}, {{0}, {-30}, {-2}, {1}, {}, {}});
  CHECK(high.sums.pg_loss == 6);
  CHECK(high.sums.clipped_lower == 1);
  CHECK(high.d_log_prob[0] == 0);
}

TEST_CASE("Clip limits may differ") {
  PolicyLossOptions options;
  options.clip_ratio_low = 0.1;
  options.clip_ratio_high = 0.3;
  const Batch batch = {{std::log(1.25), std::log(0.85)}, {0, 0}, {1, -1}, {1, 1}, {}, {}};
  const Result result = run(options, batch);
  CHECK(result.sums.pg_loss == Approx(-1.25 + 0.9));
  CHECK(result.sums.clipped == 1);
}

TEST_CASE("Weights, KL and entropy enter the loss by their coefficients") {
  PolicyLossOptions options;
  options.use_kl_loss = true;
  options.kl_loss_coef = 0.5;
  options.kl_loss_type = "k2";
  options.entropy_coeff = 0.1;
  const Result result =
      run(options, {{-1, -2}, {-1, -2}, {3, -1}, {0.25, 0.75}, {-1.5, -2.25}, {0.8, 0.4}});
  CHECK(result.sums.pg_loss == Approx(-3 * 0.25 + 0.75));
  CHECK(result.sums.kl_loss == Approx(0.25 * 0.125 + 0.75 * 0.03125));
  CHECK(result.sums.entropy_loss == Approx(0.25 * 0.8 + 0.75 * 0.4));
  CHECK(result.sums.total(options) ==
        Approx(result.sums.pg_loss - 0.1 * result.sums.entropy_loss + 0.5 * result.sums.kl_loss));
  CHECK(result.d_log_prob[0] == Approx(0.25 * (-3 + 0.5 * 0.5)));
  CHECK(result.d_log_prob[1] == Approx(0.75 * (1 + 0.5 * 0.25)));
  CHECK(result.d_entropy[0] == Approx(-0.025));
  CHECK(result.d_entropy[1] == Approx(-0.075));
}

TEST_CASE("The gradient agrees with finite differences") {
  for (const char* type : {"k1", "abs", "k2", "k3"}) {
    PolicyLossOptions options;
    options.use_kl_loss = true;
    options.kl_loss_coef = 0.3;
    options.kl_loss_type = type;
    options.entropy_coeff = 0.07;
    const Batch batch = mixed_batch();
    const Result result = run(options, batch);
    const auto loss = [&](const Batch& moved) { return run(options, moved).sums.total(options); };
    for (size_t i = 0; i < batch.log_prob.size(); ++i) {
      INFO(type << ", token " << i);
      const double h = 1e-6;
      Batch up = batch, down = batch;
      up.log_prob[i] += h;
      down.log_prob[i] -= h;
      CHECK(result.d_log_prob[i] == Approx((loss(up) - loss(down)) / (2 * h)).margin(1e-8));
      up = down = batch;
      up.entropy[i] += h;
      down.entropy[i] -= h;
      CHECK(result.d_entropy[i] == Approx((loss(up) - loss(down)) / (2 * h)).margin(1e-8));
    }
  }
}

TEST_CASE("Metrics count tokens with weight, whatever the weight is") {
  const Result result = run({}, mixed_batch());
  CHECK(result.sums.tokens == 6);
  CHECK(result.sums.clipped == 2);        // tokens 1 and 4
  CHECK(result.sums.clipped_lower == 1);  // token 5
  CHECK(result.sums.ppo_kl == Approx(-0.1 - 0.4 + 0.5 - 0.7 + 0.5 - 2.3));
}

TEST_CASE("A token of weight zero touches nothing, not even with NaN") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  PolicyLossOptions options;
  options.use_kl_loss = true;
  options.entropy_coeff = 1;
  const Result result = run(options, {{nan}, {nan}, {nan}, {0}, {nan}, {nan}});
  CHECK(result.sums.total(options) == 0);
  CHECK(result.sums.tokens == 0);
  CHECK(result.d_log_prob[0] == 0);
  CHECK(result.d_entropy[0] == 0);
}

TEST_CASE("Sums of parts are the sums of the whole") {
  const Batch whole = mixed_batch();
  PolicyLossOptions options;
  options.use_kl_loss = true;
  options.kl_loss_coef = 0.3;
  options.entropy_coeff = 0.07;
  PolicyLossSums sums;
  for (size_t i = 0; i < whole.log_prob.size(); ++i) {
    sums.add(run(options, {{whole.log_prob[i]},
                           {whole.old_log_prob[i]},
                           {whole.advantage[i]},
                           {whole.weight[i]},
                           {whole.ref_log_prob[i]},
                           {whole.entropy[i]}})
                 .sums);
  }
  const PolicyLossSums expected = run(options, whole).sums;
  CHECK(sums.total(options) == Approx(expected.total(options)).epsilon(1e-14));
  CHECK(sums.clipped == expected.clipped);
  CHECK(sums.clipped_lower == expected.clipped_lower);
  CHECK(sums.ppo_kl == Approx(expected.ppo_kl).epsilon(1e-14));
  CHECK(sums.tokens == expected.tokens);
}

TEST_CASE("Spans of another size are our own bug") {
  PolicyLossOptions options;
  CHECK_THROWS_AS(run(options, {{0}, {0, 0}, {1}, {1}, {}, {}}), std::logic_error);
  options.use_kl_loss = true;
  CHECK_THROWS_AS(run(options, {{0}, {0}, {1}, {1}, {}, {}}), std::logic_error);
  options = {};
  options.entropy_coeff = 0.1;
  CHECK_THROWS_AS(run(options, {{0}, {0}, {1}, {1}, {}, {}}), std::logic_error);
}
