#include "config/expression.h"

#include <algorithm>
#include <cctype>

#include "config/value_parser.h"

namespace verlcpp::config {

namespace {

constexpr std::string_view kSpecial = "\\{}()[]:. \t'\"";

bool is_identifier(std::string_view name) {
  const auto of_word = [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-');
  };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         name[0] != '-' && std::all_of(name.begin(), name.end(), of_word);
}

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  Expression parse() {
    skip_space();
    while (take('.')) {
    }
    const bool relative = !result_.pieces.empty();
    name(true);
    while (peek() == '.' || peek() == '[') {
      if (take('.')) {
        name(false);
      } else {
        name(true);
      }
    }
    skip_space();
    if (peek() == ':') {
      ++at_;
      if (relative || !is_resolver()) throw GrammarError{"a resolver's name is missing", 0};
      result_.is_call = true;
      result_.arguments = at_;
    } else if (at_ < text_.size()) {
      throw GrammarError{"unexpected " + std::string(1, peek()) + " in a key", at_};
    }
    return std::move(result_);
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    result_.pieces.emplace_back(1, c);
    ++at_;
    return true;
  }

  /// A name, an interpolation, or either in brackets.
  void name(bool may_have_brackets) {
    const bool bracket = may_have_brackets && take('[');
    const size_t start = at_;
    if (text_.substr(at_, 2) == "${") {
      at_ = end_of_interpolation(text_, at_);
    } else {
      at_ = std::min(text_.find_first_of(kSpecial, at_), text_.size());
    }
    if (at_ == start) throw GrammarError{"a key is missing or incomplete", at_};
    result_.pieces.emplace_back(text_.substr(start, at_ - start));
    if (bracket && !take(']')) throw GrammarError{"a ] is missing in a key", at_};
  }

  bool is_resolver() const {
    return std::all_of(result_.pieces.begin(), result_.pieces.end(), [](const std::string& piece) {
      return piece == "." || piece.starts_with("${") || is_identifier(piece);
    });
  }

  std::string_view text_;
  size_t at_ = 0;
  Expression result_;
};

}  // namespace

Expression parse_expression(std::string_view inside) { return ExpressionParser(inside).parse(); }

}  // namespace verlcpp::config
