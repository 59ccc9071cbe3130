// What stands behind a value: .attribute, [item], (arguments), |filter, is test.

#include <algorithm>

#include "jinja/filters.h"
#include "jinja/parser.h"
#include "jinja/tests.h"

namespace verlcpp::jinja {

using Kind = Expression::Kind;
using Type = Token::Type;

ExpressionPtr Parser::postfix(ExpressionPtr value) {
  while (true) {
    if (current().is_operator(".") || current().is_operator("[")) {
      value = subscript(std::move(value));
    } else if (current().is_operator("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr Parser::filters_and_tests(ExpressionPtr value) {
  while (true) {
    if (current().is_operator("|")) {
      value = filter_chain(std::move(value));
    } else if (current().is_name("is")) {
      value = test(std::move(value));
    } else if (current().is_operator("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr Parser::subscript(ExpressionPtr value) {
  const int line = current().line;
  if (skip_operator(".")) {
    const Token& token = take();
    if (token.type == Type::kName) {
      ExpressionPtr out = make(Kind::kAttribute, line, token.text);
      out->operands.push_back(std::move(value));
      return out;
    }
    if (token.type != Type::kInteger) fail("expected a name or a number behind '.'");
    ExpressionPtr index = make(Kind::kConstant, token.line);
    index->value = token.integer;
    ExpressionPtr out = make(Kind::kItem, line);
    out->operands.push_back(std::move(value));
    out->operands.push_back(std::move(index));
    return out;
  }
  expect_operator("[");
  ExpressionPtr parts[3];
  const auto ends = [&] { return current().is_operator("]") || current().is_operator(":"); };
  bool sliced = false;
  for (ExpressionPtr& part : parts) {
    if (!ends()) part = expression();
    if (!current().is_operator(":")) break;
    take();
    sliced = true;
  }
  if (!sliced && !parts[0]) fail("expected an index between '[' and ']'");
  expect_operator("]");
  ExpressionPtr out = make(sliced ? Kind::kSlice : Kind::kItem, line);
  out->operands.push_back(std::move(value));
  for (size_t i = 0; i < (sliced ? 3u : 1u); ++i) out->operands.push_back(std::move(parts[i]));
  return out;
}

ExpressionPtr Parser::call(ExpressionPtr function) {
  ExpressionPtr out = make(Kind::kCall, current().line);
  out->operands.push_back(std::move(function));
  out->arguments = arguments();
  return out;
}

Arguments Parser::arguments() {
  Arguments out;
  expect_operator("(");
  while (!current().is_operator(")")) {
    argument(out);
    if (!current().is_operator(")")) expect_operator(",");
  }
  take();
  return out;
}

void Parser::argument(Arguments& out) {
  const std::string order = "arguments come in the order: positional, named, *list, **dict";
  if (skip_operator("*")) {
    if (out.unpacked_list || out.unpacked_dict) fail(order);
    out.unpacked_list = expression();
  } else if (skip_operator("**")) {
    if (out.unpacked_dict) fail(order);
    out.unpacked_dict = expression();
  } else if (current().type == Type::kName && ahead().is_operator("=")) {
    if (out.unpacked_dict) fail(order);
    std::string name = take().text;
    take();
    out.named.emplace_back(std::move(name), expression());
  } else {
    if (!out.named.empty() || out.unpacked_list || out.unpacked_dict) fail(order);
    out.positional.push_back(expression());
  }
}

std::string Parser::dotted_name() {
  std::string name = expect_identifier();
  while (skip_operator(".")) name += "." + expect_identifier();
  return name;
}

/// `current` is the filter's name.
ExpressionPtr Parser::filter(ExpressionPtr value) {
  const int line = current().line;
  ExpressionPtr out = make(Kind::kFilter, line, dotted_name());
  if (!conditional_ && !is_filter(out->name)) {
    unknown_.emplace_back("no filter named '" + out->name + "'; valid: " + filter_names(), line);
  }
  out->operands.push_back(std::move(value));
  if (current().is_operator("(")) out->arguments = arguments();
  return out;
}

ExpressionPtr Parser::filter_chain(ExpressionPtr value) {
  while (skip_operator("|")) value = filter(std::move(value));
  return value;
}

ExpressionPtr Parser::test(ExpressionPtr value) {
  const int line = take().line;
  const bool negated = skip_name("not");
  ExpressionPtr out = make(Kind::kTest, line, dotted_name());
  if (!conditional_ && !is_test(out->name)) {
    unknown_.emplace_back("no test named '" + out->name + "'; valid: " + test_names(), line);
  }
  out->operands.push_back(std::move(value));
  const Token& token = current();
  const bool name = token.type == Type::kName && token.text != "else" && token.text != "or" &&
                    token.text != "and";
  if (token.is_operator("(")) {
    out->arguments = arguments();
  } else if (token.is_name("is")) {
    fail("tests cannot be chained with is");
  } else if (name || token.type == Type::kString || token.type == Type::kInteger ||
             token.type == Type::kFloat || token.is_operator("[") || token.is_operator("{")) {
    out->arguments.positional.push_back(postfix(primary()));
  }
  if (!negated) return out;
  ExpressionPtr opposite = make(Kind::kNot, line);
  opposite->operands.push_back(std::move(out));
  return opposite;
}

}  // namespace verlcpp::jinja
