#include "jinja/filters.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/tests.h"

namespace verlcpp::jinja {
namespace {

using Kind = Expression::Kind;

constexpr size_t kMaxSteps = 20'000'000;
constexpr size_t kTextPerStep = 256;  // bytes of text that cost as much as a step
constexpr size_t kItemsPerStep = 4;   // and items of a list

}  // namespace

void Interpreter::charge(size_t steps) {
  steps_ += steps;
  if (steps_ > kMaxSteps) {
    throw EvalError("does not end: stopped after " + std::to_string(kMaxSteps) + " steps");
  }
}

Value Interpreter::evaluate(const Expression& e) {
  const Level level(*this);
  Value out = compute(e);
  charge(1);
  if (out.text() != nullptr) charge(out.text()->size() / kTextPerStep);
  if (out.list() != nullptr) charge(out.list()->items.size() / kItemsPerStep);
  return out;
}

Value Interpreter::compute(const Expression& e) {
  const auto operand = [&](size_t i) { return evaluate(*e.operands[i]); };
  switch (e.kind) {
    case Kind::kConstant:
      return e.value;
    case Kind::kName: {
      const Value* found = scope_->find(e.name);
      return found != nullptr ? *found : undefined("'" + e.name + "' is undefined");
    }
    case Kind::kTuple:
    case Kind::kList:
    case Kind::kDict:
      return compute_display(e);
    case Kind::kAnd:
    case Kind::kOr: {
      Value left = operand(0);
      return truthy(left) == (e.kind == Kind::kOr) ? left : operand(1);
    }
    case Kind::kNot:
      return !truthy(operand(0));
    case Kind::kCompare:
      return compute_comparison(e);
    case Kind::kCondition:
      return compute_condition(e);
    case Kind::kSlice:
      return compute_slice(e);
    case Kind::kCall:
      return compute_call(e, nullptr);
    default:
      break;
  }
  // What follows works on values: its message belongs to its own line, not to its operands'.
  std::vector<Value> values;
  for (const auto& part : e.operands) values.push_back(evaluate(*part));
  Args args = arguments(e.arguments);
  line_ = e.line;
  switch (e.kind) {
    case Kind::kUnary:
      return unary_operation(e.name, values[0]);
    case Kind::kBinary:
      return binary_operation(e.name, values[0], values[1]);
    case Kind::kAttribute:
      return get_attribute(values[0], e.name);
    case Kind::kItem:
      return get_item(values[0], values[1]);
    case Kind::kFilter:
      return apply_filter(e.name, values[0], std::move(args));
    case Kind::kTest:
      return apply_test(e.name, values[0], std::move(args));
    default:
      break;
  }
  std::string text;  // kConcat
  for (const Value& value : values) {
    text += to_text(value);
    expect_text_size(text.size());
  }
  return text;
}

Value Interpreter::compute_display(const Expression& e) {
  std::vector<Value> values;
  for (const auto& part : e.operands) values.push_back(evaluate(*part));
  if (e.kind == Kind::kTuple) return make_tuple(std::move(values));
  if (e.kind == Kind::kList) return make_list(std::move(values));
  auto dict = std::make_shared<Dict>();
  line_ = e.line;
  for (size_t i = 0; i + 1 < values.size(); i += 2) dict->set(values[i], values[i + 1]);
  return dict;
}

/// a < b < c: each operand is evaluated once, and no further than the first that does not hold.
Value Interpreter::compute_comparison(const Expression& e) {
  Value left = evaluate(*e.operands[0]);
  for (size_t i = 0; i < e.names.size(); ++i) {
    Value right = evaluate(*e.operands[i + 1]);
    line_ = e.line;
    if (!comparison_holds(e.names[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::compute_condition(const Expression& e) {
  if (truthy(evaluate(*e.operands[0]))) return evaluate(*e.operands[1]);
  if (e.operands.size() > 2) return evaluate(*e.operands[2]);
  return undefined("the inline if-expression on line " + std::to_string(e.line) +
                   " evaluated to false and no else section was defined");
}

Value Interpreter::compute_slice(const Expression& e) {
  const Value value = evaluate(*e.operands[0]);
  Value parts[3];
  for (size_t i = 0; i < 3; ++i) {
    if (e.operands[i + 1]) parts[i] = evaluate(*e.operands[i + 1]);
  }
  line_ = e.line;
  return get_slice(value, parts[0], parts[1], parts[2]);
}

Value Interpreter::compute_call(const Expression& e, const Value* caller) {
  const Value function = evaluate(*e.operands[0]);
  Args args = arguments(e.arguments);
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  line_ = e.line;
  return call_value(function, std::move(args));
}

/// `chain`'s filters on what a block printed.
Value Interpreter::filtered(const Expression& chain, const Value& text) {
  const Value value = chain.operands[0] ? filtered(*chain.operands[0], text) : text;
  Args args = arguments(chain.arguments);
  line_ = chain.line;
  return apply_filter(chain.name, value, std::move(args));
}

Args Interpreter::arguments(const Arguments& arguments) {
  Args out;
  for (const auto& value : arguments.positional) out.positional.push_back(evaluate(*value));
  for (const auto& [name, value] : arguments.named) out.named.emplace_back(name, evaluate(*value));
  if (arguments.unpacked_list) {
    for (Value& value : iterate(evaluate(*arguments.unpacked_list))) {
      out.positional.push_back(std::move(value));
    }
  }
  if (!arguments.unpacked_dict) return out;
  const Value more = evaluate(*arguments.unpacked_dict);
  if (more.dict() == nullptr) throw EvalError("** takes a dict, not " + type_name(more));
  for (const auto& [key, value] : more.dict()->items) {
    if (key.text() == nullptr) throw EvalError("keywords must be strings");
    out.named.emplace_back(*key.text(), value);
  }
  return out;
}

}  // namespace verlcpp::jinja
