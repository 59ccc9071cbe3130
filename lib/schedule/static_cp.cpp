#include "schedule/static_cp.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace verlcpp::schedule {

namespace {

/// A replica's micro-batches, each a list of sample ids.
using Chunks = std::vector<std::vector<int>>;

/// A set of the differencing method that holds something. The order of sets is verl's: sum, number
/// of items, then the items in the order in which they were merged; of two sets the first items
/// differ already.
struct Set {
  int64_t sum = 0;
  int count = 0;
  int first = 0, last = 0;  // its items, chained by Differencing

  bool operator<(const Set& other) const {
    return std::tie(sum, count, first) < std::tie(other.sum, other.count, other.first);
  }
};

/// A partial partition into k sets; empty ones, the smallest, are left out: k may be near the
/// number of items.
struct State {
  std::set<Set> sets;
  int64_t spread = 0;

  /// Larger spread first, then larger largest set. The largest sets of two states are never equal:
  /// they hold different items. So the order is total and any heap pops in it.
  bool operator<(const State& other) const {
    if (spread != other.spread) return spread < other.spread;
    return *sets.rbegin() < *other.sets.rbegin();
  }
};

/// Merges partial partitions of `values` into one.
class Differencing {
 public:
  Differencing(std::span<const int64_t> values, size_t k, bool equal_size)
      : k_(k), next_(values.size(), kNone) {
    std::vector<int> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return values[static_cast<size_t>(a)] < values[static_cast<size_t>(b)];
    });
    const size_t run = equal_size ? k : 1;
    for (size_t start = 0; start < order.size(); start += run) {
      State& state = heap_.emplace_back();
      for (size_t i = start; i < start + run; ++i) {
        const int item = order[i];
        state.sets.insert({values[static_cast<size_t>(item)], 1, item, item});
      }
      set_spread(state);
    }
  }

  /// The k sets, largest first, each a list of items in ascending order.
  Chunks partition() {
    std::make_heap(heap_.begin(), heap_.end());
    while (heap_.size() > 1) {
      std::pop_heap(heap_.begin(), heap_.end());
      State first = std::move(heap_.back());
      heap_.pop_back();
      std::pop_heap(heap_.begin(), heap_.end());
      merge(first, heap_.back());
      heap_.back() = std::move(first);
      std::push_heap(heap_.begin(), heap_.end());
    }
    Chunks out(k_);
    size_t i = 0;
    const std::set<Set>& sets = heap_.front().sets;
    for (auto set = sets.rbegin(); set != sets.rend(); ++set, ++i) {
      for (int item = set->first; item != kNone; item = next(item)) out[i].push_back(item);
      std::sort(out[i].begin(), out[i].end());
    }
    return out;
  }

 private:
  static constexpr int kNone = -1;

  int& next(int item) { return next_[static_cast<size_t>(item)]; }

  void set_spread(State& state) const {
    const int64_t smallest = state.sets.size() < k_ ? 0 : state.sets.begin()->sum;
    state.spread = state.sets.rbegin()->sum - smallest;
  }

  /// The largest set with the other's smallest, and so on: those that meet an empty one stay, and
  /// the smallest of both meet. Takes the sets of `other`.
  void merge(State& state, State& other) {
    const size_t both = state.sets.size() + other.sets.size();
    std::vector<std::set<Set>::node_type> mine, theirs;
    for (size_t i = k_; i < both; ++i) {
      mine.push_back(state.sets.extract(state.sets.begin()));
      theirs.push_back(other.sets.extract(other.sets.begin()));
    }
    if (state.sets.size() < other.sets.size()) std::swap(state.sets, other.sets);
    state.sets.merge(other.sets);
    for (size_t i = 0; i < mine.size(); ++i) {
      append(mine[i].value(), theirs[mine.size() - 1 - i].value());
      state.sets.insert(std::move(mine[i]));
    }
    set_spread(state);
  }

  void append(Set& set, const Set& more) {
    set.sum += more.sum;
    set.count += more.count;
    next(set.last) = more.first;
    set.last = more.last;
  }

  size_t k_;
  std::vector<int> next_;  // the item behind each in its set
  std::vector<State> heap_;
};

int64_t integer_workload(int64_t length) { return 24576 * length + length * length; }

int64_t sum_lengths(const std::vector<int>& samples, std::span<const int64_t> lengths) {
  int64_t sum = 0;
  for (int sample : samples) sum += lengths[static_cast<size_t>(sample)];
  return sum;
}

/// The samples of each DP replica, ascending. Balanced by workload; counts differ by at most one:
/// items of value zero fill the count up to a multiple of dp, and as they sort first and are fewer
/// than dp, they all fall into the first run of the equal-size method, which gives each set one.
Chunks deal(std::span<const int64_t> lengths, int64_t dp) {
  const auto count = static_cast<int64_t>(lengths.size());
  std::vector<int64_t> values;
  for (int64_t length : lengths) values.push_back(integer_workload(length));
  values.resize(static_cast<size_t>((count + dp - 1) / dp * dp), 0);
  Chunks replicas = karmarkar_karp(values, static_cast<int>(dp), true);
  for (std::vector<int>& samples : replicas) {
    std::erase_if(samples, [count](int sample) { return sample >= count; });
  }
  return replicas;
}

/// Cuts into `count` consecutive parts of at most `size`, none empty while there are samples
/// enough.
Chunks cut(const std::vector<int>& samples, size_t count, size_t size) {
  Chunks chunks;
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t remaining = samples.size() - next;
    const size_t later = count - 1 - i;
    const size_t take = remaining > later ? std::min(size, remaining - later) : 0;
    const auto begin = samples.begin() + static_cast<std::ptrdiff_t>(next);
    chunks.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(take));
    next += take;
  }
  return chunks;
}

std::vector<Chunks> fixed_size(const Chunks& replicas, int64_t micro_batch_size) {
  const auto size = static_cast<size_t>(micro_batch_size);
  size_t count = 0;
  for (const std::vector<int>& samples : replicas) {
    count = std::max(count, (samples.size() + size - 1) / size);
  }
  std::vector<Chunks> out;
  for (const std::vector<int>& samples : replicas) out.push_back(cut(samples, count, size));
  return out;
}

/// verl's order of micro-batches: descending by workload (ties: larger first index first), then
/// every second one from the largest on, reversed, followed by the others: small ones at both ends.
Chunks arrange(Chunks parts, std::span<const int64_t> lengths) {
  const auto key = [&](const std::vector<int>& part) {
    int64_t sum = 0;
    for (int sample : part) sum += integer_workload(lengths[static_cast<size_t>(sample)]);
    return std::pair(sum, part.front());
  };
  std::sort(parts.begin(), parts.end(),
            [&](const std::vector<int>& a, const std::vector<int>& b) { return key(a) > key(b); });
  Chunks even, odd;
  for (size_t i = 0; i < parts.size(); ++i) {
    (i % 2 == 0 ? even : odd).push_back(std::move(parts[i]));
  }
  std::reverse(even.begin(), even.end());
  even.insert(even.end(), odd.begin(), odd.end());
  return even;
}

/// `count` micro-batches (empty ones last, if there are fewer samples than that).
Chunks partition(const std::vector<int>& samples, std::span<const int64_t> lengths, size_t count) {
  const size_t parts = std::min(count, samples.size());
  if (parts == 0) return Chunks(count);
  std::vector<int64_t> values;
  for (int sample : samples) {
    values.push_back(integer_workload(lengths[static_cast<size_t>(sample)]));
  }
  Chunks chunks = karmarkar_karp(values, static_cast<int>(parts), false);
  for (std::vector<int>& chunk : chunks) {
    for (int& index : chunk) index = samples[static_cast<size_t>(index)];
  }
  chunks = arrange(std::move(chunks), lengths);
  chunks.resize(count);
  return chunks;
}

/// The smallest number of micro-batches, from verl's ceil(tokens / budget) up, with which every
/// part of every replica keeps the budget. With one sample a part it always does.
std::vector<Chunks> under_budget(const Chunks& replicas, std::span<const int64_t> lengths,
                                 int64_t budget) {
  size_t count = 1;
  for (const std::vector<int>& samples : replicas) {
    const int64_t tokens = sum_lengths(samples, lengths);
    const auto wanted = static_cast<size_t>(tokens / budget + (tokens % budget != 0));
    count = std::max(count, std::min(samples.size(), wanted));
  }
  std::vector<Chunks> out(replicas.size());
  // A larger number is tried from the replica on that had no place in the last one.
  for (size_t replica = 0, fitting = 0; fitting < replicas.size();) {
    out[replica] = partition(replicas[replica], lengths, count);
    const bool fits = std::all_of(
        out[replica].begin(), out[replica].end(),
        [&](const std::vector<int>& part) { return sum_lengths(part, lengths) <= budget; });
    if (fits) {
      ++fitting;
      replica = (replica + 1) % replicas.size();
    } else {
      ++count;
      fitting = 0;
    }
  }
  return out;
}

/// A new micro-batch where the next sample would pass the budget; replicas in turn, the last turn
/// filled up with empty ones.
std::vector<Chunks> in_order(std::span<const int64_t> lengths, int64_t dp, int64_t budget) {
  Chunks packs;
  int64_t room = 0;
  for (size_t sample = 0; sample < lengths.size(); ++sample) {
    if (packs.empty() || lengths[sample] > room) {
      packs.emplace_back();
      room = budget;
    }
    packs.back().push_back(static_cast<int>(sample));
    room -= lengths[sample];
  }
  const auto replicas = static_cast<size_t>(dp);
  packs.resize((packs.size() + replicas - 1) / replicas * replicas);
  std::vector<Chunks> out(replicas);
  for (size_t i = 0; i < packs.size(); ++i) out[i % replicas].push_back(std::move(packs[i]));
  return out;
}

std::vector<Chunks> micro_batches(std::span<const int64_t> lengths,
                                  const StaticCpOptions& options) {
  if (options.packing == Packing::kInOrder) {
    return in_order(lengths, options.dp, *options.token_budget);
  }
  const Chunks replicas = deal(lengths, options.dp);
  return options.token_budget ? under_budget(replicas, lengths, *options.token_budget)
                              : fixed_size(replicas, options.micro_batch_size);
}

void check_input(std::span<const int64_t> lengths, const StaticCpOptions& options) {
  expects(options.dp >= 1 && options.cp >= 1, "static CP: dp and cp are at least one");
  expects(options.packing == Packing::kBalanced || options.token_budget,
          "static CP: packing in order needs a token budget");
  if (!options.token_budget && options.micro_batch_size < 1) {
    throw ConfigError("the micro-batch size per GPU must be at least 1, got " +
                      std::to_string(options.micro_batch_size));
  }
  if (options.token_budget && *options.token_budget < 1) {
    throw ConfigError("the token budget of a micro-batch must be at least 1, got " +
                      std::to_string(*options.token_budget));
  }
  if (lengths.empty()) throw DataError("cannot make micro-batches of an empty batch");
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1) {
      throw DataError("sample " + std::to_string(i) + " has length " + std::to_string(lengths[i]) +
                      "; every sequence needs at least one token");
    }
    if (!options.token_budget || lengths[i] <= *options.token_budget) continue;
    throw DataError("max_token_len must be greater than the sequence length: sample " +
                    std::to_string(i) + " has " + std::to_string(lengths[i]) +
                    " tokens, a micro-batch holds " + std::to_string(*options.token_budget) +
                    " (max_token_len_per_gpu x context_parallel_size " +
                    std::to_string(options.cp) + ")");
  }
}

}  // namespace

double workload(int64_t length) { return static_cast<double>(integer_workload(length)); }

std::vector<std::vector<int>> karmarkar_karp(std::span<const int64_t> values, int k,
                                             bool equal_size) {
  expects(k >= 1, "karmarkar_karp: at least one set");
  const auto sets = static_cast<size_t>(k);
  expects(!equal_size || values.size() % sets == 0, "karmarkar_karp: equal sizes must divide");
  return values.empty() ? Chunks(sets) : Differencing(values, sets, equal_size).partition();
}

Plan schedule_static_cp(std::span<const int64_t> lengths, const StaticCpOptions& options) {
  check_input(lengths, options);
  const std::vector<Chunks> chunks = micro_batches(lengths, options);
  Plan plan;
  plan.pool = static_cast<int>(options.dp * options.cp);
  for (size_t i = 0; i < chunks.front().size(); ++i) {
    MicroBatch micro_batch;
    int rank = 0;
    for (const Chunks& replica : chunks) {
      PlanGroup group;
      for (int64_t j = 0; j < options.cp; ++j) group.ranks.push_back(rank++);
      group.samples = replica[i];
      micro_batch.groups.push_back(std::move(group));
    }
    plan.micro_batches.push_back(std::move(micro_batch));
  }
  return plan;
}

}  // namespace verlcpp::schedule
