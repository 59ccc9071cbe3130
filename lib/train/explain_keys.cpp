#include <array>

#include "train/key_kinds.h"

namespace verlcpp::train {
namespace {

constexpr std::array kNames = {"honoured", "without effect", "refused when changed", "moved"};

const char* name_of(KeyKind kind) { return kNames[static_cast<size_t>(kind)]; }

}  // namespace

std::string explain_keys() {
  std::string text = "key\tdefault\tkind\treason\n";
  std::array<size_t, kNames.size()> counts = {};
  size_t total = 0;
  for (const config::Leaf& leaf : config::leaves(shipped_tree())) {
    const std::string key = leaf.key();
    for (const KeyAnswer& answer : answers_about(key)) {
      text += key + "\t" + config::to_inline(*leaf.value) + "\t" + name_of(answer.kind) + "\t" +
              answer.reason + "\n";
      ++counts[static_cast<size_t>(answer.kind)];
      ++total;
    }
  }
  text += "# " + std::to_string(total) + " keys: ";
  for (size_t kind = 0; kind < kNames.size(); ++kind) {
    text += (kind ? ", " : "") + std::to_string(counts[kind]) + " " + kNames[kind];
  }
  return text + "\n";
}

}  // namespace verlcpp::train
