#include "config/value_parser.h"

#include <algorithm>

#include "config/casts.h"
#include "config/python_text.h"
#include "config/scalar.h"
#include "config/value_lexer.h"

namespace verlcpp::config {

namespace {

using Type = TokenType;

constexpr size_t kMaxDepth = 64;  // lists, maps and calls inside each other

/// Backslashes are halved before the quote and at the end, and are literal elsewhere.
std::string unquote(std::string_view quoted, Dialect dialect) {
  const char quote = quoted.front();
  const std::string_view inside = quoted.substr(1, quoted.size() - 2);
  std::string text;
  size_t backslashes = 0;
  const auto halve = [&] { text.resize(text.size() - (backslashes + 1) / 2); };
  for (size_t i = 0; i < inside.size(); ++i) {
    const char c = inside[i];
    if (c == quote) halve();
    if (dialect == Dialect::kResolver && backslashes % 2 == 0 && inside.substr(i, 2) == "${") {
      const size_t end = end_of_interpolation(inside, i);  // its quotes are its own
      text += inside.substr(i, end - i);
      i = end - 1;
      backslashes = 0;
      continue;
    }
    backslashes = c == '\\' ? backslashes + 1 : 0;
    text += c;
  }
  halve();
  return text;
}

class Parser {
 public:
  /// `braced`: a } stands behind the text.
  Parser(std::string_view text, size_t start, const Origin& origin, Dialect dialect,
         bool braced = false)
      : text_(text),
        origin_(origin),
        dialect_(dialect),
        braced_(braced),
        token_(token_at(text, start, dialect)) {}

  Node element(size_t depth) {
    if (depth > kMaxDepth) fail("lists and maps are nested too deeply");
    if (is(Type::kBracketOpen)) return list(depth);
    if (is(Type::kBraceOpen)) return map(depth);
    if (is(Type::kWord) && dialect_ == Dialect::kOverride) {
      const Token next = token_at(text_, token_.end, dialect_);
      if (next.type == Type::kParenOpen) return call(next, depth);
    }
    return primitive();
  }

  List sequence(Type close, size_t depth) {
    List items;
    const bool may_miss = dialect_ == Dialect::kResolver;
    while (!is(close)) {
      if (is(Type::kComma) && may_miss) {
        items.emplace_back(Scalar(std::string()), origin_);
      } else {
        items.push_back(present_element(depth));
      }
      if (is(close)) return items;
      if (!is(Type::kComma)) return items;  // whoever called says what is wrong
      advance();
      if (!is(close)) continue;
      if (!may_miss) fail_missing();
      items.emplace_back(Scalar(std::string()), origin_);
    }
    return items;
  }

  bool is(Type type) const { return token_.type == type; }
  void advance() { token_ = token_at(text_, token_.end, dialect_); }
  std::string_view words(const Token& token) const {
    return text_.substr(token.begin, token.end - token.begin);
  }
  size_t spot() const {
    const size_t at = text_.find_first_not_of(" \t", token_.begin);
    return std::min(at, text_.size());
  }
  [[noreturn]] void fail(const std::string& message) const { throw GrammarError{message, spot()}; }
  [[noreturn]] void fail_missing() const { fail("a value is missing; an empty string is ''"); }

 private:
  Node list(size_t depth) {
    const Token open = token_;
    advance();
    List items = sequence(Type::kBracketClose, depth);
    if (!is(Type::kBracketClose)) fail_open(open, ']');
    advance();
    return Node::list(std::move(items), origin_);
  }

  Node map(size_t depth) {
    const Token open = token_;
    Map items;
    advance();
    while (!is(Type::kBraceClose) || !items.empty()) {
      std::string name = key(open);
      const auto same = [&](const auto& item) { return item.first == name; };
      if (std::any_of(items.begin(), items.end(), same)) fail("the key " + name + " comes twice");
      advance();
      items.emplace_back(std::move(name), present_element(depth));
      if (is(Type::kBraceClose)) break;
      if (!is(Type::kComma)) fail_open(open, '}');
      advance();
    }
    advance();
    return Node::map(std::move(items), origin_);
  }

  /// In front of what ought to be a comma or the closing bracket.
  [[noreturn]] void fail_open(const Token& open, char close) const {
    if (!is(Type::kEnd)) fail(std::string("expected , or ") + close);
    throw GrammarError{std::string("there is no ") + close + " that closes this " +
                           text_[open.begin] +
                           " (at a space the shell splits an override that is not in quotes)",
                       open.begin};
  }

  Node present_element(size_t depth) {
    if (is(Type::kComma) || is(Type::kBracketClose) || is(Type::kBraceClose) ||
        is(Type::kParenClose) || is(Type::kEnd)) {
      if (!is(Type::kEnd)) fail_missing();
      return Node(Scalar(std::string()), origin_);  // the open bracket is what is told about
    }
    return element(depth + 1);
  }

  /// Up to its colon, which is not consumed.
  std::string key(const Token& open) {
    const size_t start = token_.begin;
    std::string name;
    if (is(Type::kQuoted) && dialect_ == Dialect::kOverride) {
      name = unquote(words(token_), dialect_);
      advance();
    } else {
      const Token first = token_;
      const Node written = text(false);
      if (written.is_null()) throw GrammarError{"a key cannot be null", start};
      name = python_text(written);
      if (first.type == Type::kInt && name == words(first)) name = large_integer(name);
    }
    if (is(Type::kEnd)) fail_open(open, '}');
    if (token_.begin == start) fail("a key is missing");
    if (!is(Type::kColon)) fail("expected : after the key");
    return name;
  }

  Node primitive() {
    if (!is(Type::kQuoted)) return text(true);
    const Token quoted = token_;
    advance();
    Scalar value = string_or_interpolation(unquote(words(quoted), dialect_));
    auto* interpolation = std::get_if<Interpolation>(&value);
    if (interpolation != nullptr) interpolation->as_text = dialect_ == Dialect::kResolver;
    return Node(std::move(value), origin_);
  }

  static bool is_text(Type type, bool is_value) {
    if (type == Type::kColon || type == Type::kInterpolation) return is_value;
    return type >= Type::kFloat && type <= Type::kSpace;
  }

  /// The unquoted text here: typed when it is one token, otherwise the tokens in a row.
  Node text(bool is_value) {
    std::vector<Token> tokens;
    for (; is_text(token_.type, is_value); advance()) tokens.push_back(token_);
    const bool stops_badly = is(Type::kParenOpen) || is(Type::kEqual) || is(Type::kQuoted) ||
                             is(Type::kBracketOpen) || is(Type::kBraceOpen);
    if (stops_badly && (is_value || !is(Type::kQuoted))) fail_unexpected(tokens);
    if (dialect_ == Dialect::kOverride) {
      if (!tokens.empty() && tokens.front().type == Type::kSpace) tokens.erase(tokens.begin());
      if (!tokens.empty() && tokens.back().type == Type::kSpace) tokens.pop_back();
    } else if (braced_ && is(Type::kEnd) && tokens.size() > 1 &&
               tokens.back().type == Type::kSpace) {
      tokens.pop_back();  // belongs to the } behind it
    }
    if (tokens.size() == 1) return single(tokens.front());
    return joined(tokens);
  }

  [[noreturn]] void fail_unexpected(const std::vector<Token>& before) const {
    const char c = text_[spot()];
    if (c == '(' && before.size() == 1 && before[0].type == Type::kWord) {
      fail("a resolver's arguments hold no calls; quote a text with brackets");
    }
    fail(std::string("unexpected ") + c +
         "; quote a text that holds one, in quotes that the shell leaves there: \"a.b='x=y'\"");
  }

  Node single(const Token& token) const {
    const std::string word(words(token));
    switch (token.type) {
      case Type::kFloat:
      case Type::kInt:
      case Type::kBool:
      case Type::kNull:
        return Node(scalar_from_command_line(word), origin_);
      case Type::kInterpolation:
        return Node(string_or_interpolation(word), origin_);
      default:
        return joined({token});
    }
  }

  Node joined(const std::vector<Token>& tokens) const {
    std::string text;
    bool interpolated = false;
    for (const Token& token : tokens) {
      const std::string_view word = words(token);
      if (token.type == Type::kEscape) {
        for (size_t i = 1; i < word.size(); i += 2) text += word[i];
        continue;
      }
      if (token.type == Type::kInterpolation && dialect_ == Dialect::kResolver) {
        // Backslashes before it mean themselves here.
        const size_t last = text.find_last_not_of('\\');
        text.append(text.size() - (last == std::string::npos ? 0 : last + 1), '\\');
        interpolated = true;
      }
      text += word;
    }
    if (interpolated || dialect_ == Dialect::kOverride) {
      return Node(string_or_interpolation(std::move(text)), origin_);
    }
    return Node(std::move(text), origin_);
  }

  Node call(const Token& open, size_t depth) {
    const Token name = token_;
    advance();
    advance();
    Call result{std::string(words(name)), {}};
    while (!is(Type::kParenClose) || !result.arguments.empty()) {
      Argument argument;
      const Token next = is(Type::kWord) ? token_at(text_, token_.end, dialect_) : Token{};
      if (next.type == Type::kEqual) {
        argument.name = words(token_);
        advance();
        advance();
      } else if (!result.arguments.empty() && !result.arguments.back().name.empty()) {
        fail("an argument without a name comes behind one with a name");
      }
      argument.value = present_element(depth);
      result.arguments.push_back(std::move(argument));
      if (is(Type::kParenClose)) break;
      if (!is(Type::kComma)) fail_open({Type::kParenOpen, open.end - 1, open.end}, ')');
      advance();
    }
    advance();
    try {
      Node value = evaluate(result);
      value.set_origin(origin_);
      return value;
    } catch (const GrammarError& error) {
      throw GrammarError{error.message, name.begin};
    }
  }

  std::string_view text_;
  const Origin& origin_;
  Dialect dialect_;
  bool braced_;
  Token token_;
};

}  // namespace

Node parse_value(std::string_view text, size_t start, const Origin& origin) {
  const size_t first = text.find_first_not_of(" \t", start);
  if (first == std::string_view::npos) return Node(Scalar(std::string()), origin);
  Parser parser(text, first, origin, Dialect::kOverride);
  if (parser.is(TokenType::kComma)) parser.fail_missing();
  Node value = parser.element(0);
  if (parser.is(TokenType::kComma)) {
    parser.fail(
        "several values for one key are a sweep; write a list as [a,b], or quote a text with a "
        "comma");
  }
  if (parser.is(TokenType::kBraceClose) && text.find("${", first) != std::string_view::npos) {
    parser.fail("an unquoted ${...} ends at its first }; quote one that holds another");
  }
  if (!parser.is(TokenType::kEnd)) parser.fail("there is text after the value");
  return value;
}

List parse_arguments(std::string_view text, size_t start, const Origin& origin) {
  const size_t first = std::min(text.find_first_not_of(" \t", start), text.size());
  Parser parser(text, first, origin, Dialect::kResolver, true);
  List arguments = parser.sequence(TokenType::kEnd, 0);
  if (parser.is(TokenType::kSpace)) parser.advance();
  if (!parser.is(TokenType::kEnd)) parser.fail("expected a comma");
  return arguments;
}

Node parse_argument(std::string_view text, const Origin& origin) {
  Parser parser(text, 0, origin, Dialect::kResolver);
  if (parser.is(TokenType::kEnd)) parser.fail("a value is missing");
  Node value = parser.element(0);
  if (!parser.is(TokenType::kEnd)) parser.fail("there is text after the value");
  return value;
}

}  // namespace verlcpp::config
