#include "config/beaten.h"

namespace verlcpp::config {

namespace {

/// Whether all that `earlier` holds stands in the map `later` as well, and something of it with
/// another value.
bool covers(const Node& later, const Node& earlier) {
  if (!earlier.is_map()) return !later.is_map() && !same_values(later, earlier);
  bool differs = false;
  for (const Leaf& leaf : leaves(earlier)) {
    const Node* now = later.at(leaf.path);
    if (now == nullptr || now->is_map()) return false;
    differs = differs || !same_values(*now, *leaf.value);
  }
  return differs;
}

/// Whether nothing of what `earlier` says is left after `later`.
bool beats(const Override& later, const Override& earlier) {
  if (earlier.kind == Override::Kind::kDelete) return false;
  const bool same = earlier.name() == later.name();
  if (!same && !earlier.name().starts_with(later.name() + ".")) return false;
  if (later.kind == Override::Kind::kDelete) return true;
  if (!later.value->is_map()) return !same || !same_values(*later.value, *earlier.value);
  const std::string below = same ? "" : earlier.name().substr(later.name().size() + 1);
  const Node* now = later.value->find(below);
  return now != nullptr && covers(*now, *earlier.value);
}

}  // namespace

std::vector<std::string> beaten_overrides(const std::vector<Override>& overrides) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < overrides.size(); ++i) {
    const Override& earlier = overrides[i];
    for (size_t j = i + 1; j < overrides.size(); ++j) {
      const Override& later = overrides[j];
      if (!beats(later, earlier)) continue;
      lines.push_back(earlier.text + " (" + earlier.origin() + ") has no effect: " + later.text +
                      " (" + later.origin() + ") comes later");
      break;
    }
  }
  return lines;
}

}  // namespace verlcpp::config
