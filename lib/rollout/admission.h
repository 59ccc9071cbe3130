#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rollout/kv_blocks.h"
#include "rollout/request.h"

namespace verlcpp::rollout {

/// A sequence being decoded. Its prompt's last token is the first that is decoded; those before it
/// are prefilled.
struct Sequence {
  size_t request = 0;
  std::vector<int32_t> table;  // its blocks of the KV cache
  int32_t made = 0;            // response tokens asked of the device so far
};

/// A prompt less its last token, and the cache rows for it.
struct PromptPart {
  std::span<const int32_t> token_ids;
  std::vector<int32_t> rows;
};

/// Work before the sequences that were let in can be decoded: prompts first, then copies.
struct Preparation {
  std::vector<PromptPart> prompts;
  std::vector<int32_t> copy_from, copy_to;  // cache rows
};

/// Lets requests in, in their order, and keeps the book of cache blocks. Responses to one prompt
/// hold its whole blocks together; of the block that is part prompt, part response, each has a
/// copy.
class Admission {
 public:
  Admission(std::span<const Request> requests, int64_t slots, int64_t max_response_length);

  /// Blocks the KV cache needs, and of one sequence at most.
  int64_t blocks() const { return blocks_; }
  int64_t table_length() const { return table_length_; }
  bool waiting() const { return next_ < requests_.size(); }
  /// As many as there are requests and free slots, once it is worth while; `active` gets them at
  /// its end.
  Preparation admit(std::vector<Sequence>& active);
  void leave(const Sequence& sequence) { free_.release(sequence.table); }

 private:
  /// The prompt of the last request let in, while others with it wait: its blocks, which the first
  /// response holds too, are held here so that they stay.
  struct Prompt {
    std::vector<int32_t> blocks;
    size_t waiting = 0;
  };
  Sequence first_of_prompt(Preparation& preparation);
  Sequence next_of_prompt(Preparation& preparation);
  int64_t blocks_of(const Request& request) const;
  size_t siblings() const;

  std::span<const Request> requests_;
  int64_t slots_, max_response_length_, table_length_ = 0, blocks_;
  KvBlocks free_;
  size_t next_ = 0;
  Prompt prompt_;
  std::vector<int32_t> spent_;  // of prompts that nobody waits for any more
};

}  // namespace verlcpp::rollout
