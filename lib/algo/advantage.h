#pragma once

#include <span>
#include <string>
#include <vector>

namespace verlcpp::algo {

/// GRPO outcome advantage (verl compute_grpo_outcome_advantage): a_i = (R_i - mean_g) / (std_g +
/// 1e-6) with the unbiased std of the response's group, or R_i - mean_g when `norm_by_std` is false
/// (Dr.GRPO); a group of one has mean 0 and std 1. `scores` is the sum of token-level rewards of
/// each response, `groups` its uid. One value per response; every response token gets it.
std::vector<double> grpo_advantage(std::span<const double> scores,
                                   std::span<const std::string> groups, bool norm_by_std);

}  // namespace verlcpp::algo
