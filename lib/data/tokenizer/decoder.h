#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "data/tokenizer/pattern.h"

namespace verlcpp::data {

/// The steps of tokenizer.json's decoder. Each takes a list of tokens and gives another; the last
/// list, joined, is the text.
struct ByteLevelDecode {};     // all letters of the byte alphabet to bytes, as one token
struct ByteFallbackDecode {};  // runs of <0xHH> to characters, or to a U+FFFD each
struct FuseDecode {};          // all tokens to one
struct ReplaceDecode {
  Pattern pattern;
  std::string content;
};
struct StripDecode {
  std::string content;  // one character
  int64_t start = 0;    // at most so many go at a token's front
  int64_t stop = 0;     // and at its end
};
struct MetaspaceDecode {
  std::string replacement;  // one character
  bool drop_first = true;   // the first token's go, others are spaces
};
using DecoderStep = std::variant<ByteLevelDecode, ByteFallbackDecode, FuseDecode, ReplaceDecode,
                                 StripDecode, MetaspaceDecode>;

class Decoder {
 public:
  explicit Decoder(std::vector<DecoderStep> steps = {}) : steps_(std::move(steps)) {}

 private:
  friend class DecoderStream;
  std::vector<DecoderStep> steps_;
};

/// Decodes tokens as they come. What push and finish give, end to end, is the text of all tokens;
/// every piece is valid UTF-8, since bytes wait until they are whole characters (and bytes of
/// ByteFallback until their run ends, for one bad byte spoils it all).
class DecoderStream {
 public:
  /// `decoder` outlives the stream.
  explicit DecoderStream(const Decoder& decoder);
  /// The text that `token` completes.
  std::string push(std::string_view token);
  /// What was still waiting. The stream is at its end.
  std::string finish();

 private:
  struct State {
    bool whole = false;    // its input is one token that comes in pieces
    bool first = true;     // nothing came before
    int64_t stripped = 0;  // Strip: characters dropped at the front
    std::string held;
  };

  void feed(size_t index, std::string token);
  void take(const ByteLevelDecode&, State&, size_t next, std::string token);
  void take(const ByteFallbackDecode&, State&, size_t next, std::string token);
  void take(const FuseDecode&, State&, size_t next, std::string token);
  void take(const ReplaceDecode&, State&, size_t next, std::string token);
  void take(const StripDecode&, State&, size_t next, std::string token);
  void take(const MetaspaceDecode&, State&, size_t next, std::string token);
  void take_piece(const StripDecode&, State&, size_t next, std::string_view piece);
  void flush(State&, size_t next);  // a run of ByteFallback's bytes

  const std::vector<DecoderStep>& steps_;
  std::vector<State> states_;
  std::string out_;
};

}  // namespace verlcpp::data
