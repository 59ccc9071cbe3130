#include "cuda/matmul.h"

#include <cublas_v2.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "cuda/check.h"
#include "cuda/library.h"

namespace verlcpp::cuda {
namespace {

using GemmEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                              const void*, const void*, cudaDataType, int, const void*,
                              cudaDataType, int, const void*, void*, cudaDataType, int,
                              cublasComputeType_t, cublasGemmAlgo_t);  // overloaded in C++

/// The functions used.
struct Cublas {
  Library library{"matrix products", {"libcublas.so.13", "libcublas.so.12"}};
  decltype(cublasCreate_v2)* create =
      library.function<decltype(cublasCreate_v2)>("cublasCreate_v2");
  decltype(cublasDestroy_v2)* destroy =
      library.function<decltype(cublasDestroy_v2)>("cublasDestroy_v2");
  decltype(cublasSetStream_v2)* set_stream =
      library.function<decltype(cublasSetStream_v2)>("cublasSetStream_v2");
  decltype(cublasSetWorkspace_v2)* set_workspace =
      library.function<decltype(cublasSetWorkspace_v2)>("cublasSetWorkspace_v2");
  GemmEx* gemm = library.function<GemmEx>("cublasGemmEx");
};

void check_cublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(std::string("cuBLAS: ") + what + " failed with status " +
                    std::to_string(static_cast<int>(status)));
}

cudaDataType type_of(const Tensor& x) {
  expects(x.dtype() == DType::kFloat32 || x.dtype() == DType::kBFloat16,
          "CUDA multiplies float32 and bfloat16");
  return x.dtype() == DType::kFloat32 ? CUDA_R_32F : CUDA_R_16BF;
}

}  // namespace

struct Matmul::State {
  Cublas cublas;
  cublasHandle_t handle = nullptr;
  Tensor workspace;
};

Matmul::Matmul(cudaStream_t stream, Tensor workspace) : state_(std::make_unique<State>()) {
  State& s = *state_;
  check_cublas(s.cublas.create(&s.handle), "cublasCreate");
  check_cublas(s.cublas.set_stream(s.handle, stream), "cublasSetStream");
  s.workspace = std::move(workspace);
  check_cublas(s.cublas.set_workspace(s.handle, s.workspace.data(),
                                      static_cast<size_t>(s.workspace.bytes())),
               "cublasSetWorkspace");
}

Matmul::~Matmul() {
  if (state_->handle != nullptr) state_->cublas.destroy(state_->handle);
}

// cuBLAS is column-major, so a row-major c = op(a) op(b) is asked for as c^T = op(b)^T op(a)^T.
void Matmul::run(const Tensor& c, const Tensor& a, const Tensor& b, bool transpose_a,
                 bool transpose_b, bool accumulate) const {
  const int64_t m = c.dim(0), n = c.dim(1), k = a.dim(transpose_a ? 0 : 1);
  const float one = 1, beta = accumulate ? 1 : 0;
  check_cublas(state_->cublas.gemm(state_->handle, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                                   transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, static_cast<int>(n),
                                   static_cast<int>(m), static_cast<int>(k), &one, b.data(),
                                   type_of(b), static_cast<int>(b.dim(1)), a.data(), type_of(a),
                                   static_cast<int>(a.dim(1)), &beta, c.data(), type_of(c),
                                   static_cast<int>(n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
               "cublasGemmEx");
}

}  // namespace verlcpp::cuda
