#include "jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "jinja/literals.h"
#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

using Type = Token::Type;

/// Longest first.
constexpr const char* kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

/// Of a tag: bounds the depth of what the parser makes of it.
constexpr size_t kMaxTokens = 20'000;

/// Every line break as \n; the last one of the text is dropped.
std::string normalized(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_name_character(uint32_t c) {
  return c == '_' || c >= 0x80 || std::isalnum(static_cast<int>(c));
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) next_part();
    push(Type::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest(size_t at) const { return std::string_view(source_).substr(at); }
  bool at(std::string_view text) const { return rest(at_).starts_with(text); }
  void push(Type type, std::string text) {
    tokens_.push_back({.type = type, .line = line_, .text = std::move(text)});
  }
  void advance(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }
  size_t after_space(size_t at) const {
    const std::string_view left = rest(at);
    return at + left.size() - strip_space(left, true, false).size();
  }

  /// Text up to the next tag, and the tag.
  void next_part() {
    size_t tag = at_;
    for (; tag < source_.size(); ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        tag = source_.size();
        break;
      }
      const char kind = source_[tag + 1];
      if (kind == '%' || kind == '{' || kind == '#') break;
    }
    if (tag >= source_.size()) {
      push(Type::kData, source_.substr(at_));
      advance(source_.size());
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    push_text(tag, sign, kind != '{');
    advance(tag + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (kind == '#') return comment();
    if (kind == '{') return tag_of(Type::kVariableBegin, Type::kVariableEnd, "}}");
    if (const size_t body = raw_body(); body != 0) return raw(body);
    tag_of(Type::kBlockBegin, Type::kBlockEnd, "%}");
  }

  /// The text from here to `end`, with the white space in front of a tag taken off as its sign and
  /// lstrip_blocks say.
  void push_text(size_t end, char sign, bool strips_line) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      text = strip_space(text, false, true);
    } else if (sign != '+' && strips_line) {
      const size_t line = text.rfind('\n') + 1;  // 0 without a line break
      const bool from_start = line > 0 || at_ == 0 || source_[at_ - 1] == '\n';
      if (from_start && strip_space(text.substr(line), true, false).empty()) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) push(Type::kData, std::string(text));
    advance(end);
  }

  /// Where a tag closed by `close` at `at` ends: -%} takes the white space behind it, %} one line
  /// break where `trims`. 0: it does not close here.
  size_t closing(size_t at, std::string_view close, bool trims, bool plus) const {
    const std::string_view left = rest(at);
    if (left.starts_with("-" + std::string(close))) return after_space(at + 1 + close.size());
    if (plus && left.starts_with("+" + std::string(close))) return at + 1 + close.size();
    if (!left.starts_with(close)) return 0;
    const size_t end = at + close.size();
    return end + (trims && end < source_.size() && source_[end] == '\n' ? 1 : 0);
  }

  void comment() {
    for (size_t at = at_; at < source_.size(); ++at) {
      const size_t end = closing(at, "#}", true, true);
      if (end != 0) return advance(end);
    }
    throw SyntaxError("a comment is not closed with #}", line_);
  }

  /// Behind the {% of a raw block: where its text begins, else 0.
  size_t raw_body() const {
    size_t at = after_space(at_);
    if (!rest(at).starts_with("raw")) return 0;
    return closing(after_space(at + 3), "%}", false, false);
  }

  void raw(size_t body) {
    advance(body);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      size_t at = after_space(tag + 2 + (sign == '-' || sign == '+' ? 1 : 0));
      if (!rest(at).starts_with("endraw")) continue;
      const size_t end = closing(after_space(at + 6), "%}", true, true);
      if (end == 0) continue;
      push_text(tag, sign, true);
      return advance(end);
    }
    throw SyntaxError("a raw block is not closed with {% endraw %}", line_);
  }

  void tag_of(Type begin, Type end, std::string_view close) {
    push(begin, "");
    const int opened = line_;
    const size_t before = tokens_.size();
    std::string open;  // brackets to be closed, outermost first
    while (true) {
      advance(after_space(at_));
      if (at_ >= source_.size()) {
        throw SyntaxError("a tag is not closed with " + std::string(close), opened);
      }
      const bool block = end == Type::kBlockEnd;
      const size_t closed = open.empty() ? closing(at_, close, block, block) : 0;
      if (closed != 0) {
        push(end, "");
        return advance(closed);
      }
      token(open);
      if (tokens_.size() - before > kMaxTokens) {
        throw SyntaxError("a tag has more than " + std::to_string(kMaxTokens) + " tokens", opened);
      }
    }
  }

  void token(std::string& open) {
    const char c = source_[at_];
    if (c >= '0' && c <= '9') return number();
    if (c == '"' || c == '\'') return string();
    size_t end = at_;
    while (end < source_.size()) {
      size_t next = end;
      if (!is_name_character(next_code_point(source_, next))) break;
      end = next;
    }
    if (end > at_) {
      push(Type::kName, source_.substr(at_, end - at_));
      return advance(end);
    }
    for (const std::string_view spelled : kOperators) {
      if (!at(spelled)) continue;
      balance(open, spelled[0]);
      push(Type::kOperator, std::string(spelled));
      return advance(at_ + spelled.size());
    }
    throw SyntaxError("unexpected character '" + source_.substr(at_, 1) + "'", line_);
  }

  void balance(std::string& open, char c) const {
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (open.empty() || open.back() != c) {
      throw SyntaxError(
          "unexpected '" + std::string(1, c) + "'" +
              (open.empty() ? "" : ", expected '" + open.substr(open.size() - 1) + "'"),
          line_);
    }
    open.pop_back();
  }

  void string() {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != source_[at_]) {
      end += source_[end] == '\\' ? 2 : 1;
    }
    if (end >= source_.size()) throw SyntaxError("a string is not closed", line_);
    push(Type::kString, unescaped(source_.substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1);
  }

  void number() {
    // Behind a dot, as in x.0.1, digits are an index.
    const bool may_be_float = at_ == 0 || source_[at_ - 1] != '.';
    const Number read = read_number(rest(at_), may_be_float, line_);
    tokens_.push_back({.type = read.is_float ? Type::kFloat : Type::kInteger,
                       .line = line_,
                       .text = source_.substr(at_, read.length),
                       .integer = read.integer,
                       .number = read.number});
    advance(at_ + read.length);
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace verlcpp::jinja
