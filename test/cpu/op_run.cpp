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
  return upload_spans(backend, q_offset, q_length, kv_offset, kv_length);
}

OpCase misplaced(OpCase c) {
  const auto moved = [](const OpRun& run, const std::vector<Tensor>& tensors) {
    std::vector<Tensor> out;
    for (const Tensor& x : tensors) {
      const Tensor room = run.backend.allocate(x.dtype(), {x.numel() + 1}, MemoryTag::kWorkspace);
      run.backend.fill_zero(room);
      out.push_back(room.slice(1, x.shape()));
      run.backend.copy(out.back(), x);
    }
    return out;
  };
  c.name += " misplaced";
  c.forward = [=, forward = c.forward](const OpRun& run, const std::vector<Tensor>& inputs) {
    return forward(run, moved(run, inputs));
  };
  c.backward = [=, backward = c.backward](const OpRun& run, const std::vector<Tensor>& inputs,
                                          const OpResult& result,
                                          const std::vector<Tensor>& d_outputs) {
    return backward(run, moved(run, inputs), result, moved(run, d_outputs));
  };
  return c;
}

std::vector<double> random_values(int64_t n, uint64_t stream) {
  std::vector<double> out(static_cast<size_t>(n));
  const PhiloxKey key = rng_key(17, RngPurpose::kWeightInit);
  for (size_t i = 0; i < out.size(); ++i) out[i] = normal(key, stream, i);
  return out;
}

}  // namespace verlcpp::test
