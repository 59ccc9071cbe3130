#include "data/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "data/tokenizer/byte_alphabet.h"

namespace verlcpp::data {

namespace {

/// Joins neighbours as `behavior` says; what stays a match is to be removed. Follows
/// NormalizedString::split of the `tokenizers` library, in which a match that directly follows
/// another stays by itself.
std::vector<Part> joined(std::vector<Part> parts, SplitBehavior behavior) {
  if (behavior == SplitBehavior::kRemoved) return parts;
  const bool to_next = behavior == SplitBehavior::kMergedWithNext;
  if (to_next) std::reverse(parts.begin(), parts.end());
  std::vector<Part> out;
  bool previous = false;  // was the part before this one a match?
  for (const Part& part : parts) {
    bool join = part.is_match && !previous;
    if (behavior == SplitBehavior::kContiguous) join = part.is_match == previous;
    if (behavior == SplitBehavior::kIsolated) join = false;
    previous = part.is_match;
    if (join && !out.empty()) {
      out.back().begin = std::min(out.back().begin, part.begin);
      out.back().end = std::max(out.back().end, part.end);
    } else {
      out.push_back({part.begin, part.end, false});
    }
  }
  if (to_next) std::reverse(out.begin(), out.end());
  return out;
}

void apply_step(const SplitStep& step, Piece piece, std::vector<Piece>& out) {
  auto parts = step.pattern.parts(piece.text);
  if (step.invert) {
    for (Part& part : parts) part.is_match = !part.is_match;
  }
  for (const Part& part : joined(std::move(parts), step.behavior)) {
    if (part.is_match || part.begin == part.end) continue;
    out.push_back(
        {piece.text.substr(part.begin, part.end - part.begin), piece.at_start && part.begin == 0});
  }
}

void apply_step(const PrefixSpaceStep&, Piece piece, std::vector<Piece>& out) {
  if (!piece.text.starts_with(' ')) piece.text.insert(piece.text.begin(), ' ');
  out.push_back(std::move(piece));
}

void apply_step(const ByteLettersStep&, Piece piece, std::vector<Piece>& out) {
  out.push_back({to_byte_letters(piece.text), piece.at_start});
}

void apply_step(const MetaspaceStep& step, Piece piece, std::vector<Piece>& out) {
  std::string text;
  for (const char c : piece.text) {
    if (c == ' ') {
      text += step.replacement;
    } else {
      text += c;
    }
  }
  const bool wanted = step.prepend == MetaspaceStep::Prepend::kAlways ||
                      (step.prepend == MetaspaceStep::Prepend::kFirst && piece.at_start);
  if (wanted && !text.starts_with(step.replacement)) text.insert(0, step.replacement);
  out.push_back({std::move(text), piece.at_start});
}

}  // namespace

std::vector<Piece> PreTokenizer::apply(Piece piece) const {
  std::vector<Piece> pieces;
  if (!piece.text.empty()) pieces.push_back(std::move(piece));
  for (const PreTokenizerStep& step : steps_) {
    std::vector<Piece> next;
    next.reserve(pieces.size());
    for (Piece& one : pieces) {
      std::visit([&](const auto& s) { apply_step(s, std::move(one), next); }, step);
    }
    pieces = std::move(next);
  }
  return pieces;
}

bool PreTokenizer::spells_bytes() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const PreTokenizerStep& step) {
    return std::holds_alternative<ByteLettersStep>(step);
  });
}

}  // namespace verlcpp::data
