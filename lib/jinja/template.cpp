#include "jinja/template.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "jinja/interpreter.h"
#include "jinja/parser.h"

namespace verlcpp::jinja {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 200;  // of JSON

Value from_json(const Json& json, int depth) {
  if (depth > kMaxDepth) throw EvalError("a variable is nested too deeply");
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<int64_t>();
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        throw EvalError("the number " + json.dump() + " of a variable exceeds 64 bits");
      }
      return json.get<int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) items.push_back(from_json(item, depth + 1));
      return make_list(std::move(items));
    }
    case Json::value_t::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [key, value] : json.items()) {
        dict->items.emplace_back(key, from_json(value, depth + 1));
      }
      return dict;
    }
    default:
      return None{};
  }
}

std::string at_line(const std::string& where, int line, const char* what) {
  return where + ", line " + std::to_string(line) + ": " + what;
}

}  // namespace

Template::Template(std::string_view source, std::string where) : where_(std::move(where)) {
  try {
    body_ = Parser(tokenize(source)).parse();
  } catch (const SyntaxError& error) {
    throw DataError(at_line(where_, error.line, error.what()));
  }
}

std::string Template::render(const Json& variables) const {
  ScopePtr scope = std::make_shared<Scope>(Scope{make_globals(), {}});
  Interpreter interpreter(scope);
  try {
    for (const auto& [name, value] : variables.items()) scope->set(name, from_json(value, 0));
    return interpreter.render(body_);
  } catch (const EvalError& error) {
    throw DataError(at_line(where_, interpreter.line(), error.what()));
  }
}

}  // namespace verlcpp::jinja
