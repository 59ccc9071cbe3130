// Megatron-Core's DefaultDynamicCPScheduler (pull request #5154, commit d2e7ec5b), written from a
// description of its behaviour. It differs in three places, where upstream fails on a pool T that
// is not a power of two:
//   1. a sequence whose power-of-two need is above T, though T ranks can hold it, needs T;
//   2. a group whose growth would pass T counts as not growable, so that the micro-batch falls back
//      to one group of all T ranks;
//   3. the budget of that group is the integer sum of lengths <= T * limit, not a sum of rounded
//      fractions.
// Upstream also caps the attention work of a rank at 1.05 * longest * limit. No micro-batch within
// its token budget can reach that cap (sum s_i^2 / c <= longest * sum s_i / c), so it is left out.
#include "schedule/default_dynamic_cp.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>

#include "base/error.h"

namespace verlcpp::schedule {

namespace {

struct Group {
  int64_t size = 1;
  int64_t tokens = 0;  // real tokens of the whole group
  double work = 0;     // attention work of one rank: sum of s * s / size
  std::vector<int> samples;
};

/// One micro-batch while it is being built; groups lie on consecutive ranks from 0.
struct Draft {
  std::vector<Group> groups;
  std::map<int64_t, std::vector<size_t>> of_size;  // groups, until they are widened
  int64_t used = 0;                                // ranks
  double max_work = 0;
};

/// The samples without a micro-batch, longest first, each at its place among all. The next one is
/// found in about log n, whatever number of taken or too long ones lie between.
class Remaining {
 public:
  explicit Remaining(std::span<const int64_t> lengths)
      : lengths_(lengths), next_(lengths.size() + 1) {
    sorted_.resize(lengths.size());
    std::iota(sorted_.begin(), sorted_.end(), 0);
    std::iota(next_.begin(), next_.end(), size_t{0});
    std::stable_sort(sorted_.begin(), sorted_.end(),
                     [&](int a, int b) { return length(a) > length(b); });
  }

  size_t end() const { return sorted_.size(); }
  int sample(size_t place) const { return sorted_[place]; }
  int64_t tokens(size_t place) const { return length(sorted_[place]); }

  /// The first that is left at `place` or behind it; end() without any.
  size_t from(size_t place) {
    while (next_[place] != place) {
      next_[place] = next_[next_[place]];  // halves the way of later calls
      place = next_[place];
    }
    return place;
  }
  /// The first that is left of no more than so many tokens.
  size_t at_most(int64_t tokens) {
    const auto fits = std::partition_point(sorted_.begin(), sorted_.end(),
                                           [&](int sample) { return length(sample) > tokens; });
    return from(static_cast<size_t>(fits - sorted_.begin()));
  }
  void take(size_t place) { next_[place] = place + 1; }

 private:
  int64_t length(int sample) const { return lengths_[static_cast<size_t>(sample)]; }

  std::span<const int64_t> lengths_;
  std::vector<int> sorted_;
  std::vector<size_t> next_;  // of a taken one some place behind it, its own else
};

struct Scheduler {
  std::span<const int64_t> lengths;
  int64_t pool;
  int64_t limit;  // tokens a rank may hold
  int64_t min_cp;

  int64_t length(int sample) const { return lengths[static_cast<size_t>(sample)]; }

  int64_t need(int64_t length) const {
    int64_t cp = 1;
    while (length > limit * cp) cp *= 2;
    return std::min(std::max(cp, min_cp), pool);
  }

  static double work(int64_t length, int64_t cp) {
    return static_cast<double>(length) * static_cast<double>(length) / static_cast<double>(cp);
  }

  void add(Draft& draft, Group& group, int sample) const {
    group.tokens += length(sample);
    group.work += work(length(sample), group.size);
    group.samples.push_back(sample);
    draft.max_work = std::max(draft.max_work, group.work);
  }

  void open(Draft& draft, int sample, int64_t size) const {
    draft.of_size[size].push_back(draft.groups.size());
    draft.groups.push_back(Group{.size = size, .tokens = 0, .work = 0, .samples = {}});
    draft.used += size;
    add(draft, draft.groups.back(), sample);
  }

  /// Puts the sample where the largest work of any rank stays smallest. The first candidate wins
  /// ties: smaller sizes first, then older groups, then a new group. False if there is no room.
  bool place(Draft& draft, int sample) const {
    const int64_t tokens = length(sample);
    double best = std::numeric_limits<double>::infinity();
    int64_t best_size = 0;
    Group* best_group = nullptr;  // null: a new group
    for (int64_t size = need(tokens); size <= pool; size *= 2) {
      for (const size_t index : draft.of_size[size]) {
        Group& group = draft.groups[index];
        if (group.tokens + tokens > limit * size) continue;
        const double score = std::max(draft.max_work, group.work + work(tokens, size));
        if (score >= best) continue;
        best = score;
        best_size = size;
        best_group = &group;
        if (best == draft.max_work) break;  // nothing can score less
      }
      const double score = std::max(draft.max_work, work(tokens, size));
      if (pool - draft.used >= size && score < best) {
        best = score;
        best_size = size;
        best_group = nullptr;
      }
      if (best == draft.max_work) break;  // nothing can score less
    }
    if (best_size == 0) return false;
    if (best_group != nullptr) {
      add(draft, *best_group, sample);
    } else {
      open(draft, sample, best_size);
    }
    return true;
  }

  /// Widens the smallest groups, the first that fits each time, until no rank is idle. False if
  /// none can grow.
  bool fill(Draft& draft) const {
    while (draft.used < pool) {
      int64_t smallest = pool;
      for (const Group& group : draft.groups) smallest = std::min(smallest, group.size);
      const int64_t wider = std::min(2 * smallest, pool);
      const int64_t growth = wider - smallest;
      for (Group& group : draft.groups) {
        if (group.size != smallest) continue;
        if (draft.used == pool) return true;
        if (draft.used + growth > pool) return false;  // repair 2
        // All ranks behind the grown group shift, and the room for that was just checked.
        group.size = wider;
        draft.used += growth;
      }
    }
    return true;
  }

  /// The longest sample with a need() below `size`; 0 when there is none.
  int64_t longest_of_smaller_need(int64_t size) const {
    int64_t longest = 0;
    for (int64_t cp = 1; std::min(std::max(cp, min_cp), pool) < size; cp *= 2) longest = limit * cp;
    return longest;
  }

  /// place() has room for a sample of this need() if and only if it is no longer than this.
  int64_t room(Draft& draft, int64_t need) const {
    int64_t most = 0;
    for (int64_t size = need; size <= pool; size *= 2) {
      if (pool - draft.used >= size) most = std::max(most, limit * size);
      for (const size_t index : draft.of_size[size]) {
        most = std::max(most, limit * size - draft.groups[index].tokens);
      }
    }
    return most;
  }

  /// One group of the whole pool, longest samples first.
  Draft whole_pool(Remaining& remaining) const {
    Draft draft;
    draft.groups.push_back(Group{.size = pool, .tokens = 0, .work = 0, .samples = {}});
    draft.used = pool;
    Group& group = draft.groups[0];
    for (size_t i = remaining.from(0); i < remaining.end();) {
      const int64_t left = limit * pool - group.tokens;  // repair 3
      if (remaining.tokens(i) <= left) {
        add(draft, group, remaining.sample(i));
        remaining.take(i);
        i = remaining.from(i + 1);
      } else {
        i = remaining.at_most(left);
      }
    }
    return draft;
  }

  Draft micro_batch(Remaining& remaining) const {
    Draft draft;
    std::vector<size_t> taken{remaining.from(0)};
    open(draft, remaining.sample(taken[0]), need(remaining.tokens(taken[0])));
    for (size_t i = remaining.from(taken[0] + 1); i < remaining.end();) {
      if (place(draft, remaining.sample(i))) {
        taken.push_back(i);
        i = remaining.from(i + 1);
      } else {
        const int64_t size = need(remaining.tokens(i));
        i = remaining.at_most(std::max(room(draft, size), longest_of_smaller_need(size)));
      }
    }
    if (!fill(draft)) return whole_pool(remaining);
    for (const size_t i : taken) remaining.take(i);
    return draft;
  }
};

MicroBatch lay_out(Draft draft) {
  MicroBatch micro_batch;
  int rank = 0;
  for (Group& group : draft.groups) {
    PlanGroup out;
    for (int64_t i = 0; i < group.size; ++i) out.ranks.push_back(rank++);
    out.samples = std::move(group.samples);
    micro_batch.groups.push_back(std::move(out));
  }
  return micro_batch;
}

void check_options(const DynamicCpOptions& options) {
  if (options.pool < 1) {
    throw ConfigError("Dynamic CP needs at least one DPxCP rank, got " +
                      std::to_string(options.pool));
  }
  if (options.max_seqlen_per_rank < 1) {
    throw ConfigError(
        "max_seqlen_per_dp_cp_rank must be a positive integer when dynamic_context_parallel is "
        "enabled, got " +
        std::to_string(options.max_seqlen_per_rank));
  }
  if (options.min_cp < 1 || options.min_cp > options.pool) {
    throw ConfigError("min_dynamic_context_parallel_size is " + std::to_string(options.min_cp) +
                      ", but must be from 1 to the DPxCP size " + std::to_string(options.pool));
  }
}

void check_lengths(std::span<const int64_t> lengths, const DynamicCpOptions& options) {
  if (lengths.empty()) throw DataError("Dynamic CP cannot schedule an empty batch");
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1) {
      throw DataError("Dynamic CP requires every sequence to have at least one token, but sample " +
                      std::to_string(i) + " has length " + std::to_string(lengths[i]));
    }
    const int64_t limit = options.max_seqlen_per_rank;
    const int64_t ranks = lengths[i] / limit + (lengths[i] % limit != 0);
    if (ranks <= options.pool) continue;
    throw DataError("Sample " + std::to_string(i) + ": A sequence with " +
                    std::to_string(lengths[i]) + " tokens needs at least " + std::to_string(ranks) +
                    " ranks for max_seqlen_per_dp_cp_rank=" + std::to_string(limit) +
                    ", but the DPxCP group has " + std::to_string(options.pool) +
                    ". The longest sequence that fits has " + std::to_string(limit * options.pool) +
                    " tokens. Increase max_seqlen_per_dp_cp_rank or cap the rollout length.");
  }
}

}  // namespace

Plan schedule_default_dynamic_cp(std::span<const int64_t> lengths,
                                 const DynamicCpOptions& options) {
  check_options(options);
  check_lengths(lengths, options);
  // A limit above the sum of all lengths changes nothing, and limit * pool cannot overflow below.
  const int64_t sum = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const Scheduler scheduler{.lengths = lengths,
                            .pool = options.pool,
                            .limit = std::min(options.max_seqlen_per_rank, sum),
                            .min_cp = options.min_cp};
  Remaining remaining(lengths);
  Plan plan;
  plan.pool = static_cast<int>(options.pool);
  while (remaining.from(0) < remaining.end()) {
    plan.micro_batches.push_back(lay_out(scheduler.micro_batch(remaining)));
  }
  return plan;
}

}  // namespace verlcpp::schedule
