#include "schedule/differencing.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"

namespace verlcpp::schedule {

void Differencing::State::add(const Set& set) {
  const bool descends = !heaped_ && (sets_.empty() || set < sets_.back());
  if (!descends) into_heap();
  if (sets_.empty() || largest_ < set) largest_ = set;
  sets_.push_back(set);
  if (heaped_) std::push_heap(sets_.begin(), sets_.end(), std::greater<>());
}

Differencing::Set Differencing::State::pop() {
  if (heaped_) std::pop_heap(sets_.begin(), sets_.end(), std::greater<>());
  const Set set = sets_.back();
  sets_.pop_back();
  return set;
}

std::vector<Differencing::Set> Differencing::State::pop(size_t count) {
  if (heaped_ && count > sets_.size() / 4) {
    std::sort(sets_.begin(), sets_.end(), std::greater<>());
    heaped_ = false;
  }
  std::vector<Set> out;
  for (size_t i = 0; i < count; ++i) out.push_back(pop());
  return out;
}

void Differencing::State::into_heap() {
  if (!heaped_) std::reverse(sets_.begin(), sets_.end());
  heaped_ = true;
}

bool Differencing::Entry::operator<(const Entry& other) const {
  if (spread != other.spread) return spread < other.spread;
  return state.largest() < other.state.largest();
}

Differencing::Differencing(std::span<const int64_t> values, std::span<const int64_t> tokens) {
  for (size_t item = 0; item < values.size(); ++item) {
    const auto index = static_cast<int>(item);
    items_.push_back({values[item], tokens.empty() ? 0 : tokens[item], 1, index, index});
  }
  std::sort(items_.begin(), items_.end(), std::greater<>());
}

std::optional<Differencing::Sets> Differencing::partition(size_t k, bool equal_size,
                                                          int64_t most_tokens) {
  k_ = k;
  most_tokens_ = most_tokens;
  next_.assign(items_.size(), kNone);
  heap_.clear();
  single_ = 0;
  if (equal_size) take_runs();
  Entry first = pop();
  while (!heap_.empty() || single_ < items_.size()) {
    if (single_is_next()) {
      if (!merge_single(first.state)) return std::nullopt;
    } else if (State other = pop().state; !merge(first.state, other)) {
      return std::nullopt;
    }
    first.spread = spread(first.state);
    if (leads(first)) continue;
    push(std::move(first));
    first = pop();
  }
  return sets_of(first.state);
}

int64_t Differencing::spread(const State& state) const {
  return state.largest().sum - (state.size() < k_ ? 0 : state.smallest().sum);
}

void Differencing::push(Entry entry) {
  heap_.push_back(std::move(entry));
  std::push_heap(heap_.begin(), heap_.end());
}

Differencing::Entry Differencing::pop() {
  if (single_is_next()) {
    State state;
    state.add(items_[single_++]);
    const int64_t of_state = spread(state);
    return {of_state, std::move(state)};
  }
  std::pop_heap(heap_.begin(), heap_.end());
  Entry entry = std::move(heap_.back());
  heap_.pop_back();
  return entry;
}

/// States of k items at once.
void Differencing::take_runs() {
  while (single_ < items_.size()) {
    State state;
    for (size_t i = 0; i < k_; ++i) state.add(items_[single_++]);
    const int64_t of_state = spread(state);
    push({of_state, std::move(state)});
  }
}

/// Whether `entry` comes before the next item that no state has.
bool Differencing::before_single(const Entry& entry) const {
  if (single_ == items_.size()) return true;
  const Set& single = items_[single_];
  const int64_t spread = k_ == 1 ? 0 : single.sum;
  return entry.spread != spread ? entry.spread > spread : single < entry.state.largest();
}

bool Differencing::leads(const Entry& entry) const {
  return (heap_.empty() || heap_.front() < entry) && before_single(entry);
}

/// Whether the next state is an item of its own: those are not in the heap.
bool Differencing::single_is_next() const { return heap_.empty() || !before_single(heap_.front()); }

/// The largest set with the other's smallest, and so on: those that meet an empty one stay, and
/// the smallest of both meet. False when one gets too many tokens.
bool Differencing::merge(State& state, State& other) {
  const size_t both = state.size() + other.size();
  const size_t met = both > k_ ? both - k_ : 0;
  // With no empty set these two meet for certain, which is quickly seen.
  if (met == k_ && state.smallest().tokens + other.largest().tokens > most_tokens_) return false;
  std::vector<Set> mine = state.pop(met);
  const std::vector<Set> theirs = other.pop(met);
  for (size_t i = 0; i < met; ++i) {
    if (!append(mine[i], theirs[met - 1 - i])) return false;
  }
  if (state.size() < other.size()) std::swap(state, other);
  for (const Set& set : other.sets()) state.add(set);
  for (const Set& set : mine) state.add(set);
  return true;
}

/// The same with the next item.
bool Differencing::merge_single(State& state) {
  Set single = items_[single_++];
  if (state.size() == k_) {
    Set smallest = state.pop();
    if (!append(smallest, single)) return false;
    single = smallest;
  }
  state.add(single);
  return true;
}

bool Differencing::append(Set& set, const Set& more) {
  set.sum += more.sum;
  set.tokens += more.tokens;
  set.count += more.count;
  next(set.last) = more.first;
  set.last = more.last;
  return set.tokens <= most_tokens_;
}

Differencing::Sets Differencing::sets_of(const State& state) {
  std::vector<Set> sets = state.sets();
  std::sort(sets.begin(), sets.end(), std::greater<>());
  Sets out(k_);
  for (size_t i = 0; i < sets.size(); ++i) {
    for (int item = sets[i].first; item != kNone; item = next(item)) out[i].push_back(item);
    std::sort(out[i].begin(), out[i].end());
  }
  return out;
}

std::vector<std::vector<int>> karmarkar_karp(std::span<const int64_t> values, int k,
                                             bool equal_size) {
  expects(k >= 1, "karmarkar_karp: at least one set");
  const auto sets = static_cast<size_t>(k);
  expects(!equal_size || values.size() % sets == 0, "karmarkar_karp: equal sizes must divide");
  return values.empty() ? Differencing::Sets(sets)
                        : *Differencing(values).partition(sets, equal_size);
}

}  // namespace verlcpp::schedule
