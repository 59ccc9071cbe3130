#include "config/sweep_syntax.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>

#include "config/value_parser.h"

namespace verlcpp::config {

namespace {

constexpr std::array<std::string_view, 7> kFunctions = {"choice", "range",   "glob", "interval",
                                                        "sort",   "shuffle", "tag"};
constexpr std::array<std::string_view, 4> kCasts = {"int", "float", "bool", "str"};

bool is_space(char c) { return c == ' ' || c == '\t'; }

/// One past the closing quote.
size_t end_of_quoted(std::string_view text, size_t start) {
  size_t backslashes = 0;
  for (size_t i = start + 1; i < text.size(); ++i) {
    if (text[i] == text[start] && backslashes % 2 == 0) return i + 1;
    backslashes = text[i] == '\\' ? backslashes + 1 : 0;
  }
  throw GrammarError{"this quote is never closed", start};
}

char closing(char open) { return open == '(' ? ')' : open == '[' ? ']' : '}'; }

/// Calls `at_comma(i)` for every comma of text[begin..] that is in no bracket, quote or
/// interpolation; returns where the first closing bracket without an opening one is, or the end.
size_t scan(std::string_view text, size_t begin, const std::function<void(size_t)>& at_comma) {
  std::vector<size_t> open;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (c == '\'' || c == '"') {
      i = end_of_quoted(text, i) - 1;
    } else if (text.substr(i, 2) == "${") {
      i = end_of_interpolation(text, i) - 1;
    } else if (c == '[' || c == '(' || c == '{') {
      open.push_back(i);
    } else if (c == ']' || c == ')' || c == '}') {
      if (open.empty()) return i;
      const char expected = closing(text[open.back()]);
      if (c != expected) throw GrammarError{std::string("expected ") + expected, i};
      open.pop_back();
    } else if (c == ',' && open.empty()) {
      at_comma(i);
    }
  }
  if (!open.empty()) {
    throw GrammarError{std::string("nothing closes this ") + text[open.back()], open.back()};
  }
  return text.size();
}

size_t end_of_name(std::string_view text, Piece piece) {
  size_t end = piece.begin;
  while (end < piece.end &&
         (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) {
    ++end;
  }
  return end;
}

size_t after_space(std::string_view text, size_t at, size_t end) {
  while (at < end && is_space(text[at])) ++at;
  return at;
}

/// `name=value` or a value; a quoted or unquoted value holds no bare `=`.
SweepArgument argument(std::string_view text, Piece piece) {
  const size_t name_end = end_of_name(text, piece);
  const size_t equals = after_space(text, name_end, piece.end);
  if (name_end == piece.begin || equals == piece.end || text[equals] != '=') return {"", piece};
  return {std::string(text.substr(piece.begin, name_end - piece.begin)),
          trimmed_piece(text, {equals + 1, piece.end})};
}

template <size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// sort([b,a]) and shuffle([b,a]): one list, sorted.
bool is_of_list(std::string_view text, const SweepCall& call) {
  if (call.name != "sort" && call.name != "shuffle") return false;
  std::vector<Piece> positional;
  for (const SweepArgument& argument : call.arguments) {
    if (argument.name.empty() || argument.name == "list") positional.push_back(argument.value);
  }
  return positional.size() == 1 && !positional[0].empty() && text[positional[0].begin] == '[';
}

/// The call that `piece` is of one of `names`.
template <size_t N>
std::optional<SweepCall> call_of(const std::array<std::string_view, N>& names,
                                 std::string_view text, Piece piece) {
  const size_t name_end = end_of_name(text, piece);
  const std::string_view name = text.substr(piece.begin, name_end - piece.begin);
  const size_t bracket = after_space(text, name_end, piece.end);
  if (!among(names, name) || bracket == piece.end || text[bracket] != '(') return std::nullopt;
  const auto [pieces, close] = split_at_commas(text.substr(0, piece.end), bracket + 1);
  if (close == piece.end) throw GrammarError{"nothing closes this (", bracket};
  if (text[close] != ')') throw GrammarError{"expected , or )", close};
  const size_t behind = after_space(text, close + 1, piece.end);
  if (behind != piece.end) {
    throw GrammarError{"there is text after " + std::string(name) + "(...); " + kKnownSweeps,
                       behind};
  }
  SweepCall call{name, piece.begin, {}};
  if (pieces.size() == 1 && pieces[0].empty()) return call;
  for (const Piece& each : pieces) {
    call.arguments.push_back(argument(text, each));
    if (call.arguments.back().value.empty()) {
      throw GrammarError{"a value is missing; an empty string is ''", each.begin};
    }
  }
  return call;
}

/// A cast of several values; who reads one value says what is wrong with it.
std::optional<SweepCall> cast_in(std::string_view text, Piece piece) {
  try {
    const std::optional<SweepCall> call = call_of(kCasts, text, piece);
    if (!call || call->arguments.empty()) return std::nullopt;
    if (call->arguments.size() > 1) return call;
    return sweep_in(text, call->arguments[0].value) ? call : std::nullopt;
  } catch (const GrammarError&) {
    return std::nullopt;
  }
}

}  // namespace

Piece trimmed_piece(std::string_view text, Piece piece) {
  while (piece.begin < piece.end && is_space(text[piece.begin])) ++piece.begin;
  const auto escaped = [&](size_t at) { return at > piece.begin && text[at - 1] == '\\'; };
  while (piece.begin < piece.end && is_space(text[piece.end - 1]) && !escaped(piece.end - 1)) {
    --piece.end;
  }
  return piece;
}

std::pair<std::vector<Piece>, size_t> split_at_commas(std::string_view text, size_t begin) {
  std::vector<Piece> pieces;
  size_t from = begin;
  const size_t end = scan(text, begin, [&](size_t comma) {
    pieces.push_back(trimmed_piece(text, {from, comma}));
    from = comma + 1;
  });
  pieces.push_back(trimmed_piece(text, {from, end}));
  return {pieces, end};
}

std::optional<SweepCall> sweep_in(std::string_view text, Piece piece) {
  const std::optional<SweepCall> call = call_of(kFunctions, text, piece);
  if (call) return is_of_list(text, *call) ? std::nullopt : call;
  return cast_in(text, piece);
}

bool is_cast(const SweepCall& call) { return among(kCasts, call.name); }

}  // namespace verlcpp::config
