#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tensor/backend.h"

namespace verlcpp::test {

/// What a case's forward hands on. `outputs` are differentiated; `saved` is what backward needs
/// besides.
struct OpResult {
  std::vector<Tensor> outputs, saved;
};

/// Where a case runs: backend and compute dtype, with helpers for the tensors it makes.
struct OpRun {
  Backend& backend;
  DType dtype;

  Tensor from(const std::vector<double>& values, Shape shape) const;
  Tensor ints(const std::vector<int32_t>& values, Shape shape) const;
  Tensor ints(const std::vector<int32_t>& values) const;
  /// Filled with `value`.
  Tensor filled(double value, Shape shape) const;
  /// An output to be overwritten: NaN until the op writes it.
  Tensor poisoned(Shape shape) const;
  /// A gradient to be accumulated into, which starts at kGradStart.
  Tensor grad_start(Shape shape) const { return filled(kGradStart, std::move(shape)); }
  Tensor copy_of(const Tensor& x) const;
  /// A copy in this run's dtype.
  Tensor converted(const Tensor& x) const;
  AttentionSpans spans(const std::vector<int32_t>& q_offset, const std::vector<int32_t>& q_length,
                       const std::vector<int32_t>& kv_offset,
                       const std::vector<int32_t>& kv_length) const;

  /// The same in the dtype of statistics and of parameters' gradients: at least float32.
  OpRun wide() const {
    return {backend, dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32};
  }

  static constexpr double kGradStart = 0.5;
};

struct OpInput {
  Shape shape;
  /// Whether backward returns kGradStart + gradient instead of the gradient.
  bool accumulates = false;
};

/// One row of the op table: an op on random inputs of these shapes, and the gradient of a scalar
/// function of its outputs with respect to each input.
struct OpCase {
  std::string name;
  std::vector<OpInput> inputs;
  std::function<OpResult(const OpRun&, const std::vector<Tensor>& inputs)> forward;
  std::function<std::vector<Tensor>(const OpRun&, const std::vector<Tensor>& inputs,
                                    const OpResult& result, const std::vector<Tensor>& d_outputs)>
      backward;
};

/// Every op with a backward, on odd, prime and empty shapes.
std::vector<OpCase> op_cases();
/// The rows of op_cases() that concern norms, rotation and activation.
std::vector<OpCase> layer_cases();
/// Like those, with wider rows, or more of them than a GPU takes at a time: too large for central
/// differences, and not in op_cases().
std::vector<OpCase> large_layer_cases();
/// Of gate and up, with rows enough for tiles of products.
std::vector<OpCase> large_gate_up_cases();
/// The rows of op_cases() that concern the head's statistics, with logits kept as the run's dtype
/// keeps them, or `shifted` as a narrow one does; and larger ones, not in op_cases().
std::vector<OpCase> head_cases(bool shifted);
std::vector<OpCase> large_head_cases();
/// Those that concern attention.
std::vector<OpCase> attention_cases();

/// The same with inputs and gradients one element behind where memory is aligned.
OpCase misplaced(OpCase c);

/// Standard normal values, a function of (stream, index).
std::vector<double> random_values(int64_t n, uint64_t stream);

}  // namespace verlcpp::test
