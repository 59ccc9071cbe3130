#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace verlcpp::data {

/// A byte-level tokenizer as Hugging Face's tokenizer.json describes it: a BPE model over the
/// GPT-2 byte alphabet, with or without merges, whose pre-tokenizer and decoder are ByteLevel. A
/// tokenizer that splits text by a regular expression before merging is refused by name.
class Tokenizer {
 public:
  /// Reads <folder>/tokenizer.json.
  static Tokenizer load(const std::string& folder);
  /// `json` is the file's text, `where` its name in messages.
  static Tokenizer parse(const std::string& json, const std::string& where);

  /// Token ids without bos or eos. Added tokens are matched first, the leftmost and longest.
  /// DataError when a byte is not in the vocabulary.
  std::vector<int32_t> encode(std::string_view text) const;
  /// The text as UTF-8; bytes that are not UTF-8 become U+FFFD. Ids outside the vocabulary (a
  /// model's table may be larger) give nothing. `skip_special` drops special tokens.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;
  /// The id of a token spelled as in tokenizer.json, or of an added token.
  std::optional<int32_t> token_id(std::string_view token) const;
  /// Ids lie in [0, vocab_size()).
  int64_t vocab_size() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  struct Token {
    std::string bytes;  // what it decodes to
    bool used = false;
    bool special = false;
  };
  struct Merge {
    int32_t rank = 0;
    int32_t id = 0;
  };
  friend class TokenizerParser;

  void encode_segment(std::string_view text, std::vector<int32_t>& out) const;
  void merge_pairs(std::vector<int32_t>& ids) const;

  std::string where_;
  std::vector<Token> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  std::array<int32_t, 256> byte_ids_{};  // -1: not in the vocabulary
  std::map<std::pair<int32_t, int32_t>, Merge> merges_;
  /// Added tokens by first byte, longest first.
  std::array<std::vector<std::pair<std::string, int32_t>>, 256> added_;
};

}  // namespace verlcpp::data
