#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

namespace verlcpp::schedule {

/// Karmarkar and Karp's largest differencing, as verl's seqlen_balancing breaks its ties: partial
/// partitions into k sets, at first of one item each (or of k), are merged until one is left, the
/// two of the largest spread first.
class Differencing {
 public:
  using Sets = std::vector<std::vector<int>>;

  /// `tokens`: of each item, or none at all.
  explicit Differencing(std::span<const int64_t> values, std::span<const int64_t> tokens = {});

  /// The k sets, largest first, each a list of items in ascending order. Nothing when one of them
  /// has more than `most_tokens`: known as soon as a set has, since it never loses an item.
  /// `equal_size`: all sets of one size, which k has to allow.
  std::optional<Sets> partition(size_t k, bool equal_size,
                                int64_t most_tokens = std::numeric_limits<int64_t>::max());

 private:
  /// A set that holds something. The order of sets is verl's: sum, number of items, then the items
  /// in the order in which they were merged; of two sets the first items differ already.
  struct Set {
    int64_t sum = 0, tokens = 0;
    int count = 0;
    int first = 0, last = 0;  // its items, chained by next_

    bool operator<(const Set& other) const {
      return std::tie(sum, count, first) < std::tie(other.sum, other.count, other.first);
    }
    bool operator>(const Set& other) const { return other < *this; }
  };

  /// A partial partition into k sets; empty ones, the smallest, are left out: k may be near the
  /// number of items.
  class State {
   public:
    size_t size() const { return sets_.size(); }
    const Set& smallest() const { return heaped_ ? sets_.front() : sets_.back(); }
    /// Sets only grow, so it is the largest that ever came in.
    const Set& largest() const { return largest_; }
    const std::vector<Set>& sets() const { return sets_; }

    void add(const Set& set);
    /// Takes the smallest out.
    Set pop();
    /// Takes the `count` smallest out, smallest first.
    std::vector<Set> pop(size_t count);

   private:
    void into_heap();

    std::vector<Set> sets_;  // descending as long as they come like that; then a heap
    Set largest_;
    bool heaped_ = false;
  };

  struct Entry {
    int64_t spread;
    State state;

    /// Larger spread first, then larger largest set. The largest sets of two states are never
    /// equal: they hold different items. So the order is total and any heap pops in it.
    bool operator<(const Entry& other) const;
  };

  static constexpr int kNone = -1;

  int& next(int item) { return next_[static_cast<size_t>(item)]; }
  int64_t spread(const State& state) const;
  void push(Entry entry);
  Entry pop();
  void take_runs();
  bool before_single(const Entry& entry) const;
  bool leads(const Entry& entry) const;
  bool single_is_next() const;
  bool merge(State& state, State& other);
  bool merge_single(State& state);
  bool append(Set& set, const Set& more);
  Sets sets_of(const State& state);

  std::vector<Set> items_;  // descending, of one item each
  size_t single_ = 0;       // of them, the next that no state has
  size_t k_ = 1;
  int64_t most_tokens_ = 0;
  std::vector<int> next_;  // the item behind each in its set
  std::vector<Entry> heap_;
};

/// Partitions items into k sets; `equal_size` keeps all sets of one size (n divisible by k).
/// Indices in each set ascend, sets descend.
std::vector<std::vector<int>> karmarkar_karp(std::span<const int64_t> values, int k,
                                             bool equal_size);

}  // namespace verlcpp::schedule
