#include <cblas.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "base/error.h"
#include "cpu/kernels.h"

namespace verlcpp::cpu {
namespace {

blasint blas_size(int64_t n) {
  expects(n >= 0 && n <= std::numeric_limits<blasint>::max(),
          "matrix size outside of BLAS's range");
  return static_cast<blasint>(n);
}

/// y = alpha op(m) x + beta y with m [rows, columns].
template <class T>
void gemv(bool transpose, int64_t rows, int64_t columns, T alpha, const T* m, int64_t stride,
          const T* x, int64_t x_step, T beta, T* y) {
  const auto op = transpose ? CblasTrans : CblasNoTrans;
  if constexpr (sizeof(T) == sizeof(float)) {
    cblas_sgemv(CblasRowMajor, op, blas_size(rows), blas_size(columns), alpha, m, blas_size(stride),
                x, blas_size(x_step), beta, y, 1);
  } else {
    cblas_dgemv(CblasRowMajor, op, blas_size(rows), blas_size(columns), alpha, m, blas_size(stride),
                x, blas_size(x_step), beta, y, 1);
  }
}

}  // namespace

template <class T>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) {  // BLAS would check the row strides of empty operands
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = beta == T{0} ? T{0} : beta * c[i * ldc + j];
    }
    return;
  }
  if (m == 1) {  // decoding: gemm would first copy all of b into its blocks
    gemv(!transpose_b, transpose_b ? n : k, transpose_b ? k : n, alpha, b, ldb, a,
         transpose_a ? lda : 1, beta, c);
    return;
  }
  const auto op_a = transpose_a ? CblasTrans : CblasNoTrans;
  const auto op_b = transpose_b ? CblasTrans : CblasNoTrans;
  if constexpr (sizeof(T) == sizeof(float)) {
    cblas_sgemm(CblasRowMajor, op_a, op_b, blas_size(m), blas_size(n), blas_size(k), alpha, a,
                blas_size(lda), b, blas_size(ldb), beta, c, blas_size(ldc));
  } else {
    cblas_dgemm(CblasRowMajor, op_a, op_b, blas_size(m), blas_size(n), blas_size(k), alpha, a,
                blas_size(lda), b, blas_size(ldb), beta, c, blas_size(ldc));
  }
}

template void gemm(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,
                   const float*, int64_t, float, float*, int64_t);
template void gemm(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,
                   const double*, int64_t, double, double*, int64_t);

void use_single_threaded_blas() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}

}  // namespace verlcpp::cpu
