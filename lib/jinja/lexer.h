#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace verlcpp::jinja {

/// A template that cannot be read; Template's constructor adds the template's name.
class SyntaxError : public std::runtime_error {
 public:
  SyntaxError(const std::string& message, int line_number)
      : std::runtime_error(message), line(line_number) {}
  int line;
};

struct Token {
  enum class Type {
    kData,  // text between tags
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,  // `text` is its value
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Type type = Type::kEnd;
  int line = 1;
  std::string text = {};
  int64_t integer = 0;
  double number = 0;

  bool is(Type other, std::string_view spelled) const { return type == other && text == spelled; }
  bool is_name(std::string_view name) const { return is(Type::kName, name); }
  bool is_operator(std::string_view spelled) const { return is(Type::kOperator, spelled); }
};

/// The tokens of a template, kEnd last, as Jinja's lexer yields them with trim_blocks and
/// lstrip_blocks on. SyntaxError for a character, string or comment that it does not take.
std::vector<Token> tokenize(std::string_view source);

}  // namespace verlcpp::jinja
