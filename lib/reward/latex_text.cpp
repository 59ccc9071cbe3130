#include "reward/latex_text.h"

#include <array>
#include <utility>

namespace verlcpp::reward {
namespace {

/// What commands without arguments print.
constexpr std::array<std::pair<TextView, TextView>, 66> kSymbols = {{
    {U"pi", U"π"},          {U"infty", U"∞"},       {U"cup", U"∪"},         {U"cap", U"∩"},
    {U"cdot", U"·"},        {U"times", U"×"},       {U"circ", U"∘"},        {U"pm", U"±"},
    {U"mp", U"∓"},          {U"angle", U"∠"},       {U"le", U"≤"},          {U"leq", U"≤"},
    {U"ge", U"≥"},          {U"geq", U"≥"},         {U"ne", U"≠"},          {U"neq", U"≠"},
    {U"approx", U"≈"},      {U"sim", U"∼"},         {U"cong", U"≅"},        {U"equiv", U"≡"},
    {U"parallel", U"∥"},    {U"perp", U"⊥"},        {U"div", U"÷"},         {U"to", U"→"},
    {U"in", U"∈"},          {U"alpha", U"α"},       {U"beta", U"β"},        {U"gamma", U"γ"},
    {U"delta", U"δ"},       {U"epsilon", U"ϵ"},     {U"theta", U"θ"},       {U"lambda", U"λ"},
    {U"mu", U"μ"},          {U"nu", U"ν"},          {U"rho", U"ρ"},         {U"sigma", U"σ"},
    {U"tau", U"τ"},         {U"phi", U"ϕ"},         {U"varphi", U"φ"},      {U"omega", U"ω"},
    {U"Delta", U"Δ"},       {U"Gamma", U"Γ"},       {U"Theta", U"Θ"},       {U"Sigma", U"Σ"},
    {U"Phi", U"Φ"},         {U"Omega", U"Ω"},       {U"sin", U"sin"},       {U"cos", U"cos"},
    {U"tan", U"tan"},       {U"cot", U"cot"},       {U"sec", U"sec"},       {U"csc", U"csc"},
    {U"arcsin", U"arcsin"}, {U"arccos", U"arccos"}, {U"arctan", U"arctan"}, {U"ln", U"ln"},
    {U"log", U"log"},       {U"exp", U"exp"},       {U"quad", U"  "},       {U"qquad", U"    "},
    {U"ldots", U"…"},       {U"cdots", U"⋯"},       {U"dots", U"…"},        {U"prime", U"′"},
    {U"min", U"min"},       {U"max", U"max"},
}};

class Reader {
 public:
  explicit Reader(TextView text) : text_(text) {}
  bool failed() const { return failed_; }

  /// Up to the end, or the brace that closes a group.
  Text read(bool in_group) {
    Text out;
    while (at_ < text_.size() && !failed_) {
      const char32_t c = text_[at_];
      if (c != U'}') {
        out += piece();
        continue;
      }
      ++at_;  // one that closes nothing is passed over, as a group that is not closed is taken
      if (in_group) return out;
    }
    return out;
  }

 private:
  /// A group, a command or one character.
  Text piece() {
    const char32_t c = text_[at_++];
    if (c == U'{') return read(true);
    if (c == U'\\') return command();
    if (c == U'~') return U" ";
    if (c == U'$') return U"";
    return Text(1, c);
  }

  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  /// Nothing at the end of the text.
  std::optional<Text> argument() {
    skip_spaces();
    if (at_ == text_.size()) return {};
    return text_[at_] == U'}' ? Text() : piece();
  }

  /// pylatexenc prints its own pattern where an argument is missing.
  Text fraction() {
    const std::optional<Text> numerator = argument(), denominator = argument();
    if (denominator) return *numerator + U"/" + *denominator;
    return U"%s/%s" + numerator.value_or(U"");
  }

  Text command() {
    size_t end = at_;
    const auto letter = [&](char32_t c) {
      return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z');
    };
    while (end < text_.size() && letter(text_[end])) ++end;
    if (end == at_) return escaped();
    const TextView name = text_.substr(at_, end - at_);
    at_ = end;
    skip_spaces();
    if (name == U"frac") return fraction();
    if (name == U"sqrt") return root();
    if (name == U"begin" || name == U"end") failed_ = true;
    if (name == U"left" || name == U"right") return {};
    for (const auto& [known, printed] : kSymbols) {
      if (known == name) return Text(printed);
    }
    return {};
  }

  Text escaped() {
    if (at_ == text_.size()) return {};
    const char32_t c = text_[at_++];
    if (c == U',' || c == U';' || c == U':' || c == U' ') return U" ";
    if (c == U'!' || c == U'(' || c == U')' || c == U'[' || c == U']') return {};
    if (c == U'\\') return U"\n";
    return Text(1, c);
  }

  /// The order of a root is not printed.
  Text root() {
    if (at_ < text_.size() && text_[at_] == U'[') {
      const size_t end = text_.find(U']', at_);
      if (end != TextView::npos) at_ = end + 1;
    }
    const std::optional<Text> radicand = argument();
    failed_ = failed_ || !radicand;
    return U"√(" + radicand.value_or(U"") + U")";
  }

  TextView text_;
  size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<Text> latex_as_expression(TextView latex) {
  Text text = replaced(replaced(latex, U"\\tfrac", U"\\frac"), U"\\dfrac", U"\\frac");
  text = replaced(text, U"\\frac", U" \\frac");
  Reader reader(text);
  Text out = reader.read(false);
  if (reader.failed()) return {};
  constexpr std::array<std::pair<TextView, TextView>, 6> kNames = {{
      {U"√", U"sqrt"},
      {U"π", U"pi"},
      {U"∞", U"inf"},
      {U"∪", U"U"},
      {U"·", U"*"},
      {U"×", U"*"},
  }};
  for (const auto& [before, after] : kNames) out = replaced(out, before, after);
  return strip(out);
}

}  // namespace verlcpp::reward
