#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace verlcpp::cuda {

/// Where blocks lie in segments of memory: the book alone, no device is called. The smallest hole
/// that fits is split; a freed block joins the holes beside it. Large blocks take the low end of a
/// hole and small ones the high end, so that small ones which live long do not cut up what large
/// ones need. Once as many blocks have been alive, nothing here allocates. Not thread-safe.
class Arena {
 public:
  static constexpr size_t kAlignment = 512;
  static constexpr size_t kSmall = size_t{1} << 20;

  /// A block's number until it is freed, and where it is.
  struct Block {
    uint32_t id = 0;
    size_t segment = 0, offset = 0;
  };

  /// Takes a segment of `size` bytes (a multiple of kAlignment, not zero); returns its number.
  size_t add_segment(size_t size);
  /// Offsets are multiples of kAlignment; of zero bytes a block is taken too. Nothing: no hole is
  /// large enough.
  std::optional<Block> allocate(size_t bytes);
  void free(uint32_t id) noexcept;
  /// Forgets the segments that hold no block and returns their numbers, which are not used again.
  std::vector<size_t> remove_empty_segments();

  /// Bytes of all segments.
  size_t reserved() const { return reserved_; }
  size_t largest_hole() const;
  /// `bytes` as they are taken.
  static size_t rounded(size_t bytes);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  /// A block or a hole, linked to its neighbours in the segment.
  struct Node {
    size_t segment = 0, offset = 0, size = 0;
    uint32_t before = kNone, after = kNone;
    bool hole = false;
  };

  uint32_t make_node(const Node& node);
  void unlink(uint32_t id) noexcept;
  void add_hole(uint32_t id) noexcept;
  void remove_hole(uint32_t id) noexcept;
  bool smaller(uint32_t a, uint32_t b) const noexcept;

  std::vector<Node> nodes_;
  std::vector<uint32_t> unused_;  // nodes to take again
  std::vector<uint32_t> holes_;   // by size, then place: few, so a sorted vector
  size_t segments_ = 0, reserved_ = 0;
};

}  // namespace verlcpp::cuda
