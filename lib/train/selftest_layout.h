#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/tree.h"
#include "train/layout_run.h"
#include "train/selftest_samples.h"

// --selftest-layout: the user's own model and configuration give the same numbers under every
// layout that fits.

namespace verlcpp::train {

struct SelftestOptions {
  parallel::MakeDevice make_device;
  int64_t memory_bytes = 0;  // of the machine, for all ranks together
};

/// A layout as a change of the user's configuration.
struct SelftestLayout {
  std::string name;                    // for people
  std::vector<std::string> overrides;  // those that change something; none for the user's own
  TrainConfig config;
};

/// The user's own layout first, then tensor, context and data parallelism, dynamic CP, both kinds
/// of optimizer and micro-batches of one sample, on up to 8 ranks, or as many as the user has. TP
/// sizes that the model cannot be cut into are left out and named in `skipped`. `longest`: tokens
/// of the longest sample, which every budget and limit holds.
std::vector<SelftestLayout> selftest_layouts(const config::Node& resolved_tree,
                                             const model::ModelConfig& model, int64_t longest,
                                             std::vector<std::string>& skipped);

/// One rank and, if the samples together have at most `tokens`, one micro-batch.
TrainConfig selftest_one_rank(const config::Node& resolved_tree, int64_t tokens);

struct SelftestRow {
  std::string name;
  std::vector<std::string> overrides;
  int64_t ranks = 1, micro_batches = 1;  // of the update
  LayoutDifference difference;           // from one rank with one micro-batch
};

struct SelftestReport {
  std::vector<std::string> about;  // what was run
  std::vector<SelftestRow> rows;
  std::vector<std::string> skipped;  // layouts that do not fit, and why
  double tolerance = 0;

  bool agrees(const SelftestRow& row) const { return row.difference.largest() <= tolerance; }
  bool all_agree() const;
};

/// Runs one update of the user's configuration on a few samples under every layout. Expects a tree
/// that validate() has passed; nothing is written. DeviceError when the memory does not hold one
/// rank, or no layout besides; DataError when the reference's own numbers are not finite.
SelftestReport selftest_layout(const config::Node& resolved_tree, const SelftestOptions& options);

/// The table, and a last line "N layouts agree, ..." or one that asks for a report.
std::string to_text(const SelftestReport& report);

}  // namespace verlcpp::train
