#pragma once

#include <string>
#include <vector>

#include "support/temporary_folder.h"
#include "train/compare_dcp.h"

// A small comparison on four CPU ranks, and what is seen of it.

namespace verlcpp::test {

/// Four ranks, DP 2 x CP 2, two epochs of three mini-batches, KL against the reference; a limit of
/// 40 tokens a rank. Samples of up to `longest` tokens are played back from `folder`.
std::vector<std::string> compare_overrides(const TemporaryFolder& folder, int longest = 72);

/// The reference model with sizes that two TP ranks can share, without weights.
std::string even_model(const TemporaryFolder& folder);

train::Comparison run_compare(const std::vector<train::CompareArm>& arms,
                              const train::CompareOptions& options);

/// A result with numbers to be found again.
train::ArmResult compare_result(const std::string& name, std::vector<double> seconds, double loss);

}  // namespace verlcpp::test
