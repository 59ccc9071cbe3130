#include "data/tokenizer/decoder.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/normalizer.h"
#include "data/utf8.h"

namespace verlcpp::data {

namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// The byte that a token <0xHH> is.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    if (!std::isxdigit(static_cast<unsigned char>(c))) return std::nullopt;
    value = value * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return static_cast<char>(value);
}

/// Drops up to `most` copies of `content` at the front; returns how many.
int64_t strip_front(std::string_view& text, std::string_view content, int64_t most) {
  int64_t n = 0;
  for (; n < most && text.starts_with(content); ++n) text.remove_prefix(content.size());
  return n;
}

void strip_back(std::string_view& text, std::string_view content, int64_t most) {
  for (int64_t n = 0; n < most && text.ends_with(content); ++n) text.remove_suffix(content.size());
}

/// Bytes at the end that the bytes to come may complete to a character.
size_t unfinished(std::string_view bytes) {
  for (size_t n = std::min<size_t>(3, bytes.size()); n > 0; --n) {
    const Utf8Front front = utf8_front(bytes.substr(bytes.size() - n));
    if (front.cut && front.size == n) return n;
  }
  return 0;
}

}  // namespace

DecoderStream::DecoderStream(const Decoder& decoder)
    : steps_(decoder.steps_), states_(decoder.steps_.size()) {
  bool whole = false;
  for (size_t i = 0; i < steps_.size(); ++i) {
    states_[i].whole = whole;
    whole = whole || std::holds_alternative<FuseDecode>(steps_[i]) ||
            std::holds_alternative<ByteLevelDecode>(steps_[i]);
  }
}

std::string DecoderStream::push(std::string_view token) {
  feed(0, std::string(token));
  return std::exchange(out_, {});
}

void DecoderStream::feed(size_t index, std::string token) {
  if (index == steps_.size()) {
    out_ += token;
    return;
  }
  State& state = states_[index];
  if (!state.whole || std::holds_alternative<FuseDecode>(steps_[index])) {
    std::visit([&](const auto& s) { take(s, state, index + 1, std::move(token)); }, steps_[index]);
  } else if (const auto* strip = std::get_if<StripDecode>(&steps_[index])) {
    take_piece(*strip, state, index + 1, token);
  } else {
    state.held += token;  // until the whole token is there
  }
}

std::string DecoderStream::finish() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    State& state = states_[i];
    if (const auto* strip = std::get_if<StripDecode>(&steps_[i]); strip && state.whole) {
      std::string_view rest = state.held;
      strip_back(rest, strip->content, strip->stop);
      feed(i + 1, std::string(rest));
      continue;
    }
    if (state.whole) {
      std::string token = std::exchange(state.held, {});
      std::visit([&](const auto& s) { take(s, state, i + 1, std::move(token)); }, steps_[i]);
    }
    if (std::holds_alternative<ByteLevelDecode>(steps_[i])) {
      feed(i + 1, utf8_lossy(std::exchange(state.held, {})));
    } else if (std::holds_alternative<ByteFallbackDecode>(steps_[i])) {
      flush(state, i + 1);
    }
  }
  return std::exchange(out_, {});
}

// A token with a character outside of the alphabet stands for itself.
void DecoderStream::take(const ByteLevelDecode&, State& state, size_t next, std::string token) {
  state.held += from_byte_letters(token).value_or(token);
  const size_t ready = state.held.size() - unfinished(state.held);
  feed(next, utf8_lossy(std::string_view(state.held).substr(0, ready)));
  state.held.erase(0, ready);
}

void DecoderStream::take(const ByteFallbackDecode&, State& state, size_t next, std::string token) {
  if (const auto byte = byte_of(token)) {
    state.held += *byte;
    return;
  }
  flush(state, next);
  feed(next, std::move(token));
}

void DecoderStream::flush(State& state, size_t next) {
  const std::string run = std::exchange(state.held, {});
  if (run.empty()) return;
  if (is_utf8(run)) return feed(next, run);
  for (size_t i = 0; i < run.size(); ++i) feed(next, kReplacement);
}

void DecoderStream::take(const FuseDecode&, State&, size_t next, std::string token) {
  feed(next, std::move(token));
}

void DecoderStream::take(const ReplaceDecode& step, State&, size_t next, std::string token) {
  feed(next, replace_all(step.pattern, token, step.content));
}

void DecoderStream::take(const StripDecode& step, State&, size_t next, std::string token) {
  std::string_view text = token;
  strip_front(text, step.content, step.start);
  strip_back(text, step.content, step.stop);
  feed(next, std::string(text));
}

/// What may be the end of the whole waits.
void DecoderStream::take_piece(const StripDecode& step, State& state, size_t next,
                               std::string_view piece) {
  if (state.first) {
    state.stripped += strip_front(piece, step.content, step.start - state.stripped);
    state.first = piece.empty() && state.stripped < step.start;
  }
  state.held += piece;
  std::string_view ready = state.held;
  strip_back(ready, step.content, step.stop);
  feed(next, std::string(ready));
  state.held.erase(0, ready.size());
}

void DecoderStream::take(const MetaspaceDecode& step, State& state, size_t next,
                         std::string token) {
  const bool drop = std::exchange(state.first, false) && step.drop_first;
  std::string out;
  for (std::string_view rest = token; !rest.empty();) {
    const bool is_space = rest.starts_with(step.replacement);
    const size_t size = is_space ? step.replacement.size() : utf8_front(rest).size;
    if (!is_space) out += rest.substr(0, size);
    if (is_space && !drop) out += ' ';
    rest.remove_prefix(size);
  }
  feed(next, std::move(out));
}

}  // namespace verlcpp::data
