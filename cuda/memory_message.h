#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensor/memory.h"

// What a user reads when a card is full. Pure, so that no full card is needed to test it.

namespace verlcpp::cuda {

struct OutOfMemory {
  int device = 0;
  MemoryTag tag = MemoryTag::kWorkspace;  // of the allocation that was refused
  int64_t asked = 0;
  int64_t free = 0, total = 0;  // of the card
  MemoryBytes held;             // by this rank
  std::optional<MemoryBytes> planned;
  int64_t ranks_per_gpu = 1;
};

/// Device, item, bytes, the card, what this rank holds beside what was planned, and the keys that
/// make the item smaller.
std::string out_of_memory_message(const OutOfMemory& refused);

/// Libraries' messages may have several lines: runs of white space become one space.
std::string in_one_line(const std::string& text);

/// A card that CUDA or a library found full, outside any rank's own memory. `reason`: its words.
std::string full_card_message(int device, int64_t free, int64_t total, const std::string& reason);

/// A card without room for its ranks before anything is loaded: what is `planned` for each, and
/// kForLibraries.
std::string no_room_message(int device, int64_t free, int64_t total, const MemoryBytes& planned,
                            int64_t ranks_per_gpu);

}  // namespace verlcpp::cuda
