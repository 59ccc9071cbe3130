#include "schedule/balanced_dynamic_cp.h"

#include <algorithm>
#include <numeric>

namespace verlcpp::schedule {
namespace {

// What single moves of one plan may look at, groups and samples: some ten milliseconds, whatever
// the batch.
constexpr int64_t kLooks = 8'000'000;
// Shares of the limit that are tried, in eighths.
constexpr int64_t kEighths[] = {8, 7, 6, 5, 4};

struct Group {
  size_t first_rank = 0, ranks = 1;
  int64_t tokens = 0;
  double cost = 0;
  std::vector<int> samples;
};

/// A plan whose samples move between its groups; ranks stay.
class Moves {
 public:
  Moves(const Plan& plan, std::span<const int64_t> lengths, int64_t limit, const CostModel& model,
        int64_t tp)
      : lengths_(lengths),
        limit_(limit),
        model_(model),
        tp_(tp),
        free_(static_cast<size_t>(plan.pool)) {
    for (const MicroBatch& micro_batch : plan.micro_batches) {
      for (const PlanGroup& group : micro_batch.groups) {
        Group& g = groups_.emplace_back();
        g.first_rank = static_cast<size_t>(group.ranks.front());
        g.ranks = group.ranks.size();
        g.samples = group.samples;
        for (int sample : g.samples) g.tokens += length(sample);
        g.cost = group_cost(model, group, lengths, tp);
      }
    }
    end_ = end();
  }

  /// Improves until nothing does, or all looks are spent.
  void run() {
    while (!spent() && improve()) {
    }
  }

  /// The groups of `plan` with what they hold now.
  Plan applied(Plan plan) const {
    size_t next = 0;
    for (MicroBatch& micro_batch : plan.micro_batches) {
      for (PlanGroup& group : micro_batch.groups) group.samples = groups_[next++].samples;
    }
    return plan;
  }

 private:
  bool spent() const { return looks_ >= kLooks; }
  int64_t length(int sample) const { return lengths_[static_cast<size_t>(sample)]; }
  double cost(int sample, const Group& g) const {
    return document_cost(model_, length(sample), tp_, static_cast<int64_t>(g.ranks));
  }
  bool has_room(const Group& g, int64_t more) const {
    return g.tokens + more <= limit_ * static_cast<int64_t>(g.ranks);
  }

  /// When the last rank is done; free_[r] is then when rank r is.
  double end() {
    looks_ += static_cast<int64_t>(groups_.size());
    std::fill(free_.begin(), free_.end(), 0.0);
    for (const Group& g : groups_) {
      const auto ranks = std::span(free_).subspan(g.first_rank, g.ranks);
      const double done = *std::max_element(ranks.begin(), ranks.end()) + g.cost;
      std::fill(ranks.begin(), ranks.end(), done);
    }
    return *std::max_element(free_.begin(), free_.end());
  }

  /// The groups that the end waits for, from the last one back: each starts when the one before it
  /// is done.
  std::vector<size_t> critical_path() {
    end();
    std::vector<size_t> path;
    auto rank = static_cast<size_t>(std::max_element(free_.begin(), free_.end()) - free_.begin());
    // Group ends again, with what each group waited for.
    std::vector<double> done(free_.size(), 0);
    std::vector<size_t> last(free_.size(), groups_.size()), before(groups_.size());
    for (size_t i = 0; i < groups_.size(); ++i) {
      const Group& g = groups_[i];
      size_t slowest = g.first_rank;
      for (size_t r = g.first_rank; r < g.first_rank + g.ranks; ++r) {
        if (done[r] > done[slowest]) slowest = r;
      }
      before[i] = last[slowest];
      const double finished = done[slowest] + g.cost;
      for (size_t r = g.first_rank; r < g.first_rank + g.ranks; ++r) {
        done[r] = finished;
        last[r] = i;
      }
    }
    for (size_t i = last[rank]; i < groups_.size(); i = before[i]) path.push_back(i);
    return path;
  }

  /// One change that brings the end forward.
  bool improve() {
    for (size_t from : critical_path()) {
      for (size_t to = 0; to < groups_.size(); ++to) {
        if (to == from) continue;
        if (move_any(groups_[from], groups_[to]) || swap_any(groups_[from], groups_[to])) {
          return true;
        }
        if (spent()) return false;
      }
    }
    return false;
  }

  bool move_any(Group& from, Group& to) {
    if (from.samples.size() < 2) return false;  // no rank is idle
    for (size_t i = 0; i < from.samples.size() && !spent(); ++i) {
      ++looks_;
      const int sample = from.samples[i];
      if (!has_room(to, length(sample))) continue;
      if (!try_costs(from, from.cost - cost(sample, from), to, to.cost + cost(sample, to))) {
        continue;
      }
      from.tokens -= length(sample);
      to.tokens += length(sample);
      from.samples.erase(from.samples.begin() + static_cast<std::ptrdiff_t>(i));
      to.samples.push_back(sample);
      return true;
    }
    return false;
  }

  bool swap_any(Group& from, Group& to) {
    for (int& mine : from.samples) {
      for (int& theirs : to.samples) {
        if (spent()) return false;
        ++looks_;
        const int64_t more = length(mine) - length(theirs);
        if (more <= 0 || !has_room(to, more)) continue;
        const double less = from.cost - cost(mine, from) + cost(theirs, from);
        if (!try_costs(from, less, to, to.cost - cost(theirs, to) + cost(mine, to))) continue;
        from.tokens -= more;
        to.tokens += more;
        std::swap(mine, theirs);
        return true;
      }
    }
    return false;
  }

  /// Keeps the two costs if the end comes sooner by more than rounding.
  bool try_costs(Group& a, double cost_a, Group& b, double cost_b) {
    const double old_a = a.cost, old_b = b.cost;
    a.cost = cost_a;
    b.cost = cost_b;
    const double now = end();
    if (now < end_ * (1 - 1e-9)) {
      end_ = now;
      return true;
    }
    a.cost = old_a;
    b.cost = old_b;
    return false;
  }

  std::span<const int64_t> lengths_;
  int64_t limit_;
  const CostModel& model_;
  int64_t tp_;
  std::vector<Group> groups_;  // in the order of the plan
  std::vector<double> free_;
  double end_ = 0;
  int64_t looks_ = 0;
};

/// Fewer of large batches, by the square of the samples.
int64_t plans_to_try(int64_t samples) {
  constexpr int64_t kEnough = 40, kSamples = 2048;
  return std::max<int64_t>(3, kEnough * kSamples * kSamples / (samples * samples));
}

}  // namespace

Plan schedule_balanced_dynamic_cp(std::span<const int64_t> lengths, const DynamicCpOptions& options,
                                  const CostModel& model, int64_t tp) {
  Plan best = schedule_default_dynamic_cp(lengths, options);
  double best_end = makespan(model, best, lengths, tp);
  // A limit above the sum of all lengths changes nothing.
  const int64_t sum = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const int64_t limit = std::min(options.max_seqlen_per_rank, sum);
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  int64_t left = plans_to_try(static_cast<int64_t>(lengths.size()));
  for (const int64_t eighths : kEighths) {
    const int64_t tried = limit / 8 * eighths + limit % 8 * eighths / 8;
    if (tried < 1 || tried * options.pool < longest) continue;
    for (int64_t min_cp = options.min_cp; min_cp <= options.pool && left > 0; min_cp *= 2) {
      if (eighths == 8 && min_cp == options.min_cp) continue;  // the first of all
      --left;
      const Plan plan = schedule_default_dynamic_cp(
          lengths, {.pool = options.pool, .max_seqlen_per_rank = tried, .min_cp = min_cp});
      const double end = makespan(model, plan, lengths, tp);
      if (end >= best_end) continue;
      best_end = end;
      best = plan;
    }
  }
  Moves moves(best, lengths, limit, model, tp);
  moves.run();
  return moves.applied(std::move(best));
}

}  // namespace verlcpp::schedule
