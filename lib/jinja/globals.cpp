#include <ctime>

#include "jinja/interpreter.h"
#include "jinja/parameters.h"
#include "jinja/print.h"

namespace verlcpp::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // of Jinja's sandbox

Value range(Args args) {
  Parameters p("range", std::move(args));
  int64_t start = 0, stop = p.take_integer("stop", 0), step = 1;
  const bool several = p.has("step");
  if (several) {
    start = stop;
    stop = p.take_integer("stop", 0);
  }
  const bool stepped = p.has("step");
  if (stepped) step = p.take_integer("step", 1);
  p.finish();
  if (step == 0) p.fail("takes a step other than zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) >= kMaxRange) {
      p.fail("yields more than " + std::to_string(kMaxRange) + " numbers");
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  std::string text = "range(" + std::to_string(start) + ", " + std::to_string(stop);
  if (stepped && step != 1) text += ", " + std::to_string(step);
  return make_list(std::move(items), List::Kind::kRange, text + ")");
}

/// dict(mapping or pairs, name=value, ...)
std::shared_ptr<Dict> to_dict(const std::string& function, const Args& args) {
  auto out = std::make_shared<Dict>();
  if (args.positional.size() > 1) throw EvalError(function + "() takes at most one argument");
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (const Dict* dict = from.dict()) {
      for (const auto& [key, value] : dict->items) out->set(key, value);
    } else {
      for (const Value& pair : iterate(from)) {
        const std::vector<Value> items = iterate(pair);
        if (items.size() != 2) throw EvalError(function + "() takes a dict, or pairs");
        out->set(items[0], items[1]);
      }
    }
  }
  for (const auto& [key, value] : args.named) out->set(key, value);
  return out;
}

Value make_namespace(Args args) {
  auto out = std::make_shared<Namespace>();
  out->attributes = *to_dict("namespace", args);
  for (const auto& [key, value] : out->attributes.items) {
    if (key.text() != nullptr && key.text()->starts_with("_")) {
      throw EvalError("a namespace's attributes may not begin with _: '" + *key.text() + "'");
    }
  }
  return out;
}

Value raise_exception(Args args) {
  Parameters p("raise_exception", std::move(args));
  const std::string message = to_text(p.take("message"));
  p.finish();
  throw EvalError(message);
}

Value strftime_now(Args args) {
  Parameters p("strftime_now", std::move(args));
  const std::string format = p.take_text("format");
  p.finish();
  if (format.empty()) return "";
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char buffer[1024];
  const size_t length = std::strftime(buffer, sizeof buffer, format.c_str(), &local);
  return std::string(buffer, length);
}

/// joiner(", "): nothing when first called, then the separator.
Value joiner(Args args) {
  Parameters p("joiner", std::move(args));
  const std::string separator = p.take_text("sep", ", ");
  p.finish();
  const auto used = std::make_shared<bool>(false);
  return make_callable("joiner", [used, separator](Args) -> Value {
    const bool first = !*used;
    *used = true;
    return first ? "" : separator;
  });
}

class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::string text() const override { return "<Cycler>"; }
  std::optional<Value> attribute(const std::string& name) override {
    if (name == "current") return items_[at_];
    if (name != "next" && name != "reset") return std::nullopt;
    return make_callable(name, [self = shared_from_this(), next = name == "next"](Args) -> Value {
      const Value current = self->items_[self->at_];
      self->at_ = next ? (self->at_ + 1) % self->items_.size() : 0;
      return next ? current : Value(None{});
    });
  }

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
};

Value cycler(Args args) {
  if (args.positional.empty()) throw EvalError("cycler() takes at least one item");
  return std::static_pointer_cast<Object>(std::make_shared<Cycler>(std::move(args.positional)));
}

}  // namespace

ScopePtr make_globals() {
  auto scope = std::make_shared<Scope>();
  const auto add = [&](const char* name, Value (*function)(Args)) {
    scope->set(name, make_callable(name, function));
  };
  add("range", range);
  add("dict", [](Args args) -> Value { return to_dict("dict", args); });
  add("namespace", make_namespace);
  add("raise_exception", raise_exception);
  add("strftime_now", strftime_now);
  add("joiner", joiner);
  add("cycler", cycler);
  return scope;
}

}  // namespace verlcpp::jinja
