#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

/// One thread a (token, pair): its angle serves all heads. The angle is reduced in double, since
/// position * inv_freq in float loses digits that a sine of a long context needs.
template <class T>
__global__ void rope_kernel(int64_t rows, int64_t heads, int64_t half, T* x,
                            const int32_t* positions, const float* inv_freq, float sign) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t k = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < rows * half; k += stride) {
    const int64_t t = k / half, i = k % half;
    double sine, cosine;
    sincos(static_cast<double>(positions[t]) * static_cast<double>(inv_freq[i]), &sine, &cosine);
    const float c = static_cast<float>(cosine), s = sign * static_cast<float>(sine);
    T* head = x + t * heads * 2 * half + i;
    for (int64_t n = 0; n < heads; ++n, head += 2 * half) {
      const float a = to_float(head[0]), b = to_float(head[half]);
      head[0] = from_float<T>(a * c - b * s);
      head[half] = from_float<T>(b * c + a * s);
    }
  }
}

}  // namespace

void rope(cudaStream_t stream, DType dtype, int64_t rows, int64_t heads, int64_t head_dim, void* x,
          const int32_t* positions, const float* inv_freq, bool inverse) {
  const int64_t half = head_dim / 2;
  if (rows * half == 0) return;
  dispatch(dtype, [&]<class T>() {
    rope_kernel<<<grid_for(rows * half, 128, 16384), 128, 0, stream>>>(
        rows, heads, half, static_cast<T*>(x), positions, inv_freq, inverse ? -1.0f : 1.0f);
  });
  check_launch("rope");
}

}  // namespace verlcpp::cuda
