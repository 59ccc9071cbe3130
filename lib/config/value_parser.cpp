#include "config/value_parser.h"

#include <algorithm>

#include "config/scalar.h"

namespace verlcpp::config {

namespace {

constexpr std::string_view kEscapable = "\\()[]{}:=, \t";
constexpr size_t kMaxDepth = 64;  // lists and maps inside each other

bool is_space(char c) { return c == ' ' || c == '\t'; }

/// One past the closing quote of the quoted text at `start`, or npos.
size_t end_of_quoted(std::string_view text, size_t start) {
  size_t backslashes = 0;
  for (size_t i = start + 1; i < text.size(); ++i) {
    if (text[i] == text[start] && backslashes % 2 == 0) return i + 1;
    backslashes = text[i] == '\\' ? backslashes + 1 : 0;
  }
  return std::string_view::npos;
}

/// Backslashes are halved before the quote and at the end, and are literal elsewhere.
std::string unquote(std::string_view quoted) {
  const char quote = quoted.front();
  const std::string_view inside = quoted.substr(1, quoted.size() - 2);
  std::string text;
  size_t backslashes = 0;
  const auto halve = [&] { text.resize(text.size() - (backslashes + 1) / 2); };
  for (const char c : inside) {
    if (c == quote) halve();
    backslashes = c == '\\' ? backslashes + 1 : 0;
    text += c;
  }
  halve();
  return text;
}

class Parser {
 public:
  Parser(std::string_view text, size_t start, const Origin& origin)
      : text_(text), at_(start), origin_(origin) {}

  Node element(size_t depth) {
    skip_space();
    if (depth > kMaxDepth) fail("lists and maps are nested too deeply");
    if (peek() == '[') return list(depth);
    if (peek() == '{') return map(depth);
    if (peek() == '\'' || peek() == '"') return Node(string_or_interpolation(quoted()), origin_);
    return word();
  }

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  void advance() { ++at_; }
  void skip_space() {
    while (is_space(peek())) ++at_;
  }
  [[noreturn]] void fail(const std::string& message) const { throw GrammarError{message, at_}; }

 private:
  Node list(size_t depth) {
    const size_t open = at_++;
    List items;
    skip_space();
    if (peek() == ']') {
      advance();
      return Node::list({}, origin_);
    }
    while (true) {
      items.push_back(present_element(depth));
      skip_space();
      if (peek() == ']') break;
      next_item(open, ']');
    }
    advance();
    return Node::list(std::move(items), origin_);
  }

  Node map(size_t depth) {
    const size_t open = at_++;
    Map items;
    skip_space();
    if (peek() == '}') {
      advance();
      return Node::map({}, origin_);
    }
    while (true) {
      std::string name = key(open);
      const auto same = [&](const auto& item) { return item.first == name; };
      if (std::any_of(items.begin(), items.end(), same)) fail("the key " + name + " comes twice");
      advance();
      items.emplace_back(std::move(name), present_element(depth));
      skip_space();
      if (peek() == '}') break;
      next_item(open, '}');
    }
    advance();
    return Node::map(std::move(items), origin_);
  }

  void next_item(size_t open, char close) {
    if (at_end()) {
      at_ = open;
      fail(std::string("there is no ") + close + " that closes this " + text_[open]);
    }
    if (peek() != ',') fail(std::string("expected , or ") + close);
    advance();
  }

  Node present_element(size_t depth) {
    skip_space();
    if (peek() == ',' || peek() == ']' || peek() == '}') {
      fail("a value is missing; an empty string is ''");
    }
    return element(depth + 1);
  }

  /// Up to its colon, which is not consumed.
  std::string key(size_t open) {
    skip_space();
    std::string name;
    if (peek() == '\'' || peek() == '"') {
      name = quoted();
      skip_space();
    } else {
      while (!at_end() &&
             std::string_view(":,[]{}()'\"=$").find(peek()) == std::string_view::npos) {
        if (peek() == '\\' && at_ + 1 < text_.size()) advance();
        name += peek();
        advance();
      }
      while (!name.empty() && is_space(name.back())) name.pop_back();
      if (name.empty() && !at_end()) fail("a key is missing");
    }
    if (at_end()) next_item(open, '}');
    if (peek() != ':') fail("expected : after the key");
    return name;
  }

  std::string quoted() {
    const size_t end = end_of_quoted(text_, at_);
    if (end == std::string_view::npos) fail("this quote is never closed");
    std::string text = unquote(text_.substr(at_, end - at_));
    at_ = end;
    return text;
  }

  /// An unquoted word ends at a comma or a closing bracket; white space around it is dropped.
  Node word() {
    std::string text;
    size_t kept = 0;  // characters that trimming must keep
    bool escaped = false;
    while (!at_end()) {
      const char c = peek();
      if (c == ',' || c == ']' || c == '}') break;
      if (c == '(') fail("functions and casts are not supported; quote a text with brackets");
      if (std::string_view("[{)'\"=").find(c) != std::string_view::npos) {
        fail(std::string("unexpected ") + c + "; quote a text that holds one");
      }
      if (text_.substr(at_, 2) == "${") {
        const size_t end = end_of_interpolation(text_, at_);
        text += text_.substr(at_, end - at_);
        at_ = end;
        kept = text.size();
        continue;
      }
      const bool escape = c == '\\' && at_ + 1 < text_.size() &&
                          kEscapable.find(text_[at_ + 1]) != std::string_view::npos;
      if (escape) advance();
      text += peek();
      if (escape || !is_space(c)) kept = text.size();
      escaped = escaped || escape;
      advance();
    }
    text.resize(kept);
    if (text.empty()) return Node(std::string(), origin_);
    return Node(escaped ? string_or_interpolation(text) : scalar_from_command_line(text), origin_);
  }

  std::string_view text_;
  size_t at_;
  const Origin& origin_;
};

}  // namespace

size_t end_of_interpolation(std::string_view text, size_t start) {
  size_t depth = 0;
  for (size_t i = start + 1; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i + 1;
    if (text[i] == '\'' || text[i] == '"') {
      const size_t end = end_of_quoted(text, i);
      if (end == std::string_view::npos) throw GrammarError{"this quote is never closed", i};
      i = end - 1;
    }
  }
  throw GrammarError{"there is no } that closes this ${", start};
}

Node parse_value(std::string_view text, size_t start, const Origin& origin) {
  Parser parser(text, start, origin);
  Node value = parser.element(0);
  parser.skip_space();
  if (parser.peek() == ',') {
    parser.fail(
        "several values for one key are a sweep; write a list as [a,b], or quote a text with a "
        "comma");
  }
  if (!parser.at_end()) parser.fail("there is text after the value");
  return value;
}

List parse_arguments(std::string_view text, size_t start, const Origin& origin) {
  Parser parser(text, start, origin);
  List arguments;
  while (true) {
    arguments.push_back(parser.element(0));
    parser.skip_space();
    if (parser.at_end()) return arguments;
    if (parser.peek() != ',') parser.fail("expected a comma");
    parser.advance();
  }
}

}  // namespace verlcpp::config
