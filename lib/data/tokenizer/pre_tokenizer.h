#pragma once

#include <string>
#include <variant>
#include <vector>

#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/pattern.h"

namespace verlcpp::data {

/// What becomes of the matches that a text is split at.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// The steps of tokenizer.json's pre-tokenizer.
struct SplitStep {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // split at what does not match
};
/// Adds a space in front of a piece that has none: add_prefix_space.
struct PrefixSpaceStep {};
/// Spells every byte as its letter of the byte alphabet.
struct ByteLettersStep {};
struct MetaspaceStep {
  enum class Prepend { kNever, kFirst, kAlways };
  std::string replacement;  // one character
  Prepend prepend = Prepend::kAlways;
};
using PreTokenizerStep = std::variant<SplitStep, PrefixSpaceStep, ByteLettersStep, MetaspaceStep>;

class PreTokenizer {
 public:
  /// No steps: the piece is one word.
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps = {}) : steps_(std::move(steps)) {}
  /// The words of `piece`, none of them empty.
  std::vector<Piece> apply(Piece piece) const;
  /// Whether words come in letters of the byte alphabet.
  bool spells_bytes() const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace verlcpp::data
