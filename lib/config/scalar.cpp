#include "config/scalar.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <regex>
#include <sstream>

#include "config/value_lexer.h"

namespace verlcpp::config {

namespace {

std::string lower(const std::string& text) {
  std::string result = text;
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string without_underscores(const std::string& text) {
  std::string result = text;
  std::erase(result, '_');
  return result;
}

bool digits_ahead(const std::string& word) {
  return word.size() < 256 && std::any_of(word.begin(), word.end(),
                                          [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Digits of a base, maybe with a sign; nothing when the number does not fit in 64 bits.
std::optional<int64_t> to_integer(std::string digits, int base) {
  if (digits.starts_with('+')) digits.erase(0, 1);
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

double to_float(const std::string& word) {
  return std::strtod(without_underscores(word).c_str(), nullptr);
}

double infinity(bool negative) {
  const double value = std::numeric_limits<double>::infinity();
  return negative ? -value : value;
}

/// YAML 1.1: 0b and 0x, a leading 0 for octal, and base 60 with colons.
std::optional<int64_t> integer_from_yaml(const std::string& word) {
  std::string digits = without_underscores(word);
  const std::string sign = digits[0] == '-' ? "-" : "";
  if (digits[0] == '-' || digits[0] == '+') digits.erase(0, 1);
  if (digits.starts_with("0x")) return to_integer(sign + digits.substr(2), 16);
  if (digits.starts_with("0b")) return to_integer(sign + digits.substr(2), 2);
  if (digits.starts_with("0")) return to_integer(sign + digits, 8);
  if (digits.find(':') == std::string::npos) return to_integer(sign + digits, 10);
  int64_t total = 0;
  std::istringstream parts(digits);
  for (std::string part; std::getline(parts, part, ':');) {
    const auto value = to_integer(part, 10);
    if (!value || __builtin_mul_overflow(total, int64_t{60}, &total) ||
        __builtin_add_overflow(total, *value, &total)) {
      return std::nullopt;
    }
  }
  return sign.empty() ? total : -total;
}

double float_from_yaml(const std::string& word) {
  if (word.find(':') == std::string::npos) return to_float(word);
  const bool sign = word[0] == '-' || word[0] == '+';
  double total = 0;
  std::istringstream parts(word.substr(sign ? 1 : 0));
  for (std::string part; std::getline(parts, part, ':');) total = total * 60 + to_float(part);
  return word[0] == '-' ? -total : total;
}

}  // namespace

Scalar scalar_from_yaml(const std::string& word) {
  static const std::regex kInt(
      "[-+]?(?:0|[1-9][0-9_]*|0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|[1-9][0-9_]*(?::[0-5]?[0-9])+)");
  // YAML's own rules and OmegaConf's. Neither has a sign before `.5`, nor `.5e3` without one in
  // the exponent.
  static const std::regex kFloat(
      "[-+]?[0-9][0-9_]*\\.[0-9_]*(?:[eE][-+][0-9]+)?"
      "|[-+]?[0-9]+(?:_[0-9]+)*\\.[0-9_]*(?:[eE][-+]?[0-9]+)?"
      "|[-+]?[0-9]+(?:_[0-9]+)*[eE][-+]?[0-9]+"
      "|\\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
      "|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\\.[0-9_]*");
  if (word.empty() || word == "~" || word == "null" || word == "Null" || word == "NULL") return {};
  for (const std::string_view truth : {"true", "yes", "on", "false", "no", "off"}) {
    if (lower(word) != truth) continue;
    const std::string capital =
        std::string(1, static_cast<char>(std::toupper(truth[0]))) + std::string(truth.substr(1));
    std::string upper(truth);
    for (char& c : upper) c = static_cast<char>(std::toupper(c));
    if (word != truth && word != capital && word != upper) break;
    return truth == "true" || truth == "yes" || truth == "on";
  }
  if (digits_ahead(word)) {
    if (std::regex_match(word, kFloat)) return float_from_yaml(word);
    if (std::regex_match(word, kInt)) {
      if (const auto value = integer_from_yaml(word)) return *value;
    }
  }
  static const std::regex kInf("[-+]?\\.(?:inf|Inf|INF)");
  if (word.size() <= 5 && std::regex_match(word, kInf)) return infinity(word[0] == '-');
  if (word == ".nan" || word == ".NaN" || word == ".NAN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return string_or_interpolation(word);
}

Scalar scalar_from_command_line(const std::string& word) {
  const std::string lowered = word.size() <= 5 ? lower(word) : "";
  if (lowered == "null") return {};
  if (lowered == "true" || lowered == "false") return lowered == "true";
  bool is_integer = false;
  if (!word.empty() && number_length(word, 0, is_integer) == word.size()) {
    if (!is_integer) return to_float(word);
    if (const auto value = to_integer(without_underscores(word), 10)) return *value;
  }
  return string_or_interpolation(word);
}

Scalar string_or_interpolation(std::string text) {
  std::string plain;
  size_t backslashes = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "${") == 0) {
      // Backslashes before `${` count in pairs; an odd one escapes it.
      if (backslashes % 2 == 0) return Interpolation{std::move(text), false};
      plain.resize(plain.size() - (backslashes + 1) / 2);
    }
    backslashes = text[i] == '\\' ? backslashes + 1 : 0;
    plain += text[i];
  }
  return plain;
}

std::string escape_interpolation(const std::string& text) {
  std::string escaped;
  size_t backslashes = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "${") == 0) escaped.append(backslashes + 1, '\\');
    backslashes = text[i] == '\\' ? backslashes + 1 : 0;
    escaped += text[i];
  }
  return escaped;
}

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[400];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string scientific(buffer, end.ptr);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  if (exponent < -4 || exponent >= 16) return scientific;
  end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  const std::string fixed(buffer, end.ptr);
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

}  // namespace verlcpp::config
