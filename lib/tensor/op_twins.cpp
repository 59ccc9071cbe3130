#include "tensor/op_twins.h"

#include <algorithm>

#include "base/error.h"

namespace verlcpp {
namespace {

bool is_integer(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

void poison(Backend& backend, const Tensor& x) {
  // All bits set is a NaN in every floating dtype.
  backend.write(x, std::vector<std::byte>(static_cast<size_t>(x.bytes()), std::byte{0xFF}));
}

template <class T>
std::vector<double> integers(Backend& backend, const Tensor& x) {
  std::vector<T> values(static_cast<size_t>(x.numel()));
  backend.read(std::as_writable_bytes(std::span(values)), x);
  return {values.begin(), values.end()};
}

}  // namespace

OpTensor OpTensor::at_least(double scale) const {
  OpTensor changed = *this;
  changed.least_scale = std::max(least_scale, scale);
  return changed;
}

OpTensor OpTensor::within(double limit) const {
  OpTensor changed = *this;
  changed.tolerance = limit;
  return changed;
}

OpTensor OpTensor::in_columns(int64_t n) const {
  OpTensor changed = *this;
  changed.columns = n;
  return changed;
}

Tensor moved(Backend& subject, Backend& reference, const Tensor& x) {
  std::vector<std::byte> bytes(static_cast<size_t>(x.bytes()));
  subject.read(bytes, x);
  Tensor copy = reference.allocate(x.dtype(), x.shape(), MemoryTag::kWorkspace);
  reference.write(copy, bytes);
  return copy;
}

std::vector<double> values_of(Backend& backend, const Tensor& x) {
  if (x.dtype() == DType::kInt32) return integers<int32_t>(backend, x);
  if (x.dtype() == DType::kInt64) return integers<int64_t>(backend, x);
  return download(backend, x);
}

OpTwins::OpTwins(Backend& subject, Backend& reference, DType float_dtype,
                 std::span<const OpTensor> tensors)
    : subject_(subject), reference_(reference), float_dtype_(float_dtype) {
  std::vector<Region> all;
  for (const OpTensor& t : tensors) {
    const Tensor& x = t.tensor;
    if (x.numel() > 0) all.push_back({x.data(), x.data() + x.bytes(), x.dtype(), t.read});
  }
  std::sort(all.begin(), all.end(),
            [](const Region& a, const Region& b) { return a.begin < b.begin; });
  for (const Region& next : all) {
    if (regions_.empty() || next.begin >= regions_.back().end) {
      regions_.push_back(next);
      continue;
    }
    Region& last = regions_.back();
    expects(size_of(last.dtype) == size_of(next.dtype) &&
                twin_dtype(last.dtype) == twin_dtype(next.dtype),
            "tensors of two dtypes share memory in one op");
    last.end = std::max(last.end, next.end);
    if (next.read && !last.read) last.dtype = next.dtype;  // what is read says what is there
    last.read = last.read || next.read;
  }
  for (Region& region : regions_) region.twin = twin_of(region);
}

Tensor OpTwins::of(const Tensor& x) const {
  if (!x.defined()) return x;
  if (x.numel() == 0) {
    return reference_.allocate(twin_dtype(x.dtype()), x.shape(), MemoryTag::kWorkspace);
  }
  for (const Region& region : regions_) {
    if (x.data() < region.begin || x.data() + x.bytes() > region.end) continue;
    expects(twin_dtype(x.dtype()) == region.twin.dtype(),
            "a tensor of another dtype than its memory has in this op");
    return region.twin.slice((x.data() - region.begin) / size_of(x.dtype()), x.shape());
  }
  expects(false, "an op uses a tensor that CheckedBackend does not list for it");
  return {};
}

DType OpTwins::twin_dtype(DType dtype) const {
  return is_integer(dtype) || dtype == DType::kFloat64 ? dtype : float_dtype_;
}

Tensor OpTwins::twin_of(const Region& region) const {
  const int64_t n = (region.end - region.begin) / size_of(region.dtype);
  const Tensor original(region.dtype, {n}, nullptr, region.begin);
  const DType dtype = twin_dtype(region.dtype);
  if (region.read && dtype == region.dtype) return moved(subject_, reference_, original);
  Tensor twin = reference_.allocate(dtype, {n}, MemoryTag::kWorkspace);
  if (region.read) {
    reference_.copy(twin, moved(subject_, reference_, original));
  } else {
    poison(subject_, original);
    poison(reference_, twin);
  }
  return twin;
}

}  // namespace verlcpp
