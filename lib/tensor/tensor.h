#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace verlcpp {

using Shape = std::vector<int64_t>;

int64_t numel_of(const Shape& shape);
std::string to_string(const Shape& shape);

/// A dense row-major view of a buffer: dtype, shape and a shared hold on the memory. Copying a
/// Tensor copies the view, never the data. Does no maths. The memory is the device's: only a
/// Backend may follow `data()`.
class Tensor {
 public:
  Tensor() = default;
  /// `buffer` must hold at least numel(shape) * size_of(dtype) bytes from `data`.
  Tensor(DType dtype, Shape shape, std::shared_ptr<std::byte> buffer, std::byte* data);

  bool defined() const { return data_ != nullptr || buffer_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t dim(size_t axis) const { return shape_.at(axis); }
  int64_t numel() const { return numel_; }
  int64_t bytes() const { return numel_ * size_of(dtype_); }
  std::byte* data() const { return data_; }

  /// The typed pointer; expects(T matches dtype).
  template <class T>
  T* as() const {
    check_dtype(DTypeOf<T>::value);
    return reinterpret_cast<T*>(data_);
  }

  /// Rows [first, first + count) of the first axis.
  Tensor rows(int64_t first, int64_t count) const;
  /// Elements [first, first + numel(shape)) of the flat data, viewed as `shape`.
  Tensor slice(int64_t first, Shape shape) const;
  /// The same data under another shape of the same numel.
  Tensor view(Shape shape) const;
  /// The same memory, for elements of another dtype of the same size.
  Tensor memory_for(DType dtype) const;

 private:
  void check_dtype(DType wanted) const;

  DType dtype_ = DType::kFloat32;
  Shape shape_;
  int64_t numel_ = 0;
  std::shared_ptr<std::byte> buffer_;
  std::byte* data_ = nullptr;
};

}  // namespace verlcpp
