#include "jinja/print.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

constexpr int kMaxDepth = 200;  // of values inside values, Python's own limit being near 1000

void append_repr(std::string& out, const Value& value, int depth);

/// Python quotes with ' unless the text has one and no ".
void append_quoted(std::string& out, const std::string& text) {
  const bool single = text.find('\'') == std::string::npos || text.find('"') != std::string::npos;
  const char quote = single ? '\'' : '"';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const uint32_t c = next_code_point(text, at);
    if (c == static_cast<uint32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out.append(text, begin, at - begin);
    } else if (c < 0x100) {
      out += "\\x" + hex_text(c, 2);
    } else {
      out += c < 0x10000 ? "\\u" + hex_text(c, 4) : "\\U" + hex_text(c, 8);
    }
  }
  out += quote;
}

void append_items(std::string& out, const std::vector<Value>& items, int depth) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, items[i], depth + 1);
  }
}

void append_list(std::string& out, const List& list, int depth) {
  switch (list.kind) {
    case List::Kind::kRange:
      out += list.text;
      return;
    case List::Kind::kGenerator:
      throw EvalError("prints a " + list.text +
                      " object; put |list or |join behind the filter that yields it");
    case List::Kind::kTuple:
      out += '(';
      append_items(out, list.items, depth);
      out += list.items.size() == 1 ? ",)" : ")";
      return;
    case List::Kind::kView:
      out += list.text + "([";
      append_items(out, list.items, depth);
      out += "])";
      return;
    case List::Kind::kList:
      out += '[';
      append_items(out, list.items, depth);
      out += ']';
  }
}

void append_dict(std::string& out, const Dict& dict, int depth) {
  out += '{';
  for (size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, dict.items[i].first, depth + 1);
    out += ": ";
    append_repr(out, dict.items[i].second, depth + 1);
  }
  out += '}';
}

void append_repr(std::string& out, const Value& value, int depth) {
  if (depth > kMaxDepth) throw EvalError("prints a value nested too deeply");
  expect_text_size(out.size());
  if (const auto* text = value.text()) {
    out += value.is_markup() ? "Markup(" : "";
    append_quoted(out, *text);
    out += value.is_markup() ? ")" : "";
  } else if (const List* list = value.list()) {
    append_list(out, *list, depth);
  } else if (const Dict* dict = value.dict()) {
    append_dict(out, *dict, depth);
  } else if (value.is_undefined()) {
    out += "Undefined";
  } else if (value.is_none()) {
    out += "None";
  } else if (value.is_bool()) {
    out += truthy(value) ? "True" : "False";
  } else if (const auto* i = value.get_if<int64_t>()) {
    out += std::to_string(*i);
  } else if (const auto* d = value.get_if<double>()) {
    out += float_text(*d);
  } else if (Object* object = value.object()) {
    out += object->text();
  } else if (const Namespace* names = value.name_space()) {
    out += "<Namespace ";
    append_dict(out, names->attributes, depth);
    out += '>';
  } else {
    throw EvalError("prints the function '" + value.callable()->name + "'; call it with ()");
  }
}

}  // namespace

std::string hex_text(uint32_t number, int digits) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "%0*x", digits, number);
  return buffer;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // The shortest digits as d.ddde+XX, laid out by Python's rule.
  std::string digits;
  for (int precision = 0; precision <= 16; ++precision) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%.*e", precision, value);
    digits = buffer;
    if (std::strtod(digits.c_str(), nullptr) == value) break;
  }
  const size_t e = digits.find('e');
  const int exponent = std::stoi(digits.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return digits;
  const bool negative = digits[0] == '-';
  std::string plain;
  for (const char c : digits.substr(0, e)) {
    if (c >= '0' && c <= '9') plain += c;
  }
  if (exponent < 0) {
    plain = "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + plain;
  } else {
    const size_t whole = static_cast<size_t>(exponent) + 1;
    if (plain.size() <= whole) plain += std::string(whole - plain.size(), '0') + "0";
    plain.insert(whole, ".");
  }
  return (negative ? "-" : "") + plain;
}

std::string to_repr(const Value& value) {
  std::string out;
  append_repr(out, value, 0);
  return out;
}

std::string to_text(const Value& value) {
  if (const auto* text = value.text()) return *text;
  if (value.is_undefined()) return "";
  return to_repr(value);
}

}  // namespace verlcpp::jinja
