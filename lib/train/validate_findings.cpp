#include "train/validate_findings.h"

#include <algorithm>

#include "base/error.h"
#include "config/problems.h"

namespace verlcpp::train {

namespace {

/// Also where a name on the way is empty or holds dots.
const config::Node* find_joined(const config::Node& node, std::string_view key) {
  if (!node.is_map()) return nullptr;
  for (const auto& [name, child] : node.items()) {
    if (!key.starts_with(name)) continue;
    if (key.size() == name.size()) return &child;
    if (key[name.size()] != '.') continue;
    const config::Node* found = find_joined(child, key.substr(name.size() + 1));
    if (found != nullptr) return found;
  }
  return nullptr;
}

/// Of a map whose own origin is the shipped tree's, the first value's that a user has put into it.
const config::Origin& origin_of(const config::Node& node) {
  using Source = config::Origin::Source;
  if (node.origin().source != Source::kShipped) return node.origin();
  const config::Origin* by_user = nullptr;
  for (const config::Leaf& leaf : config::leaves(node)) {
    const config::Origin& origin = leaf.value->origin();
    if (origin.source != Source::kShipped && by_user == nullptr) by_user = &origin;
  }
  return by_user == nullptr ? node.origin() : *by_user;
}

template <class Finding>
std::vector<std::string> texts_of(const std::vector<Finding>& findings) {
  std::vector<std::string> texts;
  for (const Finding& finding : findings) texts.push_back(finding.text);
  return texts;
}

/// `key`, or one below it.
bool is_among(const std::vector<std::string>& keys, const std::string& key) {
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& other) {
    return other == key || other.starts_with(key + ".");
  });
}

}  // namespace

std::string Findings::about(const std::string& key) const {
  const config::Node* node = key.ends_with('.') ? nullptr : tree_.find(key);
  if (node == nullptr) node = find_joined(tree_, key);
  if (node == nullptr) return key + " (missing)";
  return key + " = " + config::to_inline(*node) + " (" + origin_of(*node).text + ")";
}

void Findings::add(const std::string& key, const std::string& text, Keys by) {
  problems_.push_back({about(key) + ": " + text, std::move(by)});
}

std::vector<std::string> Findings::problems() const { return texts_of(problems_); }

std::vector<std::string> Findings::limits() const { return texts_of(limits_); }

std::vector<std::string> Findings::apart_from(const Keys& keys) const {
  std::vector<std::string> texts;
  for (const std::vector<Finding>& all : {problems_, limits_}) {
    for (const Finding& finding : all) {
      const bool by_one = std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
        return config::names_key(finding.text, key) || is_among(finding.by, key);
      });
      if (!by_one && !contains(texts, finding.text)) texts.push_back(finding.text);
    }
  }
  return texts;
}

void Findings::finish() const {
  if (!problems_.empty()) throw config::SeveralProblems(apart_from({}));
}

std::string nearest_multiples(int64_t value, int64_t step) {
  const int64_t below = value / step * step;
  return (below > 0 ? std::to_string(below) + " or " : "") + std::to_string(below + step);
}

std::string nearest_divisors(int64_t value, int64_t whole,
                             const std::function<bool(int64_t)>& fits) {
  int64_t below = 0, above = 0;
  for (int64_t small = 1; small <= whole / small; ++small) {
    if (whole % small != 0) continue;
    for (const int64_t divisor : {small, whole / small}) {
      if (divisor == value || !fits(divisor)) continue;
      if (divisor < value) below = std::max(below, divisor);
      if (divisor > value && (above == 0 || divisor < above)) above = divisor;
    }
  }
  if (below == 0 && above == 0) return "";
  if (below == 0 || above == 0) return std::to_string(std::max(below, above));
  return std::to_string(below) + " or " + std::to_string(above);
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace verlcpp::train
