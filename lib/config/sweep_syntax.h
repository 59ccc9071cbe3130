#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Where the parts of a sweep stand in its text: commas and calls, not what they mean.

namespace verlcpp::config {

inline constexpr const char* kKnownSweeps =
    "a sweep is a,b or choice(a,b), range(start,stop,step), glob(pattern,exclude=pattern), or sort "
    "or shuffle of one of these";

/// text[begin..end).
struct Piece {
  size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};
/// Without the white space around it.
Piece trimmed_piece(std::string_view text, Piece piece);

/// What stands between the commas of text[begin..] that are in no bracket, quote or interpolation,
/// trimmed; and where that ends: at a closing bracket that was not opened, or with the text. Throws
/// GrammarError for what is never closed.
std::pair<std::vector<Piece>, size_t> split_at_commas(std::string_view text, size_t begin);

struct SweepArgument {
  std::string name;  // "" for one by position
  Piece value;
};
/// A call of choice, range, glob, interval, sort, shuffle, tag, or of a cast of one of these.
struct SweepCall {
  std::string_view name;
  size_t at = 0;  // where it begins
  std::vector<SweepArgument> arguments;
};
/// The sweep that `piece`, which is trimmed, is; nothing when it does not begin like one, or is one
/// value: sort([b,a]) and int(3.5) are. Throws GrammarError for a missing argument and for text
/// behind the call.
std::optional<SweepCall> sweep_in(std::string_view text, Piece piece);
/// Whether it is int(), float(), bool() or str() of several values.
bool is_cast(const SweepCall& call);

}  // namespace verlcpp::config
