#pragma once

#include <string>
#include <variant>
#include <vector>

#include "data/tokenizer/pattern.h"
#include "data/tokenizer/unicode_forms.h"

namespace verlcpp::data {

/// A text that is on its way to tokens, and whether its first byte stems from the first character
/// of the whole input: what Metaspace's prepend_scheme "first" asks.
struct Piece {
  std::string text;
  bool at_start = false;
};

/// The steps of tokenizer.json's normalizer, named as there.
struct PrependStep {
  std::string prefix;
};
struct ReplaceStep {
  Pattern pattern;
  std::string content;
};
struct LowercaseStep {};
struct StripStep {
  bool left = false;
  bool right = false;
};
using NormalizerStep =
    std::variant<UnicodeForm, PrependStep, ReplaceStep, LowercaseStep, StripStep>;

class Normalizer {
 public:
  /// No steps: the text as it is.
  explicit Normalizer(std::vector<NormalizerStep> steps = {}) : steps_(std::move(steps)) {}
  /// `piece`, valid UTF-8, after all steps.
  Piece apply(Piece piece) const;

 private:
  std::vector<NormalizerStep> steps_;
};

/// `text` with everything that `pattern` matches replaced.
std::string replace_all(const Pattern& pattern, std::string_view text, std::string_view content);

}  // namespace verlcpp::data
