#include <algorithm>

#include "jinja/print.h"
#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

constexpr int kMaxDepth = 200;

void append_escape(std::string& out, uint32_t c) {
  if (c < 0x10000) {
    out += "\\u" + hex_text(c, 4);
    return;
  }
  const uint32_t rest = c - 0x10000;
  out += "\\u" + hex_text(0xD800 + (rest >> 10), 4) + "\\u" + hex_text(0xDC00 + (rest & 0x3FF), 4);
}

void append_string(std::string& out, const std::string& text, bool ensure_ascii) {
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const uint32_t c = next_code_point(text, at);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (c < 0x20 || (ensure_ascii && c > 0x7E)) {
          append_escape(out, c);
        } else {
          out.append(text, begin, at - begin);
        }
    }
  }
  out += '"';
}

std::string json_float(double value) {
  const std::string text = float_text(value);
  if (text == "nan") return "NaN";
  if (text == "inf") return "Infinity";
  return text == "-inf" ? "-Infinity" : text;
}

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  void value(const Value& value, int depth) {
    if (depth > kMaxDepth) throw EvalError("tojson of a value nested too deeply");
    expect_text_size(out.size());
    if (const auto* text = value.text()) return append_string(out, *text, style_.ensure_ascii);
    if (const List* list = value.list(); list != nullptr && serialisable(*list)) {
      return array(*list, depth);
    }
    if (const Dict* dict = value.dict()) return object(*dict, depth);
    const std::string plain = scalar(value);
    if (plain.empty()) {
      throw EvalError("Object of type " + type_name(value) + " is not JSON serializable");
    }
    out += plain;
  }

  std::string out;

 private:
  static bool serialisable(const List& list) {
    return list.kind == List::Kind::kList || list.kind == List::Kind::kTuple;
  }

  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return truthy(value) ? "true" : "false";
    if (const auto* i = value.get_if<int64_t>()) return std::to_string(*i);
    if (const auto* d = value.get_if<double>()) return json_float(*d);
    return "";
  }

  void new_line(int depth) {
    if (!style_.indent) return;
    out += '\n';
    for (int i = 0; i < depth; ++i) out += *style_.indent;
  }

  void array(const List& list, int depth) {
    out += '[';
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      new_line(depth + 1);
      value(list.items[i], depth + 1);
    }
    if (!list.items.empty()) new_line(depth);
    out += ']';
  }

  static std::string key_text(const Value& key) {
    if (const auto* text = key.text()) return *text;
    const std::string plain = scalar(key);
    if (!plain.empty()) return plain;
    throw EvalError("keys must be str, int, float, bool or None, not " + type_name(key));
  }

  void object(const Dict& dict, int depth) {
    std::vector<std::pair<Value, Value>> items = dict.items;
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
        return compare(a.first, b.first, "<") < 0;
      });
    }
    out += '{';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      new_line(depth + 1);
      append_string(out, key_text(items[i].first), style_.ensure_ascii);
      out += style_.key_separator;
      value(items[i].second, depth + 1);
    }
    if (!items.empty()) new_line(depth);
    out += '}';
  }

  const JsonStyle& style_;
};

}  // namespace

std::string to_json(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  writer.value(value, 0);
  return std::move(writer.out);
}

}  // namespace verlcpp::jinja
