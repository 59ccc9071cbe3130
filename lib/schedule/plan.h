#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace verlcpp::schedule {

/// One CP group of a micro-batch: consecutive pool ranks and the samples packed on them, in pack
/// order (every rank of the group holds a zigzag slice of each sample).
struct PlanGroup {
  std::vector<int> ranks;
  std::vector<int> samples;
};

/// Groups in rank order; together they cover every rank of the pool exactly once. Only a static
/// plan may hold a group without samples (a DP replica that has run out of samples).
struct MicroBatch {
  std::vector<PlanGroup> groups;
};

/// What the scheduler returns: each sample exactly once, no group over the budget of real tokens.
/// The budget holds for a group's average, sum(lengths) / group size: one rank's zigzag shard can
/// hold more when documents are shorter than the chunking (one token is all on the first rank), and
/// alignment padding comes on top; see padded_rows_bound. Deterministic in the lengths.
struct Plan {
  int pool = 1;
  std::vector<MicroBatch> micro_batches;
};

/// Alignment of one sequence (verl): TP if its group is one rank, else TP * 2 * group.
int64_t alignment(int64_t tp, int64_t cp);
/// `length` rounded up to alignment(tp, cp).
int64_t padded_length(int64_t length, int64_t tp, int64_t cp);
/// Real tokens in CP rank `index`'s zigzag shard (chunks index and 2cp-1-index of the padded
/// sequence) of a sequence.
int64_t shard_tokens(int64_t length, int64_t tp, int64_t cp, int64_t index);

/// Padded rows that a rank of a group of `cp` ranks can hold at most, whatever the plan: up to
/// `samples` documents of `shortest` to `longest` tokens, sum(lengths) / cp within `budget`.
int64_t padded_rows_bound(int64_t budget, int64_t samples, int64_t shortest, int64_t longest,
                          int64_t tp, int64_t cp);

/// Throws std::logic_error unless the plan keeps the guarantees above for these lengths.
void check_plan(const Plan& plan, std::span<const int64_t> lengths, bool allow_empty_groups);

struct PlanTotals {
  int64_t tokens = 0;         // unique real tokens
  int64_t padded_tokens = 0;  // with alignment, over all ranks
};
PlanTotals totals(const Plan& plan, std::span<const int64_t> lengths, int64_t tp);

/// For people / for programs. The JSON has the form
/// {"pool": T, "micro_batches": [{"ranks": [[ids of rank 0], ...], "groups": [{"ranks": [0, 1],
/// "samples": [3, 5]}], "tokens": [real tokens of each rank's shard], "padded_tokens": [with
/// alignment]}], "total_tokens": n, "total_padded_tokens": n}.
std::string to_text(const Plan& plan, std::span<const int64_t> lengths, int64_t tp);
std::string to_json(const Plan& plan, std::span<const int64_t> lengths, int64_t tp);

}  // namespace verlcpp::schedule
