#include "data/tokenizer.h"

#include <utility>

#include "data/utf8.h"

namespace verlcpp::data {

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::string repaired;
  if (!is_utf8(text)) {
    repaired = utf8_lossy(text);
    text = repaired;
  }
  std::vector<int32_t> out;
  if (add_special_tokens) out = special_tokens_.before;
  for (const Segment& segment : added_.split(text)) {
    if (segment.id >= 0) {
      out.push_back(segment.id);
      continue;
    }
    const auto part = text.substr(segment.begin, segment.end - segment.begin);
    encode_segment({std::string(part), segment.begin == 0}, out);
  }
  if (add_special_tokens) {
    out.insert(out.end(), special_tokens_.after.begin(), special_tokens_.after.end());
  }
  return out;
}

void Tokenizer::encode_segment(Piece segment, std::vector<int32_t>& out) const {
  const Piece piece = normalizer_.apply(std::move(segment));
  for (const Segment& part : normalized_added_.split(piece.text)) {
    if (part.id >= 0) {
      out.push_back(part.id);
      continue;
    }
    auto text = piece.text.substr(part.begin, part.end - part.begin);
    for (const Piece& word :
         pre_tokenizer_.apply({std::move(text), piece.at_start && part.begin == 0})) {
      bpe_.encode(word.text, out);
    }
  }
}

const std::string* Tokenizer::decoded_token(int32_t id, bool skip_special) const {
  if (id < 0 || id >= vocab_size()) return nullptr;
  const Token& token = tokens_[static_cast<size_t>(id)];
  return !token.used || (skip_special && token.special) ? nullptr : &token.text;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  TokenStream stream(*this, skip_special);
  std::string text;
  for (const int32_t id : ids) text += stream.push(id);
  return text + stream.finish();
}

std::optional<int32_t> Tokenizer::token_id(std::string_view token) const {
  const auto found = ids_.find(std::string(token));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

TokenStream::TokenStream(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer), skip_special_(skip_special), stream_(tokenizer.decoder_) {}

std::string TokenStream::push(int32_t id) {
  const std::string* token = tokenizer_.decoded_token(id, skip_special_);
  return token == nullptr ? std::string() : stream_.push(*token);
}

}  // namespace verlcpp::data
