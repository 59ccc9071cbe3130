#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/ast.h"

namespace verlcpp::jinja {

/// Names and what they stand for; those of `parent` are seen, not changed.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> names;

  const Value* find(const std::string& name) const;
  void set(const std::string& name, Value value);
};
using ScopePtr = std::shared_ptr<Scope>;

/// Runs one template once. EvalError for what goes wrong; line() is then where. Steps, depth and
/// sizes are bounded, so that every template ends.
class Interpreter {
 public:
  /// `scope` has the variables; the template's own names do not reach it.
  explicit Interpreter(ScopePtr scope) : scope_(std::make_shared<Scope>(Scope{scope, {}})) {}
  std::string render(const Body& body);
  int line() const { return line_; }

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // interpreter.cpp
  Flow run(const Body& body);
  Flow run(const Statement& statement);
  Flow run_loop(const Statement& statement);
  std::vector<Value> loop_items(const Statement& statement);
  void run_with(const Statement& statement);
  void run_call(const Statement& statement);
  std::string captured(const Body& body, ScopePtr scope);
  Value function(const std::string& name, const Signature& signature, const Body& body);
  void bind_parameters(const std::string& name, const Signature& signature, Args args);
  void assign(const Target& target, const Value& value);
  void print(const Value& value);

  // interpreter_expressions.cpp
  Value evaluate(const Expression& expression);
  Value compute(const Expression& expression);
  Value compute_display(const Expression& expression);
  Value compute_comparison(const Expression& expression);
  Value compute_condition(const Expression& expression);
  Value compute_slice(const Expression& expression);
  Value compute_call(const Expression& expression, const Value* caller);
  Value filtered(const Expression& chain, const Value& text);
  Args arguments(const Arguments& arguments);
  void charge(size_t steps);

  /// Bounds the recursion, and leaves `scope_` as it was.
  class Level {
   public:
    explicit Level(Interpreter& in) : in_(in), scope_(in.scope_) {
      if (++in_.depth_ > kMaxDepth) throw EvalError("calls itself too deeply");
    }
    ~Level() {
      --in_.depth_;
      in_.scope_ = std::move(scope_);
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    static constexpr int kMaxDepth = 1000;
    Interpreter& in_;
    ScopePtr scope_;
  };
  void enter_scope() { scope_ = std::make_shared<Scope>(Scope{scope_, {}}); }

  ScopePtr scope_;
  std::string out_;
  int line_ = 1;
  int depth_ = 0;
  size_t steps_ = 0;
};

/// range, dict, namespace, raise_exception, strftime_now, joiner, cycler.
ScopePtr make_globals();

}  // namespace verlcpp::jinja
