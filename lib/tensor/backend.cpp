#include "tensor/backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace verlcpp {
namespace {

std::vector<DType> dtypes_of(const std::vector<Tensor>& tensors) {
  std::vector<DType> dtypes;
  for (const Tensor& x : tensors) {
    expects(x.dtype() == DType::kFloat32 || x.dtype() == DType::kFloat64,
            "host code computes on tensors of float32 and float64");
    dtypes.push_back(x.dtype());
  }
  return dtypes;
}

template <class T>
std::vector<double> widened(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

template <class T>
void narrow(std::span<std::byte> bytes, const std::vector<double>& values) {
  const std::vector<T> narrowed(values.begin(), values.end());
  expects(narrowed.size() * sizeof(T) == bytes.size(), "host code changed the size of an output");
  if (!bytes.empty()) std::memcpy(bytes.data(), narrowed.data(), bytes.size());
}

}  // namespace

HostWork compute_on_host(Backend& backend, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& outputs,
                         std::function<void(const HostValues& inputs, HostValues& outputs)> code) {
  auto on_bytes = [from = dtypes_of(inputs), to = dtypes_of(outputs), code = std::move(code)](
                      auto in, auto out) {
    HostValues given, made;
    for (size_t i = 0; i < in.size(); ++i) {
      given.push_back(from[i] == DType::kFloat64 ? widened<double>(in[i]) : widened<float>(in[i]));
    }
    for (size_t i = 0; i < out.size(); ++i) {
      made.emplace_back(out[i].size() / static_cast<size_t>(size_of(to[i])));
    }
    code(given, made);
    for (size_t i = 0; i < out.size(); ++i) {
      to[i] == DType::kFloat64 ? narrow<double>(out[i], made[i]) : narrow<float>(out[i], made[i]);
    }
  };
  return backend.run_on_host(inputs, outputs, std::move(on_bytes));
}

KeptLogits KeptLogits::rows(int64_t first, int64_t count) const {
  KeptLogits part;
  if (values_RV.defined()) part.values_RV = values_RV.rows(first, count);
  if (shift_RG.defined()) part.shift_RG = shift_RG.rows(first, count);
  return part;
}

KeptLogits allocate_kept(Backend& backend, DType dtype, int64_t rows, int64_t vocab) {
  const auto logits = [&](DType of, int64_t columns) {
    return backend.allocate(of, {rows, columns}, MemoryTag::kLogits);
  };
  if (size_of(dtype) >= size_of(DType::kFloat32)) return {logits(dtype, vocab), {}};
  return {logits(DType::kFloat16, vocab), logits(DType::kFloat32, kept_groups(vocab))};
}

AttentionSpans upload_spans(Backend& backend, std::span<const int32_t> q_offset,
                            std::span<const int32_t> q_length, std::span<const int32_t> kv_offset,
                            std::span<const int32_t> kv_length) {
  const auto up = [&](std::span<const int32_t> values) {
    return upload<int32_t>(backend, values, {static_cast<int64_t>(values.size())},
                           MemoryTag::kWorkspace);
  };
  const auto maximum = [](std::span<const int32_t> values) -> int64_t {
    return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  };
  return {.q_offset_S = up(q_offset),
          .q_length_S = up(q_length),
          .kv_offset_S = up(kv_offset),
          .kv_length_S = up(kv_length),
          .q_lengths = {q_length.begin(), q_length.end()},
          .kv_lengths = {kv_length.begin(), kv_length.end()},
          .max_q_length = maximum(q_length),
          .max_kv_length = maximum(kv_length),
          .backend_state = nullptr};
}

Tensor upload_as(Backend& backend, DType dtype, std::span<const double> values, Shape shape,
                 MemoryTag tag) {
  if (dtype == DType::kFloat64) return upload<double>(backend, values, std::move(shape), tag);
  const std::vector<float> narrow(values.begin(), values.end());
  Tensor single = upload<float>(backend, narrow, shape, tag);
  if (dtype == DType::kFloat32) return single;
  Tensor out = backend.allocate(dtype, std::move(shape), tag);
  backend.copy(out, single);
  return out;
}

std::vector<double> download(Backend& backend, const Tensor& x) {
  std::vector<double> out(static_cast<size_t>(x.numel()));
  if (x.dtype() == DType::kFloat64) {
    backend.read(std::as_writable_bytes(std::span(out)), x);
    return out;
  }
  Tensor single = x;
  if (x.dtype() != DType::kFloat32) {
    single = backend.allocate(DType::kFloat32, x.shape(), MemoryTag::kWorkspace);
    backend.copy(single, x);
  }
  std::vector<float> narrow(out.size());
  backend.read(std::as_writable_bytes(std::span(narrow)), single);
  out.assign(narrow.begin(), narrow.end());
  return out;
}

}  // namespace verlcpp
