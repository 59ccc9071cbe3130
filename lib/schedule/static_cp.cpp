#include "schedule/static_cp.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "schedule/differencing.h"

namespace verlcpp::schedule {

namespace {

/// A replica's micro-batches, each a list of sample ids.
using Chunks = std::vector<std::vector<int>>;

int64_t integer_workload(int64_t length) { return 24576 * length + length * length; }

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

/// A replica's samples under a token budget.
class Replica {
 public:
  Replica(std::vector<int> samples, std::span<const int64_t> all_lengths, int64_t budget)
      : samples_(std::move(samples)),
        all_lengths_(all_lengths),
        lengths_(each(all_lengths, [](int64_t length) { return length; })),
        differencing_(each(all_lengths, integer_workload), lengths_),
        budget_(budget) {}

  /// No number of micro-batches below it keeps the budget.
  size_t fewest() const {
    return std::min(samples_.size(), static_cast<size_t>(fewest_packs(lengths_, budget_)));
  }

  /// `count` micro-batches (empty ones last, if there are fewer samples than that); nothing if one
  /// would pass the budget.
  std::optional<Chunks> cut(size_t count) {
    const size_t parts = std::min(count, samples_.size());
    if (parts == 0) return Chunks(count);
    std::optional<Chunks> chunks = differencing_.partition(parts, false, budget_);
    if (!chunks) return chunks;
    for (std::vector<int>& chunk : *chunks) {
      for (int& index : chunk) index = samples_[static_cast<size_t>(index)];
    }
    chunks = arrange(*std::move(chunks), all_lengths_);
    chunks->resize(count);
    return chunks;
  }

 private:
  template <typename Value>
  std::vector<int64_t> each(std::span<const int64_t> all_lengths, const Value& value) const {
    std::vector<int64_t> out;
    for (int sample : samples_) out.push_back(value(all_lengths[static_cast<size_t>(sample)]));
    return out;
  }

  std::vector<int> samples_;
  std::span<const int64_t> all_lengths_;
  std::vector<int64_t> lengths_;
  Differencing differencing_;
  int64_t budget_;
};

/// The smallest number of micro-batches, from verl's ceil(tokens / budget) up, with which every
/// part of every replica keeps the budget. With one sample a part it always does.
std::vector<Chunks> under_budget(const Chunks& samples, std::span<const int64_t> lengths,
                                 int64_t budget) {
  std::vector<Replica> replicas;
  size_t count = 1;
  for (const std::vector<int>& own : samples) {
    count = std::max(count, replicas.emplace_back(own, lengths, budget).fewest());
  }
  std::vector<Chunks> out(replicas.size());
  // A larger number is tried from the replica on that had no place in the last one.
  for (size_t replica = 0, fitting = 0; fitting < replicas.size();) {
    if (std::optional<Chunks> chunks = replicas[replica].cut(count)) {
      out[replica] = *std::move(chunks);
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

int64_t fewest_packs(std::span<const int64_t> lengths, int64_t budget) {
  int64_t sum = 0;
  for (const int64_t length : lengths) sum += length;
  int64_t most = sum / budget + (sum % budget != 0);
  const int64_t last = std::min<int64_t>(64, std::numeric_limits<int64_t>::max() / budget - 1);
  const auto count = static_cast<int64_t>(lengths.size());
  for (int64_t k = 1; k <= last && most < count; ++k) {
    // Of x = length / budget: x when (k + 1) x is a whole number, else floor((k + 1) x) / k; here
    // times k (k + 1). In a pack the x, and so the others, come to at most one.
    int64_t weights = 0;
    for (const int64_t length : lengths) {
      const int64_t whole = (k + 1) * length / budget;
      weights += whole * ((k + 1) * length % budget == 0 ? k : k + 1);
    }
    const int64_t one = k * (k + 1);
    most = std::max(most, (weights + one - 1) / one);
  }
  return most;
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
