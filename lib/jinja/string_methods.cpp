// The methods of Python's str. Positions count code points.

#include <algorithm>
#include <map>

#include "jinja/operators.h"
#include "jinja/parameters.h"
#include "jinja/print.h"
#include "jinja/text_split.h"
#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

using Method = Value (*)(const std::string& text, Parameters& p);

std::string_view strip_characters(std::string_view text, const std::string& set, bool left,
                                  bool right) {
  const auto in_set = [&](std::string_view c) { return set.find(c) != std::string::npos; };
  const std::vector<size_t> offsets = code_point_offsets(text);
  size_t begin = 0, end = offsets.size() - 1;
  const auto character = [&](size_t i) {
    return text.substr(offsets[i], offsets[i + 1] - offsets[i]);
  };
  while (left && begin < end && in_set(character(begin))) ++begin;
  while (right && begin < end && in_set(character(end - 1))) --end;
  return text.substr(offsets[begin], offsets[end] - offsets[begin]);
}

template <bool left, bool right>
Value strip(const std::string& text, Parameters& p) {
  const Value set = p.take("chars", None{});
  if (set.is_none()) return std::string(strip_space(text, left, right));
  expect_defined(set);
  if (set.text() == nullptr) p.fail("takes None or a string, not " + type_name(set));
  return std::string(strip_characters(text, *set.text(), left, right));
}

template <bool from_right>
Value split(const std::string& text, Parameters& p) {
  const Value separator = p.take("sep", None{});
  const int64_t limit = p.take_integer("maxsplit", -1);
  std::vector<std::string> parts;
  if (separator.is_none()) {
    parts = split_space(text, limit, from_right);
  } else {
    expect_defined(separator);
    if (separator.text() == nullptr) p.fail("takes None or a string, not " + type_name(separator));
    if (separator.text()->empty()) p.fail("got an empty separator");
    parts = split_at(text, *separator.text(), limit, from_right);
  }
  return make_list({parts.begin(), parts.end()});
}

Value splitlines(const std::string& text, Parameters& p) {
  const bool keep = p.take_flag("keepends", false);
  const std::vector<std::string> lines = split_lines(text, keep);
  return make_list({lines.begin(), lines.end()});
}

/// The bytes of text[start:stop], and where they begin as a position.
struct Part {
  std::string_view bytes;
  size_t byte = 0;
  bool empty_range = false;  // start lies behind the end: not even "" is found there
};

Part part_of(const std::string& text, Parameters& p) {
  if (!p.has("start") && !p.has("end")) return {.bytes = text};
  const std::vector<size_t> offsets = code_point_offsets(text);
  const auto size = static_cast<int64_t>(offsets.size()) - 1;
  const auto position = [&](const char* name, int64_t otherwise) {
    const Value value = p.take(name, None{});
    if (value.is_none()) return otherwise;
    const auto at = value.integer();
    if (!at) p.fail("takes an integer as '" + std::string(name) + "'");
    return *at < 0 ? std::max<int64_t>(*at + size, 0) : *at;
  };
  const int64_t start = position("start", 0);
  const int64_t end = std::min(position("end", size), size);
  if (start > end) return {.bytes = {}, .byte = 0, .empty_range = true};
  const size_t first = offsets[static_cast<size_t>(start)];
  const size_t last = offsets[static_cast<size_t>(end)];
  return {.bytes = std::string_view(text).substr(first, last - first), .byte = first};
}

template <bool at_end>
Value starts_or_ends(const std::string& text, Parameters& p) {
  const Value wanted = p.take("prefix");
  const Part part = part_of(text, p);
  expect_defined(wanted);
  const auto holds = [&](const Value& value) {
    if (value.text() == nullptr) p.fail("takes a string or a tuple, not " + type_name(value));
    if (part.empty_range) return false;
    return at_end ? part.bytes.ends_with(*value.text()) : part.bytes.starts_with(*value.text());
  };
  const List* list = wanted.list();
  if (list == nullptr || list->kind != List::Kind::kTuple) return holds(wanted);
  return std::any_of(list->items.begin(), list->items.end(), holds);
}

template <bool last, bool required>
Value find(const std::string& text, Parameters& p) {
  const std::string wanted = p.take_text("sub");
  const Part part = part_of(text, p);
  const size_t at = last ? part.bytes.rfind(wanted) : part.bytes.find(wanted);
  if (at == std::string_view::npos || part.empty_range) {
    if (required) throw EvalError("substring not found");
    return -1;
  }
  return static_cast<int64_t>(code_point_count(std::string_view(text).substr(0, part.byte + at)));
}

Value count(const std::string& text, Parameters& p) {
  const std::string wanted = p.take_text("sub");
  const Part part = part_of(text, p);
  if (part.empty_range) return 0;
  if (wanted.empty()) return static_cast<int64_t>(code_point_count(part.bytes)) + 1;
  int64_t n = 0;
  for (size_t at = part.bytes.find(wanted); at != std::string_view::npos;
       at = part.bytes.find(wanted, at + wanted.size())) {
    ++n;
  }
  return n;
}

Value replace(const std::string& text, Parameters& p) {
  const std::string old = p.take_text("old"), with = p.take_text("new");
  return replaced(text, old, with, p.take_integer("count", -1));
}

Value join(const std::string& text, Parameters& p) {
  std::string out;
  size_t i = 0;
  for (const Value& item : iterate(p.take("iterable"))) {
    if (item.text() == nullptr) {
      throw EvalError("sequence item " + std::to_string(i) + ": expected str instance, " +
                      type_name(item) + " found");
    }
    if (i++ > 0) out += text;
    out += *item.text();
    expect_text_size(out.size());
  }
  return out;
}

template <bool suffix>
Value remove_affix(const std::string& text, Parameters& p) {
  const std::string affix = p.take_text("prefix");
  if (suffix && text.ends_with(affix)) return text.substr(0, text.size() - affix.size());
  if (!suffix && text.starts_with(affix)) return text.substr(affix.size());
  return text;
}

template <bool last>
Value partition(const std::string& text, Parameters& p) {
  const std::string separator = p.take_text("sep");
  if (separator.empty()) p.fail("got an empty separator");
  const size_t at = last ? text.rfind(separator) : text.find(separator);
  if (at != std::string::npos) {
    return make_tuple({text.substr(0, at), separator, text.substr(at + separator.size())});
  }
  return last ? make_tuple({"", "", text}) : make_tuple({text, "", ""});
}

/// `side`: -1 text to the left, 0 in the middle, 1 to the right.
template <int side>
Value justify(const std::string& text, Parameters& p) {
  const int64_t width = p.take_integer("width", 0);
  const std::string fill = p.take_text("fillchar", " ");
  if (code_point_count(fill) != 1) p.fail("takes one character to fill with");
  return padded(text, width, fill, side);
}

Value zfill(const std::string& text, Parameters& p) {
  const int64_t width = p.take_integer("width", 0);
  const bool sign = text.starts_with("-") || text.starts_with("+");
  const std::string digits = text.substr(sign ? 1 : 0);
  return text.substr(0, sign ? 1 : 0) + padded(digits, width - (sign ? 1 : 0), "0", 1);
}

Value capitalize(const std::string& text, Parameters&) { return capitalized(text); }

Value title(const std::string& text, Parameters&) {
  std::string out;
  bool inside = false;  // a word
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const uint32_t c = next_code_point(text, at);
    out += inside ? to_lower(text, begin, at) : to_title(c);
    inside = is_cased(c);
  }
  return out;
}

Value swapcase(const std::string& text, Parameters&) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const uint32_t c = next_code_point(text, at);
    const std::string_view one = std::string_view(text).substr(begin, at - begin);
    out += is_upper(c) ? to_lower(text, begin, at) : is_lower(c) ? to_upper(one) : std::string(one);
  }
  return out;
}

/// Whether there is a character and all fulfil `holds`, which knows ASCII alone.
template <class Holds>
Value all_characters(const std::string& text, Parameters& p, Holds holds) {
  bool all = !text.empty(), ascii = true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) {
      ascii = false;
    } else if (!holds(byte)) {
      all = false;
    }
  }
  if (all && !ascii) p.fail("is supported for ASCII text only");
  return all;
}

bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }
bool is_letter(unsigned char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

Value isdigit(const std::string& text, Parameters& p) { return all_characters(text, p, is_digit); }
Value isalpha(const std::string& text, Parameters& p) { return all_characters(text, p, is_letter); }
Value isalnum(const std::string& text, Parameters& p) {
  return all_characters(text, p, [](unsigned char c) { return is_digit(c) || is_letter(c); });
}

Value isspace(const std::string& text, Parameters&) {
  return !text.empty() && strip_space(text, true, false).empty();
}

template <bool upper>
Value iscase(const std::string& text, Parameters&) {
  return has_case(text, upper);
}

Value upper(const std::string& text, Parameters&) { return to_upper(text); }
Value lower(const std::string& text, Parameters&) { return to_lower(text); }

/// What a method of escaped text puts into it.
void escape_arguments(const std::string& name, Args& args) {
  if (name == "replace" && args.positional.size() > 1 && args.positional[1].text() != nullptr) {
    args.positional[1] = escaped_part(args.positional[1]);
  }
  if (name != "join" || args.positional.empty()) return;
  std::vector<Value> items = iterate(args.positional[0]);
  for (Value& item : items) item = item.text() != nullptr ? escaped_part(item) : to_text(item);
  args.positional[0] = make_list(std::move(items));
}

/// A string, or strings in a list or tuple, as escaped text.
Value marked(const Value& value) {
  if (value.text() != nullptr) return Markup{*value.text()};
  const List* list = value.list();
  if (list == nullptr) return value;
  std::vector<Value> items;
  for (const Value& item : list->items) items.push_back(marked(item));
  return make_list(std::move(items), list->kind);
}

const std::map<std::string, Method>& methods() {
  static const std::map<std::string, Method> kMethods = {
      {"capitalize", capitalize},
      {"casefold", lower},
      {"center", justify<0>},
      {"count", count},
      {"endswith", starts_or_ends<true>},
      {"find", find<false, false>},
      {"index", find<false, true>},
      {"isalnum", isalnum},
      {"isalpha", isalpha},
      {"isdecimal", isdigit},
      {"isdigit", isdigit},
      {"islower", iscase<false>},
      {"isnumeric", isdigit},
      {"isspace", isspace},
      {"isupper", iscase<true>},
      {"join", join},
      {"ljust", justify<-1>},
      {"lower", lower},
      {"lstrip", strip<true, false>},
      {"partition", partition<false>},
      {"removeprefix", remove_affix<false>},
      {"removesuffix", remove_affix<true>},
      {"replace", replace},
      {"rfind", find<true, false>},
      {"rindex", find<true, true>},
      {"rjust", justify<1>},
      {"rpartition", partition<true>},
      {"rsplit", split<true>},
      {"rstrip", strip<false, true>},
      {"split", split<false>},
      {"splitlines", splitlines},
      {"startswith", starts_or_ends<false>},
      {"strip", strip<true, true>},
      {"swapcase", swapcase},
      {"title", title},
      {"upper", upper},
      {"zfill", zfill},
  };
  return kMethods;
}

}  // namespace

std::optional<Value> string_method(const Value& text, const std::string& name) {
  if (name == "format") {
    return make_callable(name, [text](Args args) {
      return make_text(brace_format(*text.text(), args, text.is_markup()), text);
    });
  }
  const auto found = methods().find(name);
  if (found == methods().end()) return std::nullopt;
  return make_callable(name, [text, name, method = found->second](Args args) {
    if (text.is_markup()) escape_arguments(name, args);
    Parameters parameters(name, std::move(args));
    Value out = method(*text.text(), parameters);
    parameters.finish();
    return text.is_markup() ? marked(out) : out;
  });
}

}  // namespace verlcpp::jinja
