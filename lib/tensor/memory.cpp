#include "tensor/memory.h"

#include <algorithm>
#include <cstdio>

namespace verlcpp {

std::string_view name_of(MemoryTag tag) {
  constexpr std::array<std::string_view, kMemoryTags.size()> kNames = {
      "weights", "main_grad", "optimizer", "saved", "workspace", "kv", "logits", "comm"};
  return kNames[static_cast<size_t>(tag)];
}

void MemoryBytes::add(MemoryTag tag, int64_t bytes) {
  by_tag[static_cast<size_t>(tag)] += bytes;
  total += bytes;
}

void MemoryBytes::add(const MemoryBytes& other) {
  for (const MemoryTag tag : kMemoryTags) add(tag, other[tag]);
}

void MemoryBytes::raise_to(const MemoryBytes& other) {
  for (size_t i = 0; i < by_tag.size(); ++i) by_tag[i] = std::max(by_tag[i], other.by_tag[i]);
  total = std::max(total, other.total);
}

std::string human_bytes(int64_t bytes) {
  constexpr std::array units = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f %s", value, units[unit]);
  return text.data();
}

void MemoryAccount::allocated(MemoryTag tag, int64_t bytes) {
  held_.add(tag, bytes);
  peak_.raise_to(held_);
}

}  // namespace verlcpp
