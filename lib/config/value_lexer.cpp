#include "config/value_lexer.h"

#include <algorithm>
#include <string>

#include "config/value_parser.h"

namespace verlcpp::config {

namespace {

constexpr std::string_view kEscapable = "\\()[]{}:=, \t";
constexpr std::string_view kCharacters = "/-\\+.$%*@?|";
constexpr size_t kMaxDepth = 64;  // interpolations inside each other

bool is_space(char c) { return c == ' ' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

char at_or_zero(std::string_view text, size_t at) { return at < text.size() ? text[at] : '\0'; }

size_t skip_space(std::string_view text, size_t at) {
  while (is_space(at_or_zero(text, at))) ++at;
  return at;
}

/// One past the digits at `at`, which single underscores may part.
size_t skip_digits(std::string_view text, size_t at) {
  if (!is_digit(at_or_zero(text, at))) return at;
  ++at;
  while (true) {
    const size_t next = at_or_zero(text, at) == '_' ? at + 1 : at;
    if (!is_digit(at_or_zero(text, next))) return at;
    at = next + 1;
  }
}

/// True when the letters at `at` are `word` in any case.
bool has_word(std::string_view text, size_t at, std::string_view word) {
  if (text.size() - std::min(at, text.size()) < word.size()) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    if ((text[at + i] | 0x20) != word[i]) return false;
  }
  return true;
}

size_t word_length(std::string_view text, size_t at) {
  if (!is_letter(at_or_zero(text, at))) return 0;
  size_t end = at + 1;
  while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]) || text[end] == '-')) {
    ++end;
  }
  return end - at;
}

bool is_escape(std::string_view text, size_t at) {
  return at_or_zero(text, at) == '\\' && at + 1 < text.size() &&
         kEscapable.find(text[at + 1]) != std::string_view::npos;
}

/// The tokens that are punctuation, white space before them included; kEnd for others.
Token punctuation(std::string_view text, size_t at) {
  const size_t spot = skip_space(text, at);
  const size_t after = spot + 1, far = skip_space(text, after);
  switch (at_or_zero(text, spot)) {
    case '(':
      return {TokenType::kParenOpen, at, far};
    case ',':
      return {TokenType::kComma, at, far};
    case ':':
      return {TokenType::kColon, at, far};
    case '=':
      return {TokenType::kEqual, at, far};
    case ')':
      return {TokenType::kParenClose, at, after};
    case ']':
      return {TokenType::kBracketClose, at, after};
    case '}':
      return {TokenType::kBraceClose, at, after};
    case '[':
      if (spot == at) return {TokenType::kBracketOpen, at, far};
      break;
    case '{':
      if (spot == at) return {TokenType::kBraceOpen, at, far};
      break;
    default:
      break;
  }
  if (spot > at) return {TokenType::kSpace, at, spot};
  return {};
}

/// A number, keyword or word: the longest of them, and of two as long as each other the first.
Token word(std::string_view text, size_t at) {
  bool is_integer = false;
  const size_t number = number_length(text, at, is_integer);
  const size_t letters = word_length(text, at);
  if (number == 0 && letters == 0) return {};
  if (number >= letters) {
    return {is_integer ? TokenType::kInt : TokenType::kFloat, at, at + number};
  }
  TokenType type = TokenType::kWord;
  if (letters == 4 && has_word(text, at, "null")) type = TokenType::kNull;
  if (letters == 4 && has_word(text, at, "true")) type = TokenType::kBool;
  if (letters == 5 && has_word(text, at, "false")) type = TokenType::kBool;
  return {type, at, at + letters};
}

/// One past the } of the first interpolation at `at` for an override, where none nests; `at` when
/// there is none.
size_t end_of_flat_interpolation(std::string_view text, size_t at) {
  const size_t close = text.find('}', at);
  if (close == std::string_view::npos) throw GrammarError{"there is no } that closes this ${", at};
  return close == at + 2 ? at : close + 1;
}

size_t end_of_interpolation(std::string_view text, size_t start, size_t depth);

size_t end_of_nested_quoted(std::string_view text, size_t start, size_t depth) {
  size_t backslashes = 0;
  for (size_t i = start + 1; i < text.size(); ++i) {
    const bool active = backslashes % 2 == 0;
    backslashes = text[i] == '\\' ? backslashes + 1 : 0;
    if (!active) continue;
    if (text[i] == text[start]) return i + 1;
    if (text.substr(i, 2) == "${") i = end_of_interpolation(text, i, depth + 1) - 1;
  }
  return std::string_view::npos;
}

size_t end_of_interpolation(std::string_view text, size_t start, size_t depth) {
  if (depth > kMaxDepth) throw GrammarError{"the interpolations are nested too deeply", start};
  size_t braces = 1;
  bool arguments = false;  // behind the colon there are quotes, braces and escapes
  for (size_t i = start + 2; i < text.size(); ++i) {
    if (text.substr(i, 2) == "${") {
      i = end_of_interpolation(text, i, depth + 1) - 1;
    } else if (text[i] == '}') {
      if (--braces == 0) return i + 1;
    } else if (!arguments) {
      arguments = text[i] == ':';
    } else if (is_escape(text, i)) {
      ++i;
    } else if (text[i] == '{') {
      ++braces;
    } else if (text[i] == '\'' || text[i] == '"') {
      const size_t end = end_of_nested_quoted(text, i, depth);
      if (end == std::string_view::npos) throw GrammarError{"this quote is never closed", i};
      i = end - 1;
    }
  }
  throw GrammarError{"there is no } that closes this ${", start};
}

}  // namespace

size_t number_length(std::string_view text, size_t at, bool& is_integer) {
  const size_t start = at;
  is_integer = false;
  if (at_or_zero(text, at) == '-' || at_or_zero(text, at) == '+') ++at;
  if (has_word(text, at, "inf") || has_word(text, at, "nan")) return at + 3 - start;
  const size_t whole = at;
  at = at_or_zero(text, at) == '0' ? at + 1 : skip_digits(text, at);
  const bool has_whole = at > whole;
  is_integer = has_whole;
  if (at_or_zero(text, at) == '.' && (has_whole || is_digit(at_or_zero(text, at + 1)))) {
    at = skip_digits(text, at + 1);
    is_integer = false;
  } else if (!has_whole) {
    return 0;
  }
  if ((at_or_zero(text, at) | 0x20) != 'e') return at - start;
  const bool sign = at_or_zero(text, at + 1) == '-' || at_or_zero(text, at + 1) == '+';
  const size_t exponent = at + (sign ? 2 : 1);
  if (!is_digit(at_or_zero(text, exponent))) return at - start;
  is_integer = false;
  return skip_digits(text, exponent) - start;
}

size_t end_of_quoted(std::string_view text, size_t start, Dialect dialect) {
  if (dialect == Dialect::kResolver) return end_of_nested_quoted(text, start, 0);
  size_t backslashes = 0;
  for (size_t i = start + 1; i < text.size(); ++i) {
    if (text[i] == text[start] && backslashes % 2 == 0) return i + 1;
    backslashes = text[i] == '\\' ? backslashes + 1 : 0;
  }
  return std::string_view::npos;
}

size_t end_of_interpolation(std::string_view text, size_t start) {
  return end_of_interpolation(text, start, 0);
}

Token token_at(std::string_view text, size_t at, Dialect dialect) {
  if (at >= text.size()) return {TokenType::kEnd, text.size(), text.size()};
  if (const Token token = punctuation(text, at); token.type != TokenType::kEnd) return token;
  if (const Token token = word(text, at); token.type != TokenType::kEnd) return token;
  const char c = text[at];
  if (c == '\'' || c == '"') {
    const size_t end = end_of_quoted(text, at, dialect);
    if (end == std::string_view::npos) throw GrammarError{"this quote is never closed", at};
    return {TokenType::kQuoted, at, end};
  }
  if (text.substr(at, 2) == "${") {
    const size_t end = dialect == Dialect::kOverride ? end_of_flat_interpolation(text, at)
                                                     : end_of_interpolation(text, at, 0);
    if (end > at) return {TokenType::kInterpolation, at, end};
  }
  size_t end = at;
  while (is_escape(text, end)) end += 2;
  if (end > at) return {TokenType::kEscape, at, end};
  if (dialect == Dialect::kResolver && kCharacters.find(c) == std::string_view::npos) {
    throw GrammarError{std::string("unexpected ") + c + "; quote a text that holds one", at};
  }
  return {TokenType::kCharacter, at, at + 1};
}

}  // namespace verlcpp::config
