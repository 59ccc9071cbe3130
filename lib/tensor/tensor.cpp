#include "tensor/tensor.h"

#include <utility>

#include "base/error.h"

namespace verlcpp {

int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
  }
  expects(false, "unknown dtype");
  return 0;
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return "float64";
    case DType::kFloat32:
      return "float32";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
  }
  expects(false, "unknown dtype");
  return "";
}

std::optional<DType> dtype_named(std::string_view name) {
  for (DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                      DType::kInt32, DType::kInt64}) {
    if (name == name_of(dtype)) return dtype;
  }
  return std::nullopt;
}

int64_t numel_of(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Tensor::Tensor(DType dtype, Shape shape, std::shared_ptr<std::byte> buffer, std::byte* data)
    : dtype_(dtype),
      shape_(std::move(shape)),
      numel_(numel_of(shape_)),
      buffer_(std::move(buffer)),
      data_(data) {
  for (int64_t d : shape_) expects(d >= 0, "a tensor dimension is negative");
}

Tensor Tensor::rows(int64_t first, int64_t count) const {
  expects(!shape_.empty() && first >= 0 && count >= 0 && first + count <= shape_[0],
          "row range outside of the tensor");
  Shape shape = shape_;
  shape[0] = count;
  const int64_t row = shape_[0] == 0 ? 0 : numel_ / shape_[0];
  return {dtype_, std::move(shape), buffer_, data_ + first * row * size_of(dtype_)};
}

Tensor Tensor::slice(int64_t first, Shape shape) const {
  expects(first >= 0 && first + numel_of(shape) <= numel_, "slice outside of the tensor");
  return {dtype_, std::move(shape), buffer_, data_ + first * size_of(dtype_)};
}

Tensor Tensor::view(Shape shape) const {
  expects(numel_of(shape) == numel_, "view with another number of elements");
  return {dtype_, std::move(shape), buffer_, data_};
}

Tensor Tensor::memory_for(DType dtype) const {
  expects(size_of(dtype) == size_of(dtype_),
          "elements of another size do not fit a tensor's memory");
  return {dtype, shape_, buffer_, data_};
}

void Tensor::check_dtype(DType wanted) const {
  if (dtype_ == wanted) return;
  expects(false, std::string("tensor is ") + std::string(name_of(dtype_)) + ", used as " +
                     std::string(name_of(wanted)));
}

}  // namespace verlcpp
