#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// The values of templates, with Python's meaning.

namespace verlcpp::jinja {

/// What a template does wrong while it runs; Template::render adds the line.
class EvalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Longest text and longest list that a template may build, so that a mistake ends in a message.
inline constexpr size_t kMaxText = size_t{64} << 20;
inline constexpr size_t kMaxItems = 1'000'000;
/// And the most keys of a dict that it builds.
inline constexpr size_t kMaxKeys = 10'000;

/// A missing variable or attribute: prints as nothing, is false and empty; anything else is an
/// error with the text `why`.
struct Undefined {
  std::string why;
};
struct None {};
/// Text that counts as escaped for HTML (|safe, |escape): what is put together with it gets
/// escaped.
struct Markup {
  std::string text;
};
struct List;
struct Dict;
struct Namespace;
struct Callable;
class Object;

class Value {
 public:
  using Data =
      std::variant<Undefined, None, bool, int64_t, double, std::string, Markup,
                   std::shared_ptr<List>, std::shared_ptr<Dict>, std::shared_ptr<Namespace>,
                   std::shared_ptr<Callable>, std::shared_ptr<Object>>;
  Value() : data_(None{}) {}
  template <class T>
  requires std::constructible_from<Data, T> Value(T value) : data_(std::move(value)) {}
  Value(const char* text) : data_(std::string(text)) {}
  Value(int number) : data_(static_cast<int64_t>(number)) {}

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&data_);
  }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  /// Of a string, escaped or not; null for other kinds.
  const std::string* text() const {
    const auto* markup = get_if<Markup>();
    return markup != nullptr ? &markup->text : get_if<std::string>();
  }
  bool is_markup() const { return is<Markup>(); }
  /// Null for other kinds.
  List* list() const { return pointer<List>(); }
  Dict* dict() const { return pointer<Dict>(); }
  Callable* callable() const { return pointer<Callable>(); }
  Object* object() const { return pointer<Object>(); }
  Namespace* name_space() const { return pointer<Namespace>(); }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  bool is_bool() const { return is<bool>(); }
  /// An int or a bool, which counts as 0 or 1.
  std::optional<int64_t> integer() const;
  /// The same, or a float.
  std::optional<double> number() const;
  const Data& data() const { return data_; }

 private:
  template <class T>
  T* pointer() const {
    const auto* shared = get_if<std::shared_ptr<T>>();
    return shared == nullptr ? nullptr : shared->get();
  }
  Data data_;
};

/// list, tuple, range, a dict's keys(), values() and items(), and what filters such as map yield,
/// which can be gone through once.
struct List {
  enum class Kind { kList, kTuple, kRange, kView, kGenerator };
  Kind kind = Kind::kList;
  std::vector<Value> items;
  std::string text = {};  // kRange: how it prints; kView and kGenerator: the name of its type
  size_t taken = 0;       // kGenerator: how many have been handed out
  std::optional<EvalError> failure = std::nullopt;  // kGenerator: what comes after its items

  bool sized() const { return kind != Kind::kGenerator; }
  bool indexed() const { return kind != Kind::kGenerator && kind != Kind::kView; }
};

/// In insertion order.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  const Value* find(const Value& key) const;
  /// EvalError for a key that Python cannot hash.
  void set(const Value& key, Value value);
};

/// The one thing that templates may change.
struct Namespace {
  Dict attributes;
};

/// The arguments of a call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Callable {
  std::string name;
  std::function<Value(Args)> call;
};

/// What has attributes of its own: `loop`, a cycler.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::optional<Value> attribute(const std::string& name) = 0;
  virtual std::string text() const = 0;
};

Value make_list(std::vector<Value> items, List::Kind kind = List::Kind::kList,
                std::string text = {});
Value make_tuple(std::vector<Value> items);
Value make_generator(std::vector<Value> items, std::string type = "generator");
Value make_callable(std::string name, std::function<Value(Args)> call);
/// A string, escaped if `like` is.
inline Value make_text(std::string text, const Value& like) {
  return like.is_markup() ? Value(Markup{std::move(text)}) : Value(std::move(text));
}
/// `text` with & < > ' and " escaped.
std::string escape_html(const std::string& text);
/// The text of a string as a part of an escaped one: escaped unless it is already.
std::string escaped_part(const Value& value);
inline Value undefined(std::string why) { return Undefined{std::move(why)}; }

/// Python's type(value).__name__.
std::string type_name(const Value& value);
bool truthy(const Value& value);
/// Python's ==.
bool equal(const Value& a, const Value& b);
/// Negative, 0 or positive as a < b, a == b, a > b; EvalError, which names `operation`, for values
/// without an order.
int compare(const Value& a, const Value& b, const char* operation);
/// Python's `item in container`.
bool contains(const Value& container, const Value& item);
/// EvalError for a list, dict or anything else that cannot be a key.
void expect_hashable(const Value& key);
/// What a for loop sees; EvalError for what cannot be iterated. Uses a generator up.
std::vector<Value> iterate(const Value& value);
/// len(); EvalError for what has none.
size_t length(const Value& value);
/// EvalError if the value is undefined: for operations that do not take it.
void expect_defined(const Value& value);
void expect_text_size(size_t bytes);
void expect_item_count(size_t count);

}  // namespace verlcpp::jinja
