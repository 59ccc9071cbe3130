#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace verlcpp::data {

/// The BPE model of tokenizer.json: byte-pair encoding (Sennrich et al. 2016) over the characters
/// of a word.
class Bpe {
 public:
  struct Options {
    bool byte_fallback = false;  // spell characters without a token as <0x00> to <0xFF>
    bool ignore_merges = false;  // a word that is a token is that token
    bool fuse_unk = false;       // one unknown token for neighbours
    std::string unk_token;       // empty: none
    bool byte_letters = false;   // words are spelled in the byte alphabet; for messages
    std::string where;           // the file, for messages
  };

  Bpe() = default;
  Bpe(std::unordered_map<std::string, int32_t> vocab, Options options);
  /// `rank` counts from 0; of equal pairs the last is kept. The ids are those of both halves and
  /// of the whole.
  void add_merge(int32_t rank, int32_t left, int32_t right, int32_t merged);

  std::optional<int32_t> id(std::string_view token) const;
  /// Appends the tokens of `word`, valid UTF-8. DataError for a character without a token when
  /// there is no unknown token either (the `tokenizers` library drops it in silence).
  void encode(std::string_view word, std::vector<int32_t>& out) const;

 private:
  struct Merge {
    int32_t rank = 0;
    int32_t id = 0;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::vector<int32_t> symbols(std::string_view word) const;
  bool spell_bytes(std::string_view character, std::vector<int32_t>& out) const;
  [[noreturn]] void no_token(std::string_view word, size_t at) const;
  const Merge* find_merge(int32_t left, int32_t right) const;
  void merge_pairs(std::vector<int32_t>& ids) const;

  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> vocab_;
  std::unordered_map<uint64_t, Merge> merges_;  // by left id << 32 | right id
  std::array<int32_t, 256> byte_tokens_{};      // -1: none
  std::optional<int32_t> unk_;
  Options options_;
};

}  // namespace verlcpp::data
