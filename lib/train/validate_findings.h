#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/tree.h"

namespace verlcpp::train {

/// Collects everything that is wrong with a configuration, so that one run shows it all.
class Findings {
 public:
  using Keys = std::vector<std::string>;
  explicit Findings(const config::Node& tree) : tree_(tree) {}

  /// "key = value (origin)"; "key (missing)" when the tree has none.
  std::string about(const std::string& key) const;

  /// A problem with the value at `key`. `by`, here and below: keys that the text does not name, but
  /// by whose values it is a problem.
  void add(const std::string& key, const std::string& text, Keys by = {});
  void require(bool ok, const std::string& key, const std::string& text, Keys by = {}) {
    if (!ok) add(key, text, std::move(by));
  }
  /// A problem of several keys; the text names them.
  void add_text(const std::string& text, Keys by = {}) {
    problems_.push_back({text, std::move(by)});
  }
  /// What only keeps this build from running a valid configuration.
  void limit(const std::string& text, Keys by = {}) { limits_.push_back({text, std::move(by)}); }
  void warn(const std::string& text) { warnings_.push_back(text); }

  const config::Node& tree() const { return tree_; }
  size_t count() const { return problems_.size(); }
  std::vector<std::string> problems() const;
  std::vector<std::string> limits() const;
  /// Problems and limits but those that may be there by the value of one of `keys`, or of a key
  /// below one, alone.
  std::vector<std::string> apart_from(const Keys& keys) const;
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Throws config::SeveralProblems with every problem, then every limit, each once, if there was
  /// any problem.
  void finish() const;

 private:
  struct Finding {
    std::string text;
    Keys by;
  };
  const config::Node& tree_;
  std::vector<Finding> problems_, limits_;
  std::vector<std::string> warnings_;
};

/// The largest below `value` and the smallest above it, as far as there are any: "4 or 8".
/// Multiples of `step`, >= 1; divisors of `whole`, >= 1, that `fits` accepts, "" when it accepts
/// none.
std::string nearest_multiples(int64_t value, int64_t step);
std::string nearest_divisors(
    int64_t value, int64_t whole,
    const std::function<bool(int64_t)>& fits = [](int64_t) { return true; });

/// "a, b, c".
std::string join(const std::vector<std::string>& names);
bool contains(const std::vector<std::string>& names, const std::string& name);

}  // namespace verlcpp::train
