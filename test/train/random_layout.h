#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout_case.h"

// Random training cases and random layouts of them, for the property test: everything follows from
// (seed, index), so that a failure names the one draw that repeats it.

namespace verlcpp::test {

/// Consecutive draws share their case, and with it the one-rank result.
constexpr int64_t kLayoutsPerCase = 8;

/// What is trained: the same under every layout.
struct RandomCase {
  model::ModelConfig model;
  std::vector<data::Trajectory> batch;
  std::vector<std::string> overrides;  // algorithm, batch and length settings
  int64_t n = 1, longest = 0;          // responses a prompt; tokens of the longest trajectory
};
RandomCase draw_case(uint64_t seed, int64_t number);

/// A layout of at most 16 ranks in which the case runs: what its model can be cut into, and budgets
/// and limits that the longest trajectory fits.
struct RandomLayout {
  int64_t tp = 1, cp = 1, pool = 1;  // pool = DP x CP
  bool sequence_parallel = false, dynamic_cp = false, dynamic_bsz = false, zero1 = true;
  bool shuffle_packing = false, fused_head = false;
  std::vector<std::string> overrides;
};
RandomLayout draw_layout(uint64_t seed, int64_t index, const RandomCase& of);

/// Draws first to last of a seed.
struct DrawRange {
  uint64_t seed = 0;
  int64_t first = 0, last = 0;
};
/// Reads "SEED:INDEX" and "SEED:FIRST-LAST"; std::invalid_argument with the text and what is valid.
DrawRange parse_draws(const std::string& text);

}  // namespace verlcpp::test
