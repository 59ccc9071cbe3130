#include "config/sweep_values.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

#include "config/scalar.h"
#include "config/sweep_syntax.h"

namespace verlcpp::config {

namespace {

const Origin kHere{};  // of values that are only looked at

/// Of 0.25 or 2.5e-07, how many digits stand behind the point.
int decimals(const std::string& number) {
  const size_t e = std::min(number.find('e'), number.size());
  const size_t point = std::min(number.find('.'), e);
  const int written = point == e ? 0 : static_cast<int>(e - point - 1);
  const int exponent = e == number.size() ? 0 : std::stoi(number.substr(e + 1));
  return std::max(0, written - exponent);
}

double rounded(long double value, int decimals) {
  std::array<char, 5400> text{};  // the largest finite number and the smallest fit
  std::snprintf(text.data(), text.size(), "%.*Lf", decimals, value);
  return std::strtod(text.data(), nullptr) + 0.0;  // no -0
}

[[noreturn]] void fail(const SweepCall& call, const std::string& message) {
  throw GrammarError{std::string(call.name) + "(): " + message, call.at};
}

class Evaluator {
 public:
  Evaluator(std::string_view text, const GroupOptions& options) : text_(text), options_(options) {}

  std::vector<std::string> values(const SweepCall& call) const {
    if (call.name == "choice") return choices(call);
    if (call.name == "range") return range(call);
    if (call.name == "glob") return glob(call);
    if (call.name == "sort") return sorted(call);
    if (call.name == "shuffle") return shuffled(call);
    if (call.name == "tag") return tagged(call);
    if (is_cast(call)) return cast(call);
    fail(call, std::string("has no list of values to run; ") + kKnownSweeps);
  }

  /// The elements of `a,b`, or of a function's arguments.
  std::vector<std::string> elements(const std::vector<Piece>& pieces) const {
    std::vector<std::string> values;
    for (const Piece& piece : pieces) {
      if (piece.empty()) {
        throw GrammarError{"a value is missing; an empty string is ''", piece.begin};
      }
      if (sweep_in(text_, piece)) {
        throw GrammarError{std::string("a sweep inside of a list of values; ") + kKnownSweeps,
                           piece.begin};
      }
      values.push_back(typed(piece));
    }
    return values;
  }

 private:
  std::string typed(Piece piece) const {
    return std::string(text_.substr(piece.begin, piece.end - piece.begin));
  }
  Node parsed(Piece piece) const {
    return parse_value(text_.substr(0, piece.end), piece.begin, kHere);
  }

  /// The arguments by the names that the function gives them, those by position first.
  std::vector<std::optional<Piece>> by_name(const SweepCall& call,
                                            const std::vector<std::string>& names) const {
    std::vector<std::optional<Piece>> found(names.size());
    bool named = false;
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const SweepArgument& each = call.arguments[i];
      if (each.name.empty() && named) fail(call, "a value without a name follows one with a name");
      named = named || !each.name.empty();
      const auto at = named
                          ? std::find(names.begin(), names.end(), each.name)
                          : names.begin() + static_cast<std::ptrdiff_t>(std::min(i, names.size()));
      if (at == names.end()) {
        fail(call, (named ? "has no argument " + each.name : "too many arguments") + "; it takes " +
                       listed(names));
      }
      std::optional<Piece>& place = found[static_cast<size_t>(at - names.begin())];
      if (place) fail(call, "the argument " + each.name + " comes twice");
      place = each.value;
    }
    return found;
  }

  static std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

  std::vector<Piece> positional(const SweepCall& call) const {
    std::vector<Piece> pieces;
    for (const SweepArgument& each : call.arguments) {
      if (!each.name.empty()) fail(call, "has no argument " + each.name);
      pieces.push_back(each.value);
    }
    return pieces;
  }

  std::vector<std::string> choices(const SweepCall& call) const {
    if (call.arguments.empty()) fail(call, "needs at least one value");
    return elements(positional(call));
  }

  struct Number {
    long double value = 0;  // of 64 bits at least: an integer is exact
    bool integer = true;
    int decimals = 0;  // that it has behind the point
  };

  Number number(const SweepCall& call, Piece piece, const std::string& name) const {
    const Node node = parsed(piece);
    if (const auto* value = node.get_if<int64_t>()) return {static_cast<long double>(*value), true};
    const auto* value = node.get_if<double>();
    if (value == nullptr || !std::isfinite(*value)) {
      fail(call, name + " is " + typed(piece) + "; must be a finite number");
    }
    return {*value, false, decimals(format_float(*value))};
  }

  /// Hydra's rule, start + i * step < stop, in decimals as they are written: Hydra adds the binary
  /// numbers behind them, and can get 0.7000000000000001, or stop itself.
  std::vector<std::string> range(const SweepCall& call) const {
    std::vector<std::optional<Piece>> given = by_name(call, {"start", "stop", "step"});
    if (!given[0]) fail(call, "needs the number at which it stops");
    if (!given[1]) std::swap(given[0], given[1]);
    const Number start = given[0] ? number(call, *given[0], "start") : Number{};
    const Number stop = number(call, *given[1], "stop");
    const Number step = given[2] ? number(call, *given[2], "step") : Number{1};
    if (step.value == 0) fail(call, "a step of 0 never ends");
    const bool integers = start.integer && stop.integer && step.integer;
    const int decimals = std::max(start.decimals, step.decimals);
    std::vector<std::string> values;
    for (int64_t i = 0;; ++i) {
      const long double value = start.value + static_cast<long double>(i) * step.value;
      const double real = rounded(value, decimals);
      const long double left = (integers ? value : real) - stop.value;
      if (step.value > 0 ? left >= 0 : left <= 0) return values;
      values.push_back(integers ? std::to_string(static_cast<int64_t>(value)) : format_float(real));
      if (values.size() > kMaxSweepJobs) {
        fail(call, "has more than " + std::to_string(kMaxSweepJobs) + " values");
      }
    }
  }

  std::vector<std::string> patterns(const SweepCall& call,
                                    const std::optional<Piece>& piece) const {
    if (!piece) return {};
    const Node node = parsed(*piece);
    std::vector<std::string> found;
    for (const Node& each : node.is_list() ? node.elements() : List{node}) {
      const auto* text = each.get_if<std::string>();
      if (text == nullptr) fail(call, typed(*piece) + " is no pattern, nor a list of patterns");
      found.push_back(*text);
    }
    return found;
  }

  std::vector<std::string> glob(const SweepCall& call) const {
    const std::vector<std::optional<Piece>> given = by_name(call, {"include", "exclude"});
    if (!given[0]) fail(call, "needs a pattern");
    const std::vector<std::string> include = patterns(call, given[0]);
    const std::vector<std::string> exclude = patterns(call, given[1]);
    const auto matches = [](const std::string& name, const std::vector<std::string>& all) {
      return std::any_of(all.begin(), all.end(), [&](const std::string& pattern) {
        return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
      });
    };
    const std::vector<std::string> there = options_();
    if (there.empty()) fail(call, "chooses among the options of a config group; the key is none");
    std::vector<std::string> values;
    for (const std::string& name : there) {
      if (matches(name, include) && !matches(name, exclude)) values.push_back(name);
    }
    if (values.empty()) fail(call, "matches no option; there are " + listed(there));
    return values;
  }

  /// Of sort and shuffle: those of the one sweep among the arguments, or the arguments.
  std::vector<std::string> inner(const SweepCall& call, const std::vector<Piece>& pieces) const {
    if (pieces.empty()) fail(call, "needs at least one value");
    if (pieces.size() == 1) {
      if (const auto sweep = sweep_in(text_, pieces[0])) return values(*sweep);
    }
    return elements(pieces);
  }

  std::vector<std::string> sorted(const SweepCall& call) const {
    SweepCall rest = call;
    bool reverse = false;
    std::erase_if(rest.arguments, [&](const SweepArgument& each) {
      if (each.name != "reverse") return false;
      const Node node = parsed(each.value);
      if (node.get_if<bool>() == nullptr) fail(call, "reverse must be true or false");
      reverse = *node.get_if<bool>();
      return true;
    });
    std::vector<std::pair<Node, std::string>> items;
    for (const std::string& value : inner(call, positional(rest))) {
      items.emplace_back(parse_value(value, 0, kHere), value);
    }
    check_comparable(call, items);
    const auto less = [](const auto& a, const auto& b) { return before(a.first, b.first); };
    const auto greater = [&](const auto& a, const auto& b) { return less(b, a); };
    if (reverse) {
      std::stable_sort(items.begin(), items.end(), greater);
    } else {
      std::stable_sort(items.begin(), items.end(), less);
    }
    std::vector<std::string> values;
    for (const auto& item : items) values.push_back(item.second);
    return values;
  }

  static std::optional<double> as_number(const Node& node) {
    if (const auto* value = node.get_if<int64_t>()) return static_cast<double>(*value);
    if (const auto* value = node.get_if<double>()) return *value;
    if (const auto* value = node.get_if<bool>()) return *value ? 1 : 0;
    return std::nullopt;
  }
  static bool before(const Node& a, const Node& b) {
    const auto* text = a.get_if<std::string>();
    return text != nullptr ? *text < *b.get_if<std::string>() : *as_number(a) < *as_number(b);
  }
  static void check_comparable(const SweepCall& call,
                               const std::vector<std::pair<Node, std::string>>& items) {
    size_t numbers = 0, texts = 0;
    for (const auto& [node, text] : items) {
      const std::optional<double> number = as_number(node);
      numbers += number && *number == *number ? 1 : 0;
      texts += node.get_if<std::string>() != nullptr ? 1 : 0;
    }
    if (numbers == items.size() || texts == items.size()) return;
    fail(call, "only numbers can be sorted, or only texts");
  }

  std::vector<std::string> shuffled(const SweepCall& call) const {
    std::vector<std::string> values = inner(call, positional(call));
    // From the same seed each time, for a sweep that goes on has to find its jobs again.
    std::mt19937_64 random(values.size());
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
    return values;
  }

  /// Each value cast; str() leaves them as they are written, and so typed again, as Hydra does.
  std::vector<std::string> cast(const SweepCall& call) const {
    std::vector<std::string> values = inner(call, positional(call));
    const bool whole = call.name == "str" || call.name == "bool";
    if (const auto of = sweep_in(text_, call.arguments[0].value);
        whole && of && of->name == "range") {
      fail(call, "cannot cast a range(); int() and float() can");
    }
    if (call.name == "str") return values;
    for (std::string& value : values) {
      try {
        value = to_inline(parse_value(std::string(call.name) + "(" + value + ")", 0, kHere));
      } catch (const GrammarError& error) {
        throw GrammarError{error.message, call.at};
      }
    }
    return values;
  }

  /// Tags tell a search what to do; here there is none.
  std::vector<std::string> tagged(const SweepCall& call) const {
    const std::vector<Piece> pieces = positional(call);
    const auto sweep = pieces.empty() ? std::nullopt : sweep_in(text_, pieces.back());
    if (!sweep) fail(call, "its last argument must be a sweep");
    return values(*sweep);
  }

  std::string_view text_;
  const GroupOptions& options_;
};

}  // namespace

bool is_sweep_value(std::string_view text, size_t start) {
  const Piece all = trimmed_piece(text, {start, text.size()});
  try {
    const auto [pieces, end] = split_at_commas(text.substr(0, all.end), all.begin);
    return end == all.end && (pieces.size() > 1 || sweep_in(text, all));
  } catch (const GrammarError&) {
    return false;
  }
}

std::optional<std::vector<std::string>> sweep_values(std::string_view text, size_t start,
                                                     const GroupOptions& options) {
  const Piece all = trimmed_piece(text, {start, text.size()});
  const Evaluator evaluator(text, options);
  if (const auto call = sweep_in(text, all)) {
    std::vector<std::string> values = evaluator.values(*call);
    if (values.empty()) fail(*call, "has no values");
    return values;
  }
  if (!is_sweep_value(text, start))
    return std::nullopt;  // a value, or whoever reads it says why not
  return evaluator.elements(split_at_commas(text.substr(0, all.end), all.begin).first);
}

}  // namespace verlcpp::config
