#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/trajectory.h"
#include "model/parameters.h"
#include "parallel/rank_device.h"
#include "train/inputs.h"

namespace verlcpp::train {

/// A few short samples of the user's own: whole groups, prompt-major.
struct SelftestSamples {
  std::vector<data::Trajectory> batch;
  int64_t prompts = 0, n = 0;  // groups, rows of each
  std::string about;           // where they come from and what was changed, for people
};

/// At most four groups of four: those of the first recorded step (rollout.name=replay), else a
/// rollout of the initial weights on the first step's prompts, on one rank, scored by the data
/// source's rule. Prompts keep their last 64 tokens, responses their first 32 (generated) or 64.
/// What would leave nothing to compare is changed: responses of one length are cut to several, and
/// rewards are drawn where every group has equal ones.
SelftestSamples selftest_samples(const TrainConfig& config, const Inputs& inputs,
                                 const parallel::MakeDevice& make_device);

/// If all responses have one length L > 1, response i keeps its first L - L (i mod 4) / 4 tokens.
/// True when something was cut.
bool vary_lengths(std::vector<data::Trajectory>& batch);
/// Draws rewards in (0, 1) if no group has two different ones. True when it did.
bool vary_rewards(std::vector<data::Trajectory>& batch);

}  // namespace verlcpp::train
