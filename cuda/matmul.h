#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "tensor/tensor.h"

namespace verlcpp::cuda {

/// Matrix products by cuBLASLt on one stream, float32 accumulation, no TF32.
class Matmul {
 public:
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;  // what cuBLAS wants on Hopper
  static constexpr int64_t kFloat32Summands = 2048;              // of float32, added up at a time
  /// `tuned`: of bfloat16, the fastest of the library's algorithms is found while products are
  /// made, so the last bits of a result may differ between runs. Else each shape has one algorithm,
  /// always the same. `before_each`: called before each of the library's products.
  Matmul(cudaStream_t stream, Tensor workspace, bool tuned, std::function<void()> before_each);
  ~Matmul();
  /// Backend::matmul; c may be float32 where a and b are bfloat16.
  void run(const Tensor& c_MN, const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
           bool accumulate);

  /// Products so far that were to find the fastest algorithm.
  int64_t trials() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace verlcpp::cuda
