#include <algorithm>

#include "jinja/operators.h"
#include "jinja/parameters.h"
#include "jinja/print.h"
#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

/// How Jinja names an object in its messages.
std::string shown_type(const Value& value) {
  return value.is_none() ? "None" : type_name(value) + " object";
}

/// Methods that change a list or dict: the sandbox that chat templates run in hides them.
bool changes_value(const Value& value, const std::string& name) {
  static const char* const kOfList[] = {"append", "clear",  "pop",  "reverse",
                                        "insert", "extend", "sort", "remove"};
  static const char* const kOfDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const auto among = [&](const auto& names) {
    for (const char* known : names) {
      if (name == known) return true;
    }
    return false;
  };
  if (value.dict() != nullptr) return among(kOfDict);
  return value.list() != nullptr && value.list()->kind == List::Kind::kList && among(kOfList);
}

std::optional<Value> dict_method(const std::shared_ptr<Dict>& dict, const std::string& name) {
  const auto view = [&](auto&& element) {
    return make_callable(name, [dict, name, element](Args args) {
      Parameters(name, std::move(args)).finish();
      std::vector<Value> items;
      for (const auto& [key, value] : dict->items) items.push_back(element(key, value));
      return make_list(std::move(items), List::Kind::kView, "dict_" + name);
    });
  };
  if (name == "items") {
    return view([](const Value& key, const Value& value) { return make_tuple({key, value}); });
  }
  if (name == "keys") return view([](const Value& key, const Value&) { return key; });
  if (name == "values") return view([](const Value&, const Value& value) { return value; });
  if (name == "get") {
    return make_callable(name, [dict](Args args) {
      if (!args.named.empty()) throw EvalError("get() takes no keyword arguments");
      Parameters parameters("get", std::move(args));
      const Value key = parameters.take("key");
      Value otherwise = parameters.take("default", None{});
      parameters.finish();
      expect_hashable(key);
      const Value* found = dict->find(key);
      return found != nullptr ? *found : otherwise;
    });
  }
  if (name != "copy") return std::nullopt;
  return make_callable(name, [dict](Args args) {
    Parameters("copy", std::move(args)).finish();
    return Value(std::make_shared<Dict>(*dict));
  });
}

std::optional<Value> list_method(const std::shared_ptr<List>& list, const std::string& name) {
  if (!list->indexed() || (name != "index" && name != "count" && name != "copy")) {
    return std::nullopt;
  }
  if (name == "copy" && list->kind != List::Kind::kList) return std::nullopt;
  return make_callable(name, [list, name](Args args) -> Value {
    Parameters parameters(name, std::move(args));
    if (name == "copy") {
      parameters.finish();
      return make_list(list->items);
    }
    const Value wanted = parameters.take("value");
    parameters.finish();
    int64_t count = 0;
    for (size_t i = 0; i < list->items.size(); ++i) {
      if (!equal(list->items[i], wanted)) continue;
      if (name == "index") return static_cast<int64_t>(i);
      ++count;
    }
    if (name == "index") throw EvalError(to_repr(wanted) + " is not in list");
    return count;
  });
}

/// A method or an attribute in Python's sense.
std::optional<Value> own_attribute(const Value& value, const std::string& name) {
  if (value.text() != nullptr) return string_method(value, name);
  if (const auto* dict = value.get_if<std::shared_ptr<Dict>>()) return dict_method(*dict, name);
  if (const auto* list = value.get_if<std::shared_ptr<List>>()) return list_method(*list, name);
  if (Object* object = value.object()) return object->attribute(name);
  if (const Namespace* names = value.name_space()) {
    const Value* found = names->attributes.find(name);
    if (found != nullptr) return *found;
  }
  return std::nullopt;
}

/// Python's value[key]; nothing where it would raise.
std::optional<Value> own_item(const Value& value, const Value& key) {
  if (const Dict* dict = value.dict()) {
    const Value* found = dict->find(key);
    if (found != nullptr) return *found;
    return std::nullopt;
  }
  const auto index = key.integer();
  if (!index) return std::nullopt;
  const List* list = value.list();
  if (list != nullptr && !list->indexed()) return std::nullopt;
  if (list == nullptr && value.text() == nullptr) return std::nullopt;
  const auto size = static_cast<int64_t>(length(value));
  const int64_t at = *index < 0 ? *index + size : *index;
  if (at < 0 || at >= size) return std::nullopt;
  const auto i = static_cast<size_t>(at);
  if (list != nullptr) return list->items[i];
  const std::vector<size_t> offsets = code_point_offsets(*value.text());
  return make_text(value.text()->substr(offsets[i], offsets[i + 1] - offsets[i]), value);
}

/// A part of a slice, or `otherwise` for none.
int64_t slice_part(const Value& part, int64_t otherwise) {
  if (part.is_none()) return otherwise;
  const auto number = part.integer();
  if (!number) throw EvalError("slice indices must be integers or None");
  return *number;
}

}  // namespace

Value get_attribute(const Value& value, const std::string& name) {
  expect_defined(value);
  if (changes_value(value, name)) {
    return undefined("access to attribute '" + name + "' of '" + type_name(value) +
                     "' object is unsafe: chat templates may not change lists and dicts");
  }
  if (auto found = own_attribute(value, name)) return *found;
  if (auto found = own_item(value, name)) return *found;
  return undefined("'" + shown_type(value) + "' has no attribute '" + name + "'");
}

Value get_item(const Value& value, const Value& key) {
  expect_defined(value);
  if (auto found = own_item(value, key)) return *found;
  if (const auto* name = key.text()) {
    if (changes_value(value, *name)) return get_attribute(value, *name);
    if (auto found = own_attribute(value, *name)) return *found;
    return undefined("'" + shown_type(value) + "' has no attribute '" + *name + "'");
  }
  return undefined(shown_type(value) + " has no element " +
                   (key.is_undefined() ? "Undefined" : to_repr(key)));
}

Value get_slice(const Value& value, const Value& start, const Value& stop, const Value& step) {
  expect_defined(value);
  const List* list = value.list();
  if (value.text() == nullptr && (list == nullptr || !list->indexed())) {
    throw EvalError("'" + type_name(value) + "' object cannot be sliced");
  }
  const auto size = static_cast<int64_t>(length(value));
  const int64_t by = slice_part(step, 1);
  if (by == 0) throw EvalError("slice step cannot be zero");
  const auto clamped = [&](int64_t at) {
    if (at < 0) at += size;
    return by > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
  };
  const int64_t from = start.is_none() ? (by > 0 ? 0 : size - 1) : clamped(slice_part(start, 0));
  const int64_t to = stop.is_none() ? (by > 0 ? size : -1) : clamped(slice_part(stop, 0));
  std::vector<size_t> chosen;
  for (int64_t at = from; by > 0 ? at < to : at > to; at += by) {
    chosen.push_back(static_cast<size_t>(at));
    if (by > size || by < -size) break;  // the next would be outside, and may overflow
  }
  if (list != nullptr) {
    std::vector<Value> items;
    for (const size_t i : chosen) items.push_back(list->items[i]);
    return make_list(std::move(items),
                     list->kind == List::Kind::kTuple ? list->kind : List::Kind::kList);
  }
  const std::vector<size_t> offsets = code_point_offsets(*value.text());
  std::string out;
  for (const size_t i : chosen) {
    out.append(*value.text(), offsets[i], offsets[i + 1] - offsets[i]);
  }
  return make_text(std::move(out), value);
}

}  // namespace verlcpp::jinja
