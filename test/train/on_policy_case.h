#pragma once

#include "memory_case.h"

namespace verlcpp::test {

/// Largest |difference| of a response token's log-prob from that of the log-prob pass which gives
/// the old log-probs, with one set of weights.
struct OnPolicyDifference {
  double sampled = 0;  // of the rollout's own
  double updated =
      0;  // of the update's forward of its first mini-batch: the |log ratio| of its loss
};

/// Generates with random weights, then runs the log-prob pass and the update's own forward over the
/// result, on thread ranks.
OnPolicyDifference on_policy_difference(const MemoryCase& c, const train::TrainConfig& config,
                                        const parallel::MakeDevice& make_device);

}  // namespace verlcpp::test
