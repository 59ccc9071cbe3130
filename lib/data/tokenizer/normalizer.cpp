#include "data/tokenizer/normalizer.h"

#include <algorithm>

#include "data/utf8.h"

namespace verlcpp::data {

namespace {

void apply_step(UnicodeForm form, Piece& piece) { piece.text = normalized(piece.text, form); }

void apply_step(const LowercaseStep&, Piece& piece) { piece.text = lower_case(piece.text); }

void apply_step(const PrependStep& step, Piece& piece) {
  if (!piece.text.empty()) piece.text.insert(0, step.prefix);
}

// What replaces a match stems from the match's last character.
void apply_step(const ReplaceStep& step, Piece& piece) {
  if (piece.text.empty()) return;
  const auto parts = step.pattern.parts(piece.text);
  if (parts.front().is_match) {
    const size_t first = utf8_front(piece.text).size;
    piece.at_start = piece.at_start && !step.content.empty() && parts.front().end <= first;
  }
  piece.text = replace_all(step.pattern, piece.text, step.content);
}

void apply_step(const StripStep& step, Piece& piece) {
  const std::string_view text = piece.text;
  size_t begin = text.size(), end = 0;  // of what is not white space
  for (size_t at = 0; at < text.size();) {
    const Utf8Front front = utf8_front(text.substr(at));
    if (!is_white_space(front.code_point)) {
      begin = std::min(begin, at);
      end = at + front.size;
    }
    at += front.size;
  }
  if (!step.left) begin = 0;
  if (!step.right) end = text.size();
  if (begin > 0) piece.at_start = false;
  piece.text = begin < end ? std::string(text.substr(begin, end - begin)) : std::string();
}

}  // namespace

std::string replace_all(const Pattern& pattern, std::string_view text, std::string_view content) {
  std::string out;
  for (const Part& part : pattern.parts(text)) {
    out += part.is_match ? content : text.substr(part.begin, part.end - part.begin);
  }
  return out;
}

Piece Normalizer::apply(Piece piece) const {
  for (const NormalizerStep& step : steps_) {
    std::visit([&](const auto& one) { apply_step(one, piece); }, step);
  }
  return piece;
}

}  // namespace verlcpp::data
