#include "cuda/arena.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace verlcpp::cuda {

size_t Arena::rounded(size_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

size_t Arena::add_segment(size_t size) {
  expects(size > 0 && size % kAlignment == 0, "a segment is a multiple of the alignment");
  add_hole(make_node({.segment = segments_, .offset = 0, .size = size}));
  reserved_ += size;
  return segments_++;
}

std::optional<Arena::Block> Arena::allocate(size_t bytes) {
  const size_t size = rounded(bytes);
  const auto found =
      std::lower_bound(holes_.begin(), holes_.end(), size,
                       [this](uint32_t hole, size_t wanted) { return nodes_[hole].size < wanted; });
  if (found == holes_.end()) return {};
  uint32_t id = *found;
  remove_hole(id);
  const size_t rest = nodes_[id].size - size;
  if (rest > 0) {
    // The node keeps the low part, a new one behind it takes the high one.
    const size_t low = size < kSmall ? rest : size;
    const uint32_t high = make_node({.segment = nodes_[id].segment,
                                     .offset = nodes_[id].offset + low,
                                     .size = nodes_[id].size - low,
                                     .before = id,
                                     .after = nodes_[id].after});
    if (nodes_[high].after != kNone) nodes_[nodes_[high].after].before = high;
    nodes_[id].after = high;
    nodes_[id].size = low;
    add_hole(size < kSmall ? id : high);
    if (size < kSmall) id = high;
  }
  return Block{id, nodes_[id].segment, nodes_[id].offset};
}

void Arena::free(uint32_t id) noexcept {
  const uint32_t before = nodes_[id].before, after = nodes_[id].after;
  if (after != kNone && nodes_[after].hole) {
    remove_hole(after);
    nodes_[id].size += nodes_[after].size;
    unlink(after);
  }
  if (before != kNone && nodes_[before].hole) {
    remove_hole(before);
    nodes_[before].size += nodes_[id].size;
    unlink(id);
    id = before;
  }
  add_hole(id);
}

std::vector<size_t> Arena::remove_empty_segments() {
  std::vector<size_t> removed;
  for (const uint32_t id : std::vector<uint32_t>(holes_)) {
    if (nodes_[id].before != kNone || nodes_[id].after != kNone) continue;
    removed.push_back(nodes_[id].segment);
    reserved_ -= nodes_[id].size;
    remove_hole(id);
    unused_.push_back(id);
  }
  return removed;
}

size_t Arena::largest_hole() const { return holes_.empty() ? 0 : nodes_[holes_.back()].size; }

uint32_t Arena::make_node(const Node& node) {
  if (!unused_.empty()) {
    const uint32_t id = unused_.back();
    unused_.pop_back();
    nodes_[id] = node;
    return id;
  }
  nodes_.push_back(node);
  // A block is freed without allocating: neither list outgrows the nodes.
  unused_.reserve(nodes_.capacity());
  holes_.reserve(nodes_.capacity());
  return static_cast<uint32_t>(nodes_.size() - 1);
}

/// Takes a node out of its segment's list.
void Arena::unlink(uint32_t id) noexcept {
  const Node& node = nodes_[id];
  if (node.before != kNone) nodes_[node.before].after = node.after;
  if (node.after != kNone) nodes_[node.after].before = node.before;
  unused_.push_back(id);
}

bool Arena::smaller(uint32_t a, uint32_t b) const noexcept {
  const Node &x = nodes_[a], &y = nodes_[b];
  return std::tie(x.size, x.segment, x.offset) < std::tie(y.size, y.segment, y.offset);
}

void Arena::add_hole(uint32_t id) noexcept {
  nodes_[id].hole = true;
  const auto at = std::lower_bound(holes_.begin(), holes_.end(), id,
                                   [this](uint32_t a, uint32_t b) { return smaller(a, b); });
  holes_.insert(at, id);
}

void Arena::remove_hole(uint32_t id) noexcept {
  nodes_[id].hole = false;
  const auto at = std::lower_bound(holes_.begin(), holes_.end(), id,
                                   [this](uint32_t a, uint32_t b) { return smaller(a, b); });
  holes_.erase(at);
}

}  // namespace verlcpp::cuda
