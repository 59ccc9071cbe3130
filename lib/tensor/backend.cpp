#include "tensor/backend.h"

#include "base/error.h"

namespace verlcpp {

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
