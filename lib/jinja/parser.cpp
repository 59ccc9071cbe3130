#include "jinja/parser.h"

#include <algorithm>

namespace verlcpp::jinja {

using Kind = Expression::Kind;
using Type = Token::Type;

namespace {

ExpressionPtr with(ExpressionPtr parent, ExpressionPtr a, ExpressionPtr b = nullptr) {
  parent->operands.push_back(std::move(a));
  if (b) parent->operands.push_back(std::move(b));
  return parent;
}

/// Operators of Jinja's levels of arithmetic, loosest first; ~ stands between the two.
const std::set<std::string> kLevels[] = {{"+", "-"}, {"*", "/", "//", "%"}, {"**"}};

}  // namespace

std::string Parser::shown(const Token& token) {
  switch (token.type) {
    case Type::kEnd:
      return "the end of the template";
    case Type::kVariableEnd:
      return "'}}'";
    case Type::kBlockEnd:
      return "'%}'";
    default:
      return "'" + token.text + "'";
  }
}

void Parser::fail(const std::string& message) const { throw SyntaxError(message, current().line); }

ExpressionPtr Parser::make(Kind kind, int line, std::string name) const {
  return std::make_unique<Expression>(
      Expression{.kind = kind, .line = line, .name = std::move(name)});
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

bool Parser::skip_operator(std::string_view spelled) {
  if (!current().is_operator(spelled)) return false;
  take();
  return true;
}

void Parser::expect_operator(std::string_view spelled) {
  if (!skip_operator(spelled)) {
    fail("expected '" + std::string(spelled) + "', found " + shown(current()));
  }
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail("expected '" + std::string(name) + "', found " + shown(current()));
}

std::string Parser::expect_identifier() {
  if (current().type != Type::kName) fail("expected a name, found " + shown(current()));
  return take().text;
}

ExpressionPtr Parser::expression(bool with_condition) {
  const Nesting nesting(*this);
  return with_condition ? condition() : or_expression();
}

/// "a if b else c". Its parts may stay unevaluated, the first too, which is read before the "if".
ExpressionPtr Parser::condition() {
  const size_t unknown = unknown_.size();
  ExpressionPtr value = or_expression();
  if (!current().is_name("if")) return value;
  unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(unknown), unknown_.end());
  const Setting setting(conditional_, true);
  while (current().is_name("if")) {
    ExpressionPtr chosen = make(Kind::kCondition, take().line);
    ExpressionPtr test = or_expression();
    value = with(std::move(chosen), std::move(test), std::move(value));
    if (!skip_name("else")) continue;
    const Nesting nesting(*this);
    value->operands.push_back(condition());
  }
  return value;
}

ExpressionPtr Parser::or_expression() {
  ExpressionPtr left = and_expression();
  while (current().is_name("or")) {
    ExpressionPtr both = make(Kind::kOr, take().line);
    left = with(std::move(both), std::move(left), and_expression());
  }
  return left;
}

ExpressionPtr Parser::and_expression() {
  ExpressionPtr left = not_expression();
  while (current().is_name("and")) {
    ExpressionPtr both = make(Kind::kAnd, take().line);
    left = with(std::move(both), std::move(left), not_expression());
  }
  return left;
}

ExpressionPtr Parser::not_expression() {
  const Nesting nesting(*this);
  if (!current().is_name("not")) return comparison();
  const int line = take().line;
  return with(make(Kind::kNot, line), not_expression());
}

ExpressionPtr Parser::comparison() {
  static const std::set<std::string> kOperators = {"==", "!=", "<", "<=", ">", ">="};
  ExpressionPtr first = binary(0);
  ExpressionPtr out = make(Kind::kCompare, first->line);
  while (true) {
    std::string name;
    if (current().type == Type::kOperator && kOperators.contains(current().text)) {
      name = take().text;
    } else if (skip_name("in")) {
      name = "in";
    } else if (current().is_name("not") && ahead().is_name("in")) {
      take();
      take();
      name = "not in";
    } else {
      break;
    }
    out->names.push_back(name);
    out->operands.push_back(binary(0));
  }
  if (out->names.empty()) return first;
  out->operands.insert(out->operands.begin(), std::move(first));
  return out;
}

ExpressionPtr Parser::binary(int level) {
  const auto next = [&] {
    if (level == 0) return concatenation();
    return level == 1 ? binary(2) : unary(true);
  };
  ExpressionPtr left = next();
  while (current().type == Type::kOperator && kLevels[level].contains(current().text)) {
    const Token& token = take();
    ExpressionPtr both = make(Kind::kBinary, token.line, token.text);
    left = with(std::move(both), std::move(left), next());
  }
  return left;
}

ExpressionPtr Parser::concatenation() {
  ExpressionPtr first = binary(1);
  if (!current().is_operator("~")) return first;
  ExpressionPtr out = with(make(Kind::kConcat, current().line), std::move(first));
  while (skip_operator("~")) out->operands.push_back(binary(1));
  return out;
}

ExpressionPtr Parser::unary(bool with_filters) {
  const Nesting nesting(*this);
  ExpressionPtr value;
  if (current().is_operator("-") || current().is_operator("+")) {
    const Token& token = take();
    ExpressionPtr signed_value = make(Kind::kUnary, token.line, token.text);
    value = with(std::move(signed_value), unary(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr Parser::primary() {
  const Token& token = current();
  ExpressionPtr constant = make(Kind::kConstant, token.line);
  if (token.type == Type::kName) {
    take();
    const std::string& name = token.text;
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      constant->value = name == "true" || name == "True";
      return constant;
    }
    if (name == "none" || name == "None") return constant;
    read_names_.push_back(name);
    return make(Kind::kName, token.line, name);
  }
  if (token.type == Type::kString) return string_constant();
  if (token.type == Type::kInteger || token.type == Type::kFloat) {
    take();
    if (token.type == Type::kInteger) {
      constant->value = token.integer;
    } else {
      constant->value = token.number;
    }
    return constant;
  }
  if (token.is_operator("[")) return list_display();
  if (token.is_operator("{")) return dict_display();
  if (!token.is_operator("(")) fail("expected an expression, found " + shown(token));
  take();
  ExpressionPtr inner = tuple(true, "", true);
  expect_operator(")");
  return inner;
}

/// Literals side by side are one string.
ExpressionPtr Parser::string_constant() {
  ExpressionPtr out = make(Kind::kConstant, current().line);
  std::string text;
  while (current().type == Type::kString) text += take().text;
  out->value = std::move(text);
  return out;
}

ExpressionPtr Parser::list_display() {
  ExpressionPtr out = make(Kind::kList, take().line);
  while (!current().is_operator("]")) {
    out->operands.push_back(expression());
    if (!current().is_operator("]")) expect_operator(",");
  }
  take();
  return out;
}

ExpressionPtr Parser::dict_display() {
  ExpressionPtr out = make(Kind::kDict, take().line);
  while (!current().is_operator("}")) {
    out->operands.push_back(expression());
    expect_operator(":");
    out->operands.push_back(expression());
    if (!current().is_operator("}")) expect_operator(",");
  }
  take();
  return out;
}

/// One expression, or several with commas between. `end`: a name that ends it.
ExpressionPtr Parser::tuple(bool with_condition, const std::string& end, bool parenthesized) {
  std::vector<ExpressionPtr> items;
  const int line = current().line;
  bool comma = false;
  while (true) {
    const Token& token = current();
    if (token.type == Type::kVariableEnd || token.type == Type::kBlockEnd ||
        token.is_operator(")") || (!end.empty() && token.is_name(end))) {
      break;
    }
    items.push_back(expression(with_condition));
    if (!current().is_operator(",")) break;
    take();
    comma = true;
  }
  if (!comma && !items.empty()) return std::move(items.front());
  if (!comma && !parenthesized) fail("expected an expression, found " + shown(current()));
  ExpressionPtr out = make(Kind::kTuple, line);
  out->operands = std::move(items);
  return out;
}

}  // namespace verlcpp::jinja
