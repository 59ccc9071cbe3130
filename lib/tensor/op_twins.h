#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/backend.h"

namespace verlcpp {

/// One tensor of an op that two backends run: what the op does with it and, for an output, what may
/// differ. Refers to a Tensor that must outlive it.
struct OpTensor {
  /// The output's scale is at least this: that of terms whose sum may cancel, their rounding not.
  OpTensor at_least(double scale) const;
  /// In place of the tolerance of the dtypes.
  OpTensor within(double tolerance) const;
  /// The op moves data and computes nothing.
  OpTensor exact() const { return within(0); }
  /// Element i is in column i % n, and each column has a scale of its own.
  OpTensor in_columns(int64_t n) const;

  const Tensor& tensor;
  bool read, written;
  const char* name;
  double least_scale = 1e-30;
  std::optional<double> tolerance = std::nullopt;
  int64_t columns = 1;
};

/// An input.
inline OpTensor reads(const Tensor& x) { return {x, true, false, ""}; }
/// An output that is written over, all of it.
inline OpTensor writes(const char* name, const Tensor& x) { return {x, false, true, name}; }
/// An output that is added to, or changed in place or in part.
inline OpTensor changes(const char* name, const Tensor& x) { return {x, true, true, name}; }

/// The reference's tensors for one op: a copy of everything the op reads, made when this is made.
/// Tensors that share memory on the subject share it here too. What the op only writes over is
/// filled with NaN (integers with -1) on both sides, so that an element left out shows.
class OpTwins {
 public:
  /// Floating tensors become `float_dtype` on the reference, except that float64 stays.
  OpTwins(Backend& subject, Backend& reference, DType float_dtype,
          std::span<const OpTensor> tensors);

  /// The reference's tensor for a tensor of the op (or a view into one).
  Tensor of(const Tensor& x) const;

 private:
  struct Region {  // memory of the subject that one or several tensors of the op cover
    std::byte* begin;
    std::byte* end;
    DType dtype;
    bool read;
    Tensor twin = {};
  };
  Tensor twin_of(const Region& region) const;
  DType twin_dtype(DType dtype) const;

  Backend& subject_;
  Backend& reference_;
  DType float_dtype_;
  std::vector<Region> regions_;  // rising, apart
};

/// A tensor of `reference` with the bytes of the subject's `x`.
Tensor moved(Backend& subject, Backend& reference, const Tensor& x);
/// download(), integers included.
std::vector<double> values_of(Backend& backend, const Tensor& x);

}  // namespace verlcpp
