#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/plan.h"

namespace verlcpp::schedule {

/// How a token budget fills: balanced by Karmarkar-Karp (verl), or in sample order (Megatron's
/// dp_balanced).
enum class Packing { kBalanced, kInOrder };

struct StaticCpOptions {
  int64_t dp = 1, cp = 1;
  /// Samples a micro-batch of one DP replica (ppo_micro_batch_size_per_gpu); used when
  /// `token_budget` is empty.
  int64_t micro_batch_size = 1;
  /// Real tokens a micro-batch of one DP replica may hold: max_token_len_per_gpu * cp. Strict.
  std::optional<int64_t> token_budget;
  Packing packing = Packing::kBalanced;  // kInOrder expects a token budget
};

/// verl's workload of a sequence, 24576 L + L^2.
double workload(int64_t length);

/// A lower bound of the number of packs that hold sequences of 1 to `budget` tokens, at most
/// `budget` in each: the tokens' share, or what sequences of more than a half, a third, ... of a
/// pack need (dual feasible functions of Fekete and Schepers).
int64_t fewest_packs(std::span<const int64_t> lengths, int64_t budget);

/// Deals the samples out to DP replicas (balanced by workload), then cuts each replica's into
/// micro-batches: of a fixed size, or by Karmarkar-Karp under the token budget. All replicas get
/// the same number of micro-batches. In order: samples fill one micro-batch after the other up to
/// the budget, and the replicas take them in turn; the last ones may get an empty one.
/// Throws DataError when a sequence exceeds the budget.
Plan schedule_static_cp(std::span<const int64_t> lengths, const StaticCpOptions& options);

}  // namespace verlcpp::schedule
