#include <algorithm>
#include <limits>

#include "cpu/op_cases.h"

namespace verlcpp::test {

Tensor OpRun::from(const std::vector<double>& values, Shape shape) const {
  return upload_as(backend, dtype, values, std::move(shape), MemoryTag::kWorkspace);
}

Tensor OpRun::ints(const std::vector<int32_t>& values, Shape shape) const {
  return upload<int32_t>(backend, values, std::move(shape), MemoryTag::kWorkspace);
}

Tensor OpRun::ints(const std::vector<int32_t>& values) const {
  return ints(values, {static_cast<int64_t>(values.size())});
}

Tensor OpRun::filled(double value, Shape shape) const {
  const std::vector<double> values(static_cast<size_t>(numel_of(shape)), value);
  return from(values, std::move(shape));
}

Tensor OpRun::poisoned(Shape shape) const {
  return filled(std::numeric_limits<double>::quiet_NaN(), std::move(shape));
}

Tensor OpRun::copy_of(const Tensor& x) const {
  Tensor out = backend.allocate(x.dtype(), x.shape(), MemoryTag::kWorkspace);
  backend.copy(out, x);
  return out;
}

Tensor OpRun::converted(const Tensor& x) const {
  Tensor out = backend.allocate(dtype, x.shape(), MemoryTag::kWorkspace);
  backend.copy(out, x);
  return out;
}

AttentionSpans OpRun::spans(const std::vector<int32_t>& q_offset,
                            const std::vector<int32_t>& q_length,
                            const std::vector<int32_t>& kv_offset,
                            const std::vector<int32_t>& kv_length) const {
  const auto max_of = [](const std::vector<int32_t>& v) {
    return v.empty() ? int64_t{0} : int64_t{*std::max_element(v.begin(), v.end())};
  };
  return {ints(q_offset),  ints(q_length),   ints(kv_offset),
          ints(kv_length), max_of(q_length), max_of(kv_length)};
}

std::vector<double> random_values(int64_t n, uint64_t stream) {
  std::vector<double> out(static_cast<size_t>(n));
  const PhiloxKey key = rng_key(17, RngPurpose::kWeightInit);
  for (size_t i = 0; i < out.size(); ++i) out[i] = normal(key, stream, i);
  return out;
}

}  // namespace verlcpp::test
