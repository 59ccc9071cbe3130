#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace verlcpp::data {

/// A part of a text, [begin, end) in bytes, that a pattern matched or that lies between matches.
struct Part {
  size_t begin = 0;
  size_t end = 0;
  bool is_match = false;
};

/// What tokenizer.json searches for: a text as it stands, or a regular expression in Oniguruma's
/// syntax, which PCRE2 runs with equal results (regex_syntax.h).
class Pattern {
 public:
  static Pattern literal(std::string text);
  /// DataError naming `where` for an expression that is wrong or cannot be run with equal results.
  static Pattern regex(const std::string& expression, const std::string& where);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  /// The whole of `text`, valid UTF-8, in order: matches and what lies between them. Matches are
  /// leftmost and do not overlap; an empty one directly after another match is passed over, as
  /// Oniguruma's find_iter does. DataError when the search exceeds PCRE2's limits.
  std::vector<Part> parts(std::string_view text) const;

 private:
  struct Compiled;
  Pattern();
  bool find(std::string_view text, size_t from, size_t& begin, size_t& end) const;

  std::string literal_;
  std::unique_ptr<Compiled> compiled_;  // null: literal_
};

}  // namespace verlcpp::data
