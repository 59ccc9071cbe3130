#include "config/override.h"

#include "base/error.h"
#include "config/value_parser.h"

namespace verlcpp::config {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
char at_or_zero(const std::string& text, size_t at) { return at < text.size() ? text[at] : '\0'; }

/// One past the name at `at`: a word, in a dotted key also one with $ or a number without leading
/// zeros; `at` when there is none.
size_t end_of_name(const std::string& text, size_t at, bool dotted) {
  const size_t start = at;
  const auto begins = [&](char c) { return is_letter(c) || (dotted && c == '$'); };
  if (begins(at_or_zero(text, at))) {
    while (begins(at_or_zero(text, at)) || is_digit(at_or_zero(text, at)) ||
           at_or_zero(text, at) == '-') {
      ++at;
    }
  } else if (dotted && at_or_zero(text, at) == '0') {
    ++at;
  } else if (dotted) {
    while (is_digit(at_or_zero(text, at)) ||
           (at > start && at_or_zero(text, at) == '_' && is_digit(at_or_zero(text, at + 1)))) {
      ++at;
    }
  }
  return at;
}

/// Reads names joined by `.` (a key or a package) or by `/` (a group), and moves `at` behind them.
std::string read_names(const std::string& text, size_t& at, bool may_be_group) {
  constexpr size_t kMaxNames = 64;
  const size_t start = at;
  const auto next = [&](bool dotted) {
    const size_t end = end_of_name(text, at, dotted);
    if (end == at) return false;
    at = end;
    return true;
  };
  const char first = at_or_zero(text, at);
  if (first == '.' || first == '/') {
    throw GrammarError{std::string("a name is missing beside this ") + first, at};
  }
  if (!next(true)) throw GrammarError{"a key is missing", at};
  const char separator = at_or_zero(text, at);
  const bool dotted = separator == '.';
  if (!dotted && is_digit(first)) throw GrammarError{"a key is missing", start};
  for (size_t names = 1; at_or_zero(text, at) == separator; ++names) {
    if (!dotted && !(separator == '/' && may_be_group)) break;
    if (names >= kMaxNames) throw GrammarError{"this key is too deep", at};
    const size_t here = at++;
    if (!next(dotted)) {
      throw GrammarError{std::string("a name is missing beside this ") + separator, here};
    }
  }
  const std::string names = text.substr(start, at - start);
  const size_t dollar = names.find('$');
  if (separator == '/' && may_be_group && dollar != std::string::npos) {
    throw GrammarError{"unexpected '$' in a group", start + dollar};
  }
  return names;
}

Override::Kind read_kind(const std::string& text, size_t& at) {
  if (text.starts_with("~")) {
    at = 1;
    return Override::Kind::kDelete;
  }
  if (text.starts_with("++")) {
    at = 2;
    return Override::Kind::kForce;
  }
  if (text.starts_with("+")) {
    at = 1;
    return Override::Kind::kAdd;
  }
  return Override::Kind::kSet;
}

Override parse(const std::string& text, int number) {
  Override result;
  result.text = text;
  result.number = number;
  size_t at = 0;
  if (text.empty()) {
    throw GrammarError{
        "the argument is empty (a stray pair of quotes, or an unset variable of "
        "the shell in quotes)",
        0};
  }
  if (text.find_first_not_of(' ') == std::string::npos) {
    throw GrammarError{"a key is missing, here is only a space (behind the \\ of a line?)", 0};
  }
  result.kind = read_kind(text, at);
  result.key = read_names(text, at, true);
  if (at < text.size() && text[at] == '@') {
    ++at;
    const bool is_root = at == text.size() || text[at] == '=';
    result.package = is_root ? "" : read_names(text, at, false);
  }
  if (at == text.size() && result.kind == Override::Kind::kDelete) return result;
  if (at == text.size()) {
    throw GrammarError{"expected = and a value, with no space between: " + text + "=VALUE", at};
  }
  if (text[at] == ' ' && text.find_first_not_of(' ', at) == text.find('=', at)) {
    throw GrammarError{"a space in front of =; valid: " + text.substr(0, at) + "=VALUE", at};
  }
  if (text[at] != '=') {
    throw GrammarError{std::string("unexpected '") + text[at] + "' in a key; expected =", at};
  }
  result.value = parse_value(text, at + 1, Origin{result.origin(), Origin::Source::kOverride});
  return result;
}

}  // namespace

namespace {

/// What has no key may be what stood behind a space in the override before it.
std::string about_split(const GrammarError& error, int number) {
  const bool begins =
      error.message.starts_with("expected = and a value") || error.message == "a key is missing";
  if (!begins || number == 1) return "";
  return "; or, if the shell has split it off override " + std::to_string(number - 1) +
         ", put that one in quotes";
}

}  // namespace

Override parse_override(const std::string& text, int number) {
  try {
    return parse(text, number);
  } catch (const GrammarError& error) {
    throw ConfigError("override " + std::to_string(number) + ", column " +
                      std::to_string(error.position + 1) + ": " + error.message +
                      about_split(error, number) + (text.empty() ? "" : "\n  " + text));
  }
}

}  // namespace verlcpp::config
