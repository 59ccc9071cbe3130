#include "jinja/value.h"

#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

bool same_items(const List& a, const List& b) {
  if (a.kind != b.kind || a.items.size() != b.items.size() || !a.indexed()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(a.items[i], b.items[i])) return false;
  }
  return true;
}

bool same_entries(const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other)) return false;
  }
  return true;
}

template <class T>
int order(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

bool take_until(List& generator, const Value& item) {
  while (generator.taken < generator.items.size()) {
    if (equal(generator.items[generator.taken++], item)) return true;
  }
  if (generator.failure) throw *generator.failure;
  return false;
}

}  // namespace

std::optional<int64_t> Value::integer() const {
  if (const auto* i = get_if<int64_t>()) return *i;
  if (const auto* b = get_if<bool>()) return *b ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const auto* d = get_if<double>()) return *d;
  if (const auto i = integer()) return static_cast<double>(*i);
  return std::nullopt;
}

const Value* Dict::find(const Value& key) const {
  for (const auto& [known, value] : items) {
    if (equal(known, key)) return &value;
  }
  return nullptr;
}

void Dict::set(const Value& key, Value value) {
  expect_hashable(key);
  for (auto& [known, old] : items) {
    if (!equal(known, key)) continue;
    old = std::move(value);
    return;
  }
  if (items.size() >= kMaxKeys) {
    throw EvalError("builds a dict of more than " + std::to_string(kMaxKeys) + " keys");
  }
  items.emplace_back(key, std::move(value));
}

Value make_list(std::vector<Value> items, List::Kind kind, std::string text) {
  expect_item_count(items.size());
  return std::make_shared<List>(
      List{.kind = kind, .items = std::move(items), .text = std::move(text)});
}

Value make_tuple(std::vector<Value> items) {
  return make_list(std::move(items), List::Kind::kTuple);
}

Value make_generator(std::vector<Value> items, std::string type) {
  return make_list(std::move(items), List::Kind::kGenerator, std::move(type));
}

Value make_callable(std::string name, std::function<Value(Args)> call) {
  return std::make_shared<Callable>(Callable{std::move(name), std::move(call)});
}

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string escaped_part(const Value& value) {
  return value.is_markup() ? *value.text() : escape_html(*value.text());
}

std::string type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.is<int64_t>()) return "int";
  if (value.is<double>()) return "float";
  if (value.text() != nullptr) return "str";
  if (value.dict() != nullptr) return "dict";
  if (value.name_space() != nullptr) return "Namespace";
  if (value.callable() != nullptr) return "function";
  if (const List* list = value.list()) {
    if (list->kind == List::Kind::kTuple) return "tuple";
    if (list->kind == List::Kind::kRange) return "range";
    return list->kind == List::Kind::kList ? "list" : list->text;
  }
  return "object";
}

bool truthy(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const auto number = value.number()) return *number != 0;
  if (const auto* text = value.text()) return !text->empty();
  if (const List* list = value.list()) return !list->sized() || !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->items.empty();
  return true;
}

bool equal(const Value& a, const Value& b) {
  if (a.integer() && b.integer()) return *a.integer() == *b.integer();
  if (a.number() && b.number()) return *a.number() == *b.number();
  if (a.text() != nullptr && b.text() != nullptr) return *a.text() == *b.text();
  if (a.data().index() != b.data().index()) return false;
  if (a.list() != nullptr) return a.list() == b.list() || same_items(*a.list(), *b.list());
  if (a.dict() != nullptr) return a.dict() == b.dict() || same_entries(*a.dict(), *b.dict());
  if (a.callable() != nullptr) return a.callable() == b.callable();
  if (a.object() != nullptr) return a.object() == b.object();
  if (a.name_space() != nullptr) return a.name_space() == b.name_space();
  return true;  // undefined, none
}

int compare(const Value& a, const Value& b, const char* operation) {
  expect_defined(a);
  expect_defined(b);
  if (a.integer() && b.integer()) return order(*a.integer(), *b.integer());
  if (a.number() && b.number()) return order(*a.number(), *b.number());
  if (a.text() != nullptr && b.text() != nullptr) return order(*a.text(), *b.text());
  const List *x = a.list(), *y = b.list();
  if (x == nullptr || y == nullptr || x->kind != y->kind || !x->indexed()) {
    throw EvalError("'" + std::string(operation) + "' not supported between instances of '" +
                    type_name(a) + "' and '" + type_name(b) + "'");
  }
  for (size_t i = 0; i < x->items.size() && i < y->items.size(); ++i) {
    if (!equal(x->items[i], y->items[i])) return compare(x->items[i], y->items[i], operation);
  }
  return order(x->items.size(), y->items.size());
}

bool contains(const Value& container, const Value& item) {
  if (const auto* text = container.text()) {
    if (item.text() == nullptr) {
      throw EvalError("'in <string>' requires string as left operand, not " + type_name(item));
    }
    return text->find(*item.text()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    expect_hashable(item);
    return dict->find(item) != nullptr;
  }
  if (List* list = container.list()) {
    if (!list->sized()) return take_until(*list, item);
    for (const Value& element : list->items) {
      if (equal(element, item)) return true;
    }
    return false;
  }
  if (container.is_undefined()) return false;
  throw EvalError("argument of type '" + type_name(container) + "' is not iterable");
}

void expect_hashable(const Value& key) {
  if (key.dict() != nullptr) throw EvalError("unhashable type: 'dict'");
  const List* list = key.list();
  if (list == nullptr) return;
  if (list->kind == List::Kind::kList) throw EvalError("unhashable type: 'list'");
  if (list->kind != List::Kind::kTuple) return;
  for (const Value& item : list->items) expect_hashable(item);
}

std::vector<Value> iterate(const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (const auto* text = value.text()) {
    const std::vector<size_t> offsets = code_point_offsets(*text);
    expect_item_count(offsets.size());
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      items.emplace_back(text->substr(offsets[i], offsets[i + 1] - offsets[i]));
    }
    return items;
  }
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, unused] : dict->items) items.push_back(key);
    return items;
  }
  if (List* list = value.list()) {
    if (list->sized()) return list->items;
    items.assign(list->items.begin() + static_cast<std::ptrdiff_t>(list->taken), list->items.end());
    list->taken = list->items.size();
    if (list->failure) throw *list->failure;
    return items;
  }
  throw EvalError("'" + type_name(value) + "' object is not iterable");
}

size_t length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const auto* text = value.text()) return code_point_count(*text);
  if (const Dict* dict = value.dict()) return dict->items.size();
  const List* list = value.list();
  if (list != nullptr && list->sized()) return list->items.size();
  throw EvalError("object of type '" + type_name(value) + "' has no len()");
}

void expect_defined(const Value& value) {
  if (const auto* missing = value.get_if<Undefined>()) throw EvalError(missing->why);
}

void expect_text_size(size_t bytes) {
  if (bytes > kMaxText) {
    throw EvalError("builds a text of more than " + std::to_string(kMaxText) + " bytes");
  }
}

void expect_item_count(size_t count) {
  if (count > kMaxItems) {
    throw EvalError("builds a list of more than " + std::to_string(kMaxItems) + " items");
  }
}

}  // namespace verlcpp::jinja
