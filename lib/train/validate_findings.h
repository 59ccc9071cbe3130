#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/tree.h"

namespace verlcpp::train {

/// Collects everything that is wrong with a configuration, so that one run shows it all.
class Findings {
 public:
  explicit Findings(const config::Node& tree) : tree_(tree) {}

  /// "key = value (origin)"; "key (missing)" when the tree has none.
  std::string about(const std::string& key) const;

  /// A problem with the value at `key`.
  void add(const std::string& key, const std::string& text);
  void require(bool ok, const std::string& key, const std::string& text) {
    if (!ok) add(key, text);
  }
  /// A problem of several keys; the text names them.
  void add_text(const std::string& text) { problems_.push_back(text); }
  /// What only keeps this build from running a valid configuration.
  void limit(const std::string& text) { limits_.push_back(text); }
  void warn(const std::string& text) { warnings_.push_back(text); }

  const config::Node& tree() const { return tree_; }
  const std::vector<std::string>& problems() const { return problems_; }
  const std::vector<std::string>& limits() const { return limits_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Throws one ConfigError with every problem, then every limit, on a numbered line, if there was
  /// any problem.
  void finish() const;

 private:
  const config::Node& tree_;
  std::vector<std::string> problems_, limits_, warnings_;
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
