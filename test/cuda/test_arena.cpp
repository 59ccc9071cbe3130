// The book of the device memory, which needs no device.

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "cuda/arena.h"
#include "support/catch.h"

using verlcpp::philox4x32;
using verlcpp::PhiloxKey;
using verlcpp::cuda::Arena;

namespace {
constexpr size_t kMiB = size_t{1} << 20;
}  // namespace

TEST_CASE("blocks are aligned, of at least 512 bytes, and zero bytes are one too") {
  Arena arena;
  arena.add_segment(4096);
  std::vector<size_t> offsets;
  for (const size_t bytes : {0, 1, 512, 513}) {
    const auto block = arena.allocate(bytes);
    REQUIRE(block);
    CHECK(block->offset % 512 == 0);
    offsets.push_back(block->offset);
  }
  // Small ones come from the high end.
  CHECK(offsets == std::vector<size_t>{3584, 3072, 2560, 1536});
  CHECK(arena.largest_hole() == 1536);
}

TEST_CASE("large blocks take the low end of a hole") {
  Arena arena;
  arena.add_segment(8 * kMiB);
  CHECK(arena.allocate(2 * kMiB)->offset == 0);
  CHECK(arena.allocate(512)->offset == 8 * kMiB - 512);
  CHECK(arena.allocate(3 * kMiB)->offset == 2 * kMiB);
}

TEST_CASE("freed neighbours join, in any order") {
  for (const std::vector<size_t>& order :
       {std::vector<size_t>{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}}) {
    Arena arena;
    arena.add_segment(6 * kMiB);
    std::vector<uint32_t> ids;
    for (int i = 0; i < 3; ++i) ids.push_back(arena.allocate(2 * kMiB)->id);
    CHECK_FALSE(arena.allocate(1));
    for (const size_t i : order) arena.free(ids[i]);
    CHECK(arena.largest_hole() == 6 * kMiB);
  }
}

TEST_CASE("the smallest hole that fits is taken, in whatever segment") {
  Arena arena;
  arena.add_segment(8 * kMiB);
  arena.add_segment(3 * kMiB);
  arena.add_segment(4 * kMiB);
  CHECK(arena.allocate(3 * kMiB)->segment == 1);
  CHECK(arena.allocate(3 * kMiB)->segment == 2);
  CHECK(arena.allocate(3 * kMiB)->segment == 0);
  CHECK(arena.allocate(kMiB)->segment == 2);
  CHECK_FALSE(arena.allocate(6 * kMiB));
  CHECK(arena.reserved() == 15 * kMiB);
}

TEST_CASE("segments without a block are given back, others stay") {
  Arena arena;
  arena.add_segment(kMiB);
  arena.add_segment(2 * kMiB);
  const auto kept = arena.allocate(1);
  REQUIRE(kept->segment == 0);
  CHECK(arena.remove_empty_segments() == std::vector<size_t>{1});
  CHECK(arena.reserved() == kMiB);
  CHECK_FALSE(arena.allocate(2 * kMiB));
  CHECK(arena.add_segment(2 * kMiB) == 2);
  CHECK(arena.allocate(2 * kMiB)->segment == 2);
}

TEST_CASE("a long random run: no two blocks overlap and all comes back") {
  struct Live {
    Arena::Block block;
    size_t size;
  };
  Arena arena;
  const std::vector<size_t> segments{64 * kMiB, 16 * kMiB};
  for (const size_t size : segments) arena.add_segment(size);
  std::vector<Live> live;
  const PhiloxKey key{3, 4};
  int64_t overlaps = 0, refused = 0, outside = 0;
  for (uint32_t i = 0; i < 20000; ++i) {
    const auto draw = philox4x32({i}, key);
    if (live.size() > draw[0] % 40) {
      const size_t victim = draw[1] % live.size();
      arena.free(live[victim].block.id);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
      continue;
    }
    const size_t bytes = draw[2] % (draw[3] % 4 == 0 ? 8 * kMiB : 100000);
    const auto block = arena.allocate(bytes);
    if (!block) {
      ++refused;
      continue;
    }
    const size_t begin = block->offset, end = begin + Arena::rounded(bytes);
    if (end > segments[block->segment]) ++outside;
    for (const Live& other : live) {
      if (other.block.segment != block->segment) continue;
      if (begin < other.block.offset + other.size && other.block.offset < end) ++overlaps;
    }
    live.push_back({*block, end - begin});
  }
  CHECK(overlaps == 0);
  CHECK(outside == 0);
  CHECK(refused < 200);
  for (const Live& one : live) arena.free(one.block.id);
  CHECK(arena.largest_hole() == 64 * kMiB);
  CHECK(arena.remove_empty_segments().size() == 2);
}
