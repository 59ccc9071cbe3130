#include "jinja/interpreter.h"

#include "jinja/loop.h"
#include "jinja/operators.h"
#include "jinja/print.h"

namespace verlcpp::jinja {

using Kind = Statement::Kind;

const Value* Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [known, value] : scope->names) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [known, old] : names) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  names.emplace_back(name, std::move(value));
}

std::string Interpreter::render(const Body& body) {
  run(body);
  return std::move(out_);
}

void Interpreter::print(const Value& value) {
  out_ += to_text(value);
  expect_text_size(out_.size());
}

Interpreter::Flow Interpreter::run(const Body& body) {
  for (const auto& statement : body) {
    const Flow flow = run(*statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Statement& s) {
  charge(1);
  line_ = s.line;
  switch (s.kind) {
    case Kind::kText:
      print(s.text);
      return Flow::kNext;
    case Kind::kPrint:
      print(evaluate(*s.expression));
      return Flow::kNext;
    case Kind::kIf:
      return run(truthy(evaluate(*s.expression)) ? s.body : s.otherwise);
    case Kind::kFor:
      return run_loop(s);
    case Kind::kSet:
      assign(s.targets[0], evaluate(*s.expression));
      return Flow::kNext;
    case Kind::kSetBlock: {
      const Value text = captured(s.body, std::make_shared<Scope>(Scope{scope_, {}}));
      assign(s.targets[0], s.expression ? filtered(*s.expression, text) : text);
      return Flow::kNext;
    }
    case Kind::kWith:
      run_with(s);
      return Flow::kNext;
    case Kind::kMacro:
      scope_->set(s.text, function(s.text, s.signature, s.body));
      return Flow::kNext;
    case Kind::kCall:
      run_call(s);
      return Flow::kNext;
    case Kind::kFilter: {
      const Value text = captured(s.body, std::make_shared<Scope>(Scope{scope_, {}}));
      print(filtered(*s.expression, text));
      return Flow::kNext;
    }
    case Kind::kScope:
      print(captured(s.body, std::make_shared<Scope>(Scope{scope_, {}})));
      return Flow::kNext;
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

/// The items that pass the loop's "if".
std::vector<Value> Interpreter::loop_items(const Statement& s) {
  std::vector<Value> items = iterate(evaluate(*s.expression));
  if (!s.condition) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    charge(1);
    const Level level(*this);
    enter_scope();
    assign(s.targets[0], item);
    if (truthy(evaluate(*s.condition))) kept.push_back(std::move(item));
  }
  return kept;
}

Interpreter::Flow Interpreter::run_loop(const Statement& s) {
  const auto loop = std::make_shared<Loop>(loop_items(s));
  bool completed = false;  // Jinja's "else" also follows rounds that all ended early
  for (size_t i = 0; i < loop->items().size(); ++i) {
    charge(1);
    const Level level(*this);
    enter_scope();
    loop->set_index(i);
    scope_->set("loop", std::static_pointer_cast<Object>(loop));
    assign(s.targets[0], loop->items()[i]);
    const Flow flow = run(s.body);
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNext;
  }
  if (completed || s.otherwise.empty()) return Flow::kNext;
  const Level level(*this);
  enter_scope();
  return run(s.otherwise);
}

void Interpreter::run_with(const Statement& s) {
  std::vector<Value> values;
  for (const auto& value : s.values) values.push_back(evaluate(*value));
  const Level level(*this);
  enter_scope();
  for (size_t i = 0; i < values.size(); ++i) assign(s.targets[i], values[i]);
  run(s.body);
}

void Interpreter::run_call(const Statement& s) {
  const Value caller = function("caller", s.signature, s.body);
  print(compute_call(*s.expression, &caller));
}

/// What `body` prints in `scope`.
std::string Interpreter::captured(const Body& body, ScopePtr scope) {
  const Level level(*this);
  scope_ = std::move(scope);
  std::string outer;
  outer.swap(out_);
  run(body);
  outer.swap(out_);
  return outer;
}

/// A macro, or the body of a call block. It sees the names that its surroundings have when it is
/// called.
Value Interpreter::function(const std::string& name, const Signature& signature, const Body& body) {
  // Not held by itself: a macro is a name of the scope that it sees.
  const std::weak_ptr<Scope> surroundings = scope_;
  return make_callable(name, [this, name, surroundings, &signature, &body](Args args) -> Value {
    const auto parent = surroundings.lock();
    if (!parent) throw EvalError("calls the macro '" + name + "' outside of the block it is in");
    const Level level(*this);
    scope_ = std::make_shared<Scope>(Scope{parent, {}});
    bind_parameters(name, signature, std::move(args));
    return captured(body, scope_);
  });
}

void Interpreter::bind_parameters(const std::string& name, const Signature& signature, Args args) {
  const auto take_named = [&](const std::string& wanted) -> std::optional<Value> {
    for (size_t i = 0; i < args.named.size(); ++i) {
      if (args.named[i].first != wanted) continue;
      Value value = args.named[i].second;
      args.named.erase(args.named.begin() + static_cast<std::ptrdiff_t>(i));
      return value;
    }
    return std::nullopt;
  };
  const size_t count = signature.names.size(), first_default = count - signature.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string& parameter = signature.names[i];
    if (i < args.positional.size()) {
      scope_->set(parameter, args.positional[i]);
    } else if (auto value = take_named(parameter)) {
      scope_->set(parameter, *value);
    } else if (i >= first_default) {
      scope_->set(parameter, evaluate(*signature.defaults[i - first_default]));
    } else {
      scope_->set(parameter, undefined("parameter '" + parameter + "' was not provided"));
    }
  }
  if (signature.uses_caller) {
    scope_->set("caller", take_named("caller").value_or(undefined("No caller defined")));
  }
  if (signature.uses_kwargs) {
    auto rest = std::make_shared<Dict>();
    for (const auto& [key, value] : args.named) rest->set(key, value);
    scope_->set("kwargs", rest);
  } else if (!args.named.empty()) {
    throw EvalError("macro '" + name + "' takes no keyword argument '" + args.named.front().first +
                    "'");
  }
  const size_t used = std::min(count, args.positional.size());
  if (signature.uses_varargs) {
    scope_->set("varargs", make_tuple({args.positional.begin() + static_cast<std::ptrdiff_t>(used),
                                       args.positional.end()}));
  } else if (used < args.positional.size()) {
    throw EvalError("macro '" + name + "' takes not more than " + std::to_string(count) +
                    " argument(s)");
  }
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    const Value* found = scope_->find(target.name);
    Namespace* names = found == nullptr ? nullptr : found->name_space();
    if (names == nullptr) {
      throw EvalError("cannot assign attribute on non-namespace object '" + target.name + "'");
    }
    if (target.attribute.starts_with("_")) {
      throw EvalError("a namespace's attributes may not begin with _: '" + target.attribute + "'");
    }
    names->attributes.set(target.attribute, value);
    return;
  }
  if (target.items.empty()) return scope_->set(target.name, value);
  const std::vector<Value> items = iterate(value);
  if (items.size() != target.items.size()) {
    throw EvalError("cannot unpack " + std::to_string(items.size()) + " values into " +
                    std::to_string(target.items.size()) + " names");
  }
  for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], items[i]);
}

}  // namespace verlcpp::jinja
