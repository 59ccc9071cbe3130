#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/value.h"

// What the parser makes of a template. Lines count from 1.

namespace verlcpp::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Arguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr unpacked_list, unpacked_dict;  // *x, **x
};

struct Expression {
  enum class Kind {
    kConstant,   // value
    kName,       // name
    kTuple,      // operands
    kList,       // operands
    kDict,       // operands: key, value, key, value, ...
    kAnd,        // two operands
    kOr,         // two operands
    kNot,        // one operand
    kUnary,      // name: - or +; one operand
    kBinary,     // name: + - * / // % **; two operands
    kConcat,     // operands
    kCompare,    // operands[0] names[0] operands[1] names[1] ...
    kCondition,  // operands: condition, value if true, value if false (may be missing)
    kAttribute,  // operands[0].name
    kItem,       // operands[0][operands[1]]
    kSlice,      // operands[0][operands[1]:operands[2]:operands[3]], any of the three may be null
    kCall,       // operands[0](arguments)
    kFilter,     // operands[0]|name(arguments); operands[0] null: of a block
    kTest        // operands[0] is name(arguments)
  };
  Kind kind;
  int line;
  std::string name = {};
  Value value = {};
  std::vector<ExpressionPtr> operands = {};
  std::vector<std::string> names = {};
  Arguments arguments = {};
};

/// What is assigned to: a name, an attribute of a namespace, or several targets.
struct Target {
  std::string name;
  std::string attribute;      // name.attribute
  std::vector<Target> items;  // a tuple; `name` is empty
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

/// Parameters of a macro or of a call block's body; the defaults are those of the last ones.
struct Signature {
  std::vector<std::string> names;
  std::vector<ExpressionPtr> defaults;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Statement {
  enum class Kind {
    kText,      // text
    kPrint,     // expression
    kIf,        // expression, body, otherwise
    kFor,       // targets[0] in expression if condition, body, otherwise
    kSet,       // targets[0] = expression
    kSetBlock,  // targets[0], body, expression: the filters, or null
    kWith,      // targets[i] = values[i], body
    kMacro,     // text: its name; signature, body
    kCall,      // expression: the call; signature, body
    kFilter,    // expression: the filters; body
    kScope,     // body: a generation block
    kBreak,
    kContinue
  };
  Kind kind;
  int line;
  std::string text = {};
  ExpressionPtr expression = {}, condition = {};
  std::vector<Target> targets = {};
  std::vector<ExpressionPtr> values = {};
  Signature signature = {};
  Body body = {}, otherwise = {};
};

}  // namespace verlcpp::jinja
