#include "reward/boxed.h"

namespace verlcpp::reward {

std::optional<Text> closed_braces(TextView text, size_t start) {
  int64_t open = 0;
  for (size_t at = start; at < text.size(); ++at) {
    if (text[at] == U'{') ++open;
    if (text[at] == U'}' && --open == 0) return Text(text.substr(start, at + 1 - start));
  }
  return {};
}

std::optional<Text> boxed_content(TextView boxed) {
  constexpr TextView kLeft = U"\\boxed{";
  if (!boxed.starts_with(kLeft) || !boxed.ends_with(U'}')) return {};
  return Text(boxed.substr(kLeft.size(), boxed.size() - kLeft.size() - 1));
}

}  // namespace verlcpp::reward
