#include "config/override.h"

#include <cctype>

#include "base/error.h"
#include "config/value_parser.h"

namespace verlcpp::config {

namespace {

bool is_key_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '$';
}

/// Reads names joined by `.` or `/` from `at`, and moves `at` behind them.
std::string read_names(const std::string& text, size_t& at) {
  constexpr size_t kMaxNames = 64;
  const size_t start = at;
  size_t separators = 0;
  while (at < text.size()) {
    const bool separator = text[at] == '.' || text[at] == '/';
    if (!separator && !is_key_character(text[at])) break;
    if (separator && ++separators >= kMaxNames) throw GrammarError{"this key is too deep", at};
    const bool name_ahead = at + 1 < text.size() && is_key_character(text[at + 1]);
    if (separator && (at == start || !name_ahead)) {
      throw GrammarError{std::string("a name is missing beside this ") + text[at], at};
    }
    ++at;
  }
  if (at == start) throw GrammarError{"a key is missing", at};
  return text.substr(start, at - start);
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
  result.kind = read_kind(text, at);
  result.key = read_names(text, at);
  if (at < text.size() && text[at] == '@') {
    ++at;
    const bool root = at == text.size() || text[at] == '=';
    result.package = root ? "_global_" : read_names(text, at);
  }
  if (at == text.size() && result.kind == Override::Kind::kDelete) return result;
  if (at == text.size()) throw GrammarError{"expected = and a value", at};
  if (text[at] != '=') {
    throw GrammarError{std::string("unexpected '") + text[at] + "' in a key; expected =", at};
  }
  result.value = parse_value(text, at + 1, Origin{result.origin()});
  return result;
}

}  // namespace

Override parse_override(const std::string& text, int number) {
  try {
    return parse(text, number);
  } catch (const GrammarError& error) {
    throw ConfigError("override " + std::to_string(number) + ", column " +
                      std::to_string(error.position + 1) + ": " + error.message + "\n  " + text);
  }
}

}  // namespace verlcpp::config
