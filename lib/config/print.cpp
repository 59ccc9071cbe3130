#include <cstdio>
#include <regex>

#include "base/error.h"
#include "config/python_text.h"
#include "config/scalar.h"
#include "config/tree.h"

namespace verlcpp::config {

namespace {

bool is_string(const Scalar& scalar, const std::string& text) {
  const auto* held = std::get_if<std::string>(&scalar);
  return held != nullptr && *held == text;
}

/// Hydra's quoted string: a backslash is special only before the quote and at the end.
std::string quote_inline(const std::string& text) {
  std::string quoted = "'";
  size_t backslashes = 0;
  for (const char c : text) {
    if (c == '\'') quoted.append(backslashes + 1, '\\');
    backslashes = c == '\\' ? backslashes + 1 : 0;
    quoted += c;
  }
  quoted.append(backslashes, '\\');
  return quoted + "'";
}

/// `nested`: inside a list or map, where plain words need no quotes.
std::string inline_text(const Node& node, bool nested) {
  if (node.is_list()) {
    std::string text;
    for (const Node& element : node.elements()) {
      text += (text.empty() ? "" : ", ") + inline_text(element, true);
    }
    return "[" + text + "]";
  }
  if (node.is_map()) {
    static const std::regex kPlainKey("[A-Za-z0-9_][A-Za-z0-9_.-]*");
    std::string text;
    for (const auto& [name, child] : node.items()) {
      const bool plain = name.size() < 200 && std::regex_match(name, kPlainKey) &&
                         key_name(scalar_from_command_line(name)) == name;
      text += (text.empty() ? "" : ", ") + (plain ? name : quote_inline(name)) + ": " +
              inline_text(child, true);
    }
    return "{" + text + "}";
  }
  if (const auto* value = node.get_if<bool>()) return *value ? "True" : "False";
  if (const auto* value = node.get_if<int64_t>()) return std::to_string(*value);
  if (const auto* value = node.get_if<double>()) return format_float(*value);
  if (const auto* value = node.get_if<Interpolation>()) {
    static const std::regex kSimple("\\$\\{[A-Za-z0-9_.:, -]*\\}");
    const bool simple = value->text.size() < 200 && std::regex_match(value->text, kSimple);
    return simple ? value->text : quote_inline(value->text);
  }
  if (const auto* value = node.get_if<std::string>()) {
    static const std::regex kPlain("[A-Za-z0-9_./~+%@-]+");
    const bool plain = nested && value->size() < 200 && std::regex_match(*value, kPlain) &&
                       is_string(scalar_from_command_line(*value), *value);
    return plain ? *value : quote_inline(escape_interpolation(*value));
  }
  return "null";
}

std::string quote_yaml(const std::string& text) {
  bool control = false;
  std::string single = "'", twice = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    single += c == '\'' ? "''" : std::string(1, c);
    if (code < 0x20 || code == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\x%02x", code);
      twice += escape;
      control = true;
    } else {
      twice += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
  }
  return control ? twice + "\"" : single + "'";
}

bool is_plain_yaml(const std::string& text) {
  static const std::regex kPlain("[A-Za-z0-9_/~][A-Za-z0-9_./~+%@-]*");
  return text.size() < 200 && std::regex_match(text, kPlain) &&
         is_string(scalar_from_yaml(text), text);
}

std::string yaml_interpolation(const std::string& text) {
  static const std::regex kPlain("[A-Za-z0-9_/$][A-Za-z0-9_./:,${}\\[\\] -]*\\}");
  const bool plain =
      text.size() < 200 && text.find(": ") == std::string::npos && std::regex_match(text, kPlain);
  return plain ? text : quote_yaml(text);
}

std::string yaml_scalar(const Node& node) {
  if (const auto* value = node.get_if<bool>()) return *value ? "true" : "false";
  if (const auto* value = node.get_if<Interpolation>()) return yaml_interpolation(value->text);
  if (const auto* value = node.get_if<std::string>()) {
    return is_plain_yaml(*value) ? *value : quote_yaml(escape_interpolation(*value));
  }
  if (const auto* value = node.get_if<double>()) {
    const std::string text = format_float(*value);
    if (text == "nan" || text == "inf") return "." + text;
    return text == "-inf" ? "-.inf" : text;
  }
  return inline_text(node, true);  // null, integers, empty lists and maps
}

void append_yaml(const Node& node, size_t indent, std::string& out) {
  const auto append_child = [&](const std::string& lead, const Node& child) {
    const bool empty_container =
        (child.is_map() && child.items().empty()) || (child.is_list() && child.elements().empty());
    out += std::string(indent, ' ') + lead;
    if (child.is_scalar() || empty_container) {
      out += " " + yaml_scalar(child) + "\n";
    } else {
      out += "\n";
      append_yaml(child, indent + 2, out);
    }
  };
  if (node.is_map()) {
    for (const auto& [name, child] : node.items()) {
      append_child((is_plain_yaml(name) ? name : quote_yaml(name)) + ":", child);
    }
  } else {
    for (const Node& element : node.elements()) append_child("-", element);
  }
}

}  // namespace

std::string to_inline(const Node& node) { return inline_text(node, false); }

std::string to_yaml(const Node& node) {
  if (node.is_scalar()) return yaml_scalar(node) + "\n";
  if (node.is_map() && node.items().empty()) return "{}\n";
  if (node.is_list() && node.elements().empty()) return "[]\n";
  std::string out;
  append_yaml(node, 0, out);
  return out;
}

}  // namespace verlcpp::config
