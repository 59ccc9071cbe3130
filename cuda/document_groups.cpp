#include "cuda/document_groups.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace verlcpp::cuda {

int64_t power_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
}

namespace {

constexpr int64_t kShortestBucket = 128;

int64_t length_bucket(int64_t length) { return std::max(kShortestBucket, power_of_two(length)); }

DocumentGroup make_group(int64_t documents, int64_t q_bucket, int64_t kv_bucket,
                         std::vector<int32_t> order) {
  return {.documents = documents,
          .bucket = power_of_two(documents),
          .q_bucket = q_bucket,
          .kv_bucket = kv_bucket,
          .order = std::move(order)};
}

}  // namespace

std::vector<DocumentGroup> document_groups(std::span<const int32_t> q_lengths,
                                           std::span<const int32_t> kv_lengths, bool by_length) {
  if (!by_length) {
    const auto longest = [](std::span<const int32_t> lengths) -> int64_t {
      return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
    };
    return {make_group(static_cast<int64_t>(q_lengths.size()), length_bucket(longest(q_lengths)),
                       length_bucket(longest(kv_lengths)), {})};
  }
  std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>> documents_of;
  for (size_t s = 0; s < q_lengths.size(); ++s) {
    const int64_t q = q_lengths[s], kv = kv_lengths[s];
    if (q == 0 || kv == 0) continue;
    documents_of[{length_bucket(q), length_bucket(kv)}].push_back(static_cast<int32_t>(s));
  }
  std::vector<DocumentGroup> groups;
  for (auto& [buckets, documents] : documents_of) {
    const auto count = static_cast<int64_t>(documents.size());
    groups.push_back(make_group(count, buckets.first, buckets.second, std::move(documents)));
  }
  return groups;
}

}  // namespace verlcpp::cuda
