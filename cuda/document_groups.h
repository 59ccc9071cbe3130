#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace verlcpp::cuda {

/// The smallest power of two that is not less.
int64_t power_of_two(int64_t n);

/// Documents of one attention call that cuDNN computes together. The three buckets are powers of
/// two and the shape of the plan that fits: a plan for a bucket serves every call that falls into
/// it.
struct DocumentGroup {
  int64_t documents = 0, bucket = 0;  // entries from `documents` on are empty documents
  int64_t q_bucket = 0, kv_bucket = 0;
  std::vector<int32_t> order;  // which ones; empty: all of the call
};

/// All documents in one group; or, where `by_length`, one group a pair of length buckets, shortest
/// first, without the documents that lack q or kv rows. One length a document in each span.
std::vector<DocumentGroup> document_groups(std::span<const int32_t> q_lengths,
                                           std::span<const int32_t> kv_lengths, bool by_length);

}  // namespace verlcpp::cuda
