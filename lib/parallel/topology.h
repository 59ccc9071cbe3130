#pragma once

#include <cstdint>
#include <vector>

namespace verlcpp::parallel {

/// Degrees of the static axes. world = tp * pp * cp * dp.
struct AxisSizes {
  int64_t world = 1, tp = 1, pp = 1, cp = 1;
  int64_t dp() const { return world / (tp * pp * cp); }
  /// Ranks that share one (tp, pp) coordinate: the DPxCP pool.
  int64_t pool() const { return world / (tp * pp); }
};

/// Who one rank is on each axis. Megatron's order tp-cp-dp-pp: TP fastest, then CP, then DP, PP
/// slowest; so a pool is ordered dp-major, cp-minor.
class Topology {
 public:
  /// Throws ConfigError naming the keys when world is not divisible by tp * pp * cp.
  Topology(AxisSizes sizes, int64_t rank);

  const AxisSizes& sizes() const { return sizes_; }
  int64_t rank() const { return rank_; }
  int64_t tp_rank() const { return rank_ % sizes_.tp; }
  int64_t cp_rank() const { return rank_ / sizes_.tp % sizes_.cp; }
  int64_t dp_rank() const { return rank_ / (sizes_.tp * sizes_.cp) % sizes_.dp(); }
  int64_t pp_rank() const { return rank_ / (sizes_.tp * sizes_.pool()); }
  int64_t pool_rank() const { return dp_rank() * sizes_.cp + cp_rank(); }

 private:
  AxisSizes sizes_;
  int64_t rank_;
};

/// A context-parallel group as a value: pool ranks in ring order and my place among them. Identical
/// on all members by construction, since it comes from the plan.
struct CpGroup {
  std::vector<int> ranks;
  int index = 0;
  int size() const { return static_cast<int>(ranks.size()); }
};

}  // namespace verlcpp::parallel
