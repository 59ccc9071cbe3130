#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "tensor/tensor.h"

namespace verlcpp::cuda {

/// Matrix products by cuBLAS on one stream, float32 accumulation, no TF32.
class Matmul {
 public:
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;  // what cuBLAS wants on Hopper
  Matmul(cudaStream_t stream, Tensor workspace);
  ~Matmul();
  /// Backend::matmul; c may be float32 where a and b are bfloat16.
  void run(const Tensor& c_MN, const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
           bool accumulate) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace verlcpp::cuda
