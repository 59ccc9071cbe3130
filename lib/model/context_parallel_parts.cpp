#include "model/context_parallel_parts.h"

#include <algorithm>

namespace verlcpp::model {

DType statistics_dtype(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

ChunkRows chunk_rows(int64_t length, int64_t padded, int64_t cp, int64_t member) {
  if (cp == 1) return {static_cast<int32_t>(length), 0};
  const int64_t half = padded / (2 * cp);
  const auto real = [&](int64_t chunk) {
    return static_cast<int32_t>(std::clamp<int64_t>(length - chunk * half, 0, half));
  };
  return {real(member), real(2 * cp - 1 - member)};
}

void HostSpans::append(int32_t q_first, int32_t q_rows, int32_t kv_first, int32_t kv_rows) {
  const bool empty = q_rows == 0 || kv_rows == 0;
  q_offset.push_back(q_first);
  q_length.push_back(empty ? 0 : q_rows);
  kv_offset.push_back(kv_first);
  kv_length.push_back(empty ? 0 : kv_rows);
}

bool HostSpans::has_rows() const {
  return std::any_of(q_length.begin(), q_length.end(), [](int32_t length) { return length > 0; });
}

AttentionBlock upload_block(Backend& backend, const HostBlock& host) {
  const HostSpans& spans = host.spans;
  return {host.mask,
          upload_spans(backend, spans.q_offset, spans.q_length, spans.kv_offset, spans.kv_length),
          host.computed};
}

Tensor accumulator(Backend& backend, const Tensor& x) {
  const DType wide = statistics_dtype(x.dtype());
  return wide == x.dtype() ? x : backend.allocate(wide, x.shape(), MemoryTag::kWorkspace);
}

void store(Backend& backend, const Tensor& x, const Tensor& accumulated) {
  if (accumulated.dtype() != x.dtype()) backend.copy(x, accumulated);
}

}  // namespace verlcpp::model
