#include "config/python_text.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <regex>

namespace verlcpp::config {

namespace {

/// Without the white space around it and the underscores in it, in small letters.
std::string digits_of(const std::string& text) {
  constexpr const char* kSpace = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return "";
  std::string word = text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return word;
}

std::string without_underscores(std::string text) {
  std::erase(text, '_');
  return text;
}

/// repr(text)
std::string quoted(const std::string& text) {
  const bool twice = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  const char quote = twice ? '"' : '\'';
  std::string result(1, quote);
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      result += std::string("\\") + c;
    } else if (c == '\n' || c == '\t' || c == '\r') {
      result += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
    } else if (code < 0x20 || code == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\x%02x", code);
      result += escape;
    } else {
      result += c;
    }
  }
  return result + quote;
}

std::string repr(const Node& node) {
  if (const auto* text = node.get_if<std::string>()) return quoted(*text);
  if (const auto* text = node.get_if<Interpolation>()) return quoted(text->text);
  std::string items;
  if (node.is_list()) {
    for (const Node& element : node.elements())
      items += (items.empty() ? "" : ", ") + repr(element);
    return "[" + items + "]";
  }
  if (node.is_map()) {
    for (const auto& [name, child] : node.items()) {
      items += (items.empty() ? "" : ", ") + quoted(name) + ": " + repr(child);
    }
    return "{" + items + "}";
  }
  return node.is_null() ? "None" : to_inline(node);
}

}  // namespace

std::string python_text(const Node& node) {
  const auto* text = node.get_if<std::string>();
  return text != nullptr ? *text : repr(node);
}

std::string key_name(const Scalar& key) { return python_text(Node(key)); }

std::string large_integer(std::string word) {
  std::erase_if(word, [](char c) { return c == '_' || c == '+'; });
  return word;
}

std::optional<int64_t> python_int(const std::string& text) {
  static const std::regex kInt("[-+]?[0-9]+(?:_[0-9]+)*");
  std::string word = digits_of(text);
  if (word.size() >= 256 || !std::regex_match(word, kInt)) return std::nullopt;
  word = without_underscores(word);
  if (word[0] == '+') word.erase(0, 1);
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<double> python_float(const std::string& text) {
  static const std::regex kFloat(
      "[-+]?(?:(?:[0-9]+(?:_[0-9]+)*\\.?(?:[0-9]+(?:_[0-9]+)*)?|\\.[0-9]+(?:_[0-9]+)*)"
      "(?:e[-+]?[0-9]+(?:_[0-9]+)*)?|inf|infinity|nan)");
  const std::string word = digits_of(text);
  if (word.size() >= 256 || !std::regex_match(word, kFloat)) return std::nullopt;
  return std::strtod(without_underscores(word).c_str(), nullptr);
}

}  // namespace verlcpp::config
