#include "reward/expression.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <optional>

#include "reward/python_number.h"

namespace verlcpp::reward {
namespace {

using Value = std::complex<double>;

/// Recursive descent: sum = term (+|-) ...; term = factor (*|/| side by side) ...; factor = sign
/// factor | power; power = atom ^ factor.
class Evaluator {
 public:
  /// `round` chooses the values of unknowns.
  Evaluator(TextView text, int round) : text_(text), round_(round) {}

  std::optional<Value> run() {
    const Value value = sum();
    if (failed_ || at_ != text_.size()) return {};
    return value;
  }

 private:
  static constexpr int kDeepest = 200;

  char32_t next() const { return at_ < text_.size() ? text_[at_] : U'\0'; }
  bool take(TextView token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  Value fail() {
    failed_ = true;
    return 0;
  }

  Value sum() {
    if (++depth_ > kDeepest) return fail();
    Value value = term();
    while (!failed_) {
      if (take(U"+")) {
        value += term();
      } else if (take(U"-")) {
        value -= term();
      } else {
        break;
      }
    }
    --depth_;
    return value;
  }

  bool starts_atom() const {
    const char32_t c = next();
    return c == U'(' || c == U'.' || (c >= U'0' && c <= U'9') || is_letter(c);
  }

  Value term() {
    Value value = factor();
    while (!failed_) {
      if (!text_.substr(at_).starts_with(U"**") && take(U"*")) {
        value *= factor();
      } else if (take(U"/")) {
        value /= factor();
      } else if (starts_atom()) {
        value *= power();
      } else {
        break;
      }
    }
    return value;
  }

  Value factor() {
    if (++depth_ > kDeepest) return fail();
    const bool minus = take(U"-");
    const bool sign = minus || take(U"+");
    const Value value = sign ? factor() : power();
    --depth_;
    return minus ? -value : value;
  }

  Value power() {
    const Value base = atom();
    if (failed_ || !(take(U"**") || take(U"^"))) return base;
    const Value exponent = factor();
    const double whole = exponent.real();
    const bool small = exponent.imag() == 0 && whole == std::floor(whole) && std::abs(whole) < 1e6;
    return small ? std::pow(base, static_cast<int>(whole)) : std::pow(base, exponent);
  }

  Value atom() {
    if (take(U"(")) {
      const Value value = sum();
      return take(U")") ? value : fail();
    }
    if (take(U"sqrt")) return argument([](Value x) { return std::sqrt(x); });
    if (take(U"ln") || take(U"log")) return argument([](Value x) { return std::log(x); });
    if (take(U"pi")) return std::numbers::pi;
    const char32_t c = next();
    if (is_letter(c)) {
      ++at_;
      return unknown(c);
    }
    return number();
  }

  template <class F>
  Value argument(F function) {
    if (!take(U"(")) return fail();
    const Value value = sum();
    return take(U")") ? function(value) : fail();
  }

  /// An irrational number of its own for each letter and round.
  Value unknown(char32_t letter) const {
    return 0.7 + std::fmod(std::sqrt(2.0 + static_cast<double>(letter)) * (3.1 + round_), 1.9);
  }

  Value number() {
    size_t end = at_;
    while (end < text_.size() && ((text_[end] >= U'0' && text_[end] <= U'9') || text_[end] == U'.'))
      ++end;
    const auto value = python_float(text_.substr(at_, end - at_));
    at_ = end;
    return value ? Value(*value) : fail();
  }

  TextView text_;
  int round_;
  size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false;
};

}  // namespace

bool same_value(TextView a, TextView b) {
  constexpr int kRounds = 4;
  constexpr double kTolerance = 1e-11;
  for (int round = 0; round < kRounds; ++round) {
    const auto left = Evaluator(a, round).run(), right = Evaluator(b, round).run();
    if (!left || !right) return false;
    const double scale = std::max({1.0, std::abs(*left), std::abs(*right)});
    if (!(std::abs(*left - *right) <= kTolerance * scale)) return false;
  }
  return true;
}

}  // namespace verlcpp::reward
