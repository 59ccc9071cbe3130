#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/pattern.h"

namespace verlcpp::data {

/// A token of tokenizer.json's added_tokens, which is cut out of the text before the model sees it.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // only where no letter, digit or _ touches it
  bool lstrip = false;       // takes the white space on its left along
  bool rstrip = false;
};

/// A text [begin, end), or an added token where id >= 0.
struct Segment {
  size_t begin = 0;
  size_t end = 0;
  int32_t id = -1;
};

/// Finds added tokens in a text: the leftmost, of several the longest.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// No content is empty.
  explicit AddedTokens(std::vector<AddedToken> tokens);
  /// The non-empty parts of `text`, in order.
  std::vector<Segment> split(std::string_view text) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;
  bool stands_alone(std::string_view text, size_t begin, size_t end) const;

  std::array<std::vector<AddedToken>, 256> tokens_;  // by first byte, longest first
  std::unique_ptr<Pattern> word_;                    // a word's character, where one is asked for
};

}  // namespace verlcpp::data
