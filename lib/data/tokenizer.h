#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/decoder.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/special_tokens.h"

namespace verlcpp::data {

/// A BPE tokenizer as Hugging Face's tokenizer.json describes it, with the ids and texts of the
/// `tokenizers` library. The way of a text: added tokens are cut out (those that are not
/// normalized), the rest is normalized, the other added tokens are cut out, the rest is split into
/// words by the pre-tokenizer, and BPE makes each word tokens. What is not built is refused by name
/// when the file is read. A truncation or padding in the file has no effect, as in transformers.
class Tokenizer {
 public:
  /// Why there is no <folder>/tokenizer.json; "" where there is.
  static std::string why_absent(const std::string& folder);
  /// Reads <folder>/tokenizer.json. DataError when that cannot be done.
  static Tokenizer load(const std::string& folder);
  /// `json` is the file's text, `where` its name in messages.
  static Tokenizer parse(const std::string& json, const std::string& where);

  /// Token ids, without bos or eos unless `add_special_tokens` asks for the post-processor's.
  /// Bytes that are not UTF-8 are read as U+FFFD, one for every maximal ill-formed part. DataError
  /// when a character is not in the vocabulary and the model has no unknown token.
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens = false) const;
  /// The text as UTF-8; bytes that are not UTF-8 become U+FFFD. Ids outside the vocabulary (a
  /// model's table may be larger) give nothing. `skip_special` drops special tokens.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;
  /// The id of a token spelled as in tokenizer.json, or of an added token.
  std::optional<int32_t> token_id(std::string_view token) const;
  /// Ids lie in [0, vocab_size()).
  int64_t vocab_size() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  struct Token {
    std::string text;  // what the decoder gets
    bool used = false;
    bool special = false;
  };
  friend class TokenizerParser;
  friend class TokenStream;

  void encode_segment(Piece segment, std::vector<int32_t>& out) const;
  /// What the decoder gets for `id`; null when it gets nothing.
  const std::string* decoded_token(int32_t id, bool skip_special) const;

  std::vector<Token> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  AddedTokens added_;             // matched before the normalizer
  AddedTokens normalized_added_;  // and after it
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  Decoder decoder_;
  SpecialTokens special_tokens_;
};

/// Decodes ids as they come, each piece valid UTF-8: decode(ids) is what push gave for each of them
/// and finish, end to end.
class TokenStream {
 public:
  /// `tokenizer` outlives the stream.
  explicit TokenStream(const Tokenizer& tokenizer, bool skip_special = true);
  /// The text that `id` completes; empty while its bytes are not a whole character.
  std::string push(int32_t id);
  /// What was still waiting: bytes that came to no character are U+FFFD. Ends the stream.
  std::string finish() { return stream_.finish(); }

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  DecoderStream stream_;
};

}  // namespace verlcpp::data
