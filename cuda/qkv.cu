#include "cuda/check.h"
#include "cuda/head_pairs.cuh"
#include "cuda/kernels.h"

// Between qkv, all heads of a row side by side, and q, k, v apart: bias and RoPE on the way, one
// read and one write of everything.

namespace verlcpp::cuda {
namespace {

/// T is const for reading.
template <class T>
struct Parts {
  T *q, *k, *v;
  int heads, kv_heads, half;
};

constexpr int kBlocksOfSm = 3;  // with 80 registers a thread, which hold two rows

/// Where a thread's pairs are: in a row of qkv, and in the part that has its head, a row of which
/// has `stride` elements.
template <class T, int W>
struct Place {
  __device__ Place(const Parts<T>& parts, int column) {
    const int pairs = parts.half / W, head = column / pairs, i = column % pairs * W;
    const int head_dim = 2 * parts.half, kv = head - parts.heads;
    in_head = i;
    in_row = head * head_dim + i;
    rotates = kv < parts.kv_heads;
    if (kv < 0) {
      part = parts.q + in_row;
      stride = parts.heads * head_dim;
    } else {
      part = (rotates ? parts.k + kv * head_dim : parts.v + (kv - parts.kv_heads) * head_dim) + i;
      stride = parts.kv_heads * head_dim;
    }
  }
  T* part;
  int in_head, in_row, stride;
  bool rotates;
};

template <class T>
__device__ int row_width(const Parts<T>& parts) {
  return (parts.heads + 2 * parts.kv_heads) * 2 * parts.half;
}

template <class T, int W>
__global__ void split_qkv_kernel(int64_t rows, Parts<T> to, const T* qkv, const T* bias,
                                 const float* table) {
  const int column = visited_column(), width = row_width(to), half = to.half;
  const int64_t t = visited_row();
  if (t >= rows || column * W * 2 >= width) return;
  const Place<T, W> place(to, column);
  const bool rotates = table != nullptr && place.rotates;
  // All loads before anything waits for one: with few rows their latency is the kernel's time.
  const T* from = qkv + t * width + place.in_row;
  const float* angles = table + t * 2 * half + place.in_head;
  Pack<float, W> cosine, sine;
  Pack<T, W> bias_a, bias_b;
  if (rotates) {
    cosine = load<W>(angles);
    sine = load<W>(angles + half);
  }
  if (bias != nullptr) {
    bias_a = load<W>(bias + place.in_row);
    bias_b = load<W>(bias + place.in_row + half);
  }
  float a[W], b[W];
  load_floats<T, W>(a, from);
  load_floats<T, W>(b, from + half);
  if (bias != nullptr) {
#pragma unroll
    for (int e = 0; e < W; ++e) {
      a[e] += bias_a[e];
      b[e] += bias_b[e];
    }
  }
  if (rotates) rotate<W>(a, b, cosine, sine, 1.0f);
  T* part = place.part + t * place.stride;
  store(part, a);
  store(part + half, b);
}

/// Adds up the sums of a block's rows (threadIdx.y), in order; those at a pair's place of `to` are
/// row 0's. `there` is of the column, so alike for all rows.
template <int W>
__device__ void add_up_rows(const float (&sum_a)[W], const float (&sum_b)[W], float* to, int half,
                            bool there) {
  extern __shared__ float row_sums[];  // [blockDim.y][blockDim.x][2 W]
  const int stride = static_cast<int>(blockDim.x) * 2 * W;
  float* const first = row_sums + static_cast<int>(threadIdx.x) * 2 * W;
#pragma unroll
  for (int e = 0; e < W; ++e) {
    first[static_cast<int>(threadIdx.y) * stride + e] = sum_a[e];
    first[static_cast<int>(threadIdx.y) * stride + W + e] = sum_b[e];
  }
  __syncthreads();
  if (threadIdx.y != 0 || !there) return;
  float total_a[W] = {}, total_b[W] = {};
#pragma unroll 1
  for (int y = 0; y < static_cast<int>(blockDim.y); ++y) {
#pragma unroll
    for (int e = 0; e < W; ++e) {
      total_a[e] += first[y * stride + e];
      total_b[e] += first[y * stride + W + e];
    }
  }
#pragma unroll
  for (int e = 0; e < W; ++e) {
    to[e] = total_a[e];
    to[half + e] = total_b[e];
  }
}

/// With `parts` every thread keeps the sums of its columns, and a block's go to parts[blockIdx.x].
/// Two rows at a time, both loaded before either is used: few blocks have to keep much in flight.
template <class T, int W>
__global__ void __launch_bounds__(256, kBlocksOfSm)
    split_qkv_backward_kernel(int rows, Parts<const T> from, T* d_qkv, const float* table,
                              float* parts) {
  const int column = visited_column(), width = row_width(from), half = from.half;
  const int stride = static_cast<int>(visited_stride());
  const bool there = column * W * 2 < width;
  const Place<const T, W> place(from, there ? column : 0);
  float sum_a[W] = {}, sum_b[W] = {};
  for (int first = static_cast<int>(visited_row()); there && first < rows; first += 2 * stride) {
    Pack<T, W> d_a[2], d_b[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int t = first + r * stride;
      if (t >= rows) continue;
      d_a[r] = load<W>(place.part + int64_t{t} * place.stride);
      d_b[r] = load<W>(place.part + int64_t{t} * place.stride + half);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int t = first + r * stride;
      if (t >= rows) continue;
      float a[W], b[W];
#pragma unroll
      for (int e = 0; e < W; ++e) {
        a[e] = d_a[r][e];
        b[e] = d_b[r][e];
      }
      if (table != nullptr && place.rotates) {
        rotate<W>(a, b, table + int64_t{t} * 2 * half + place.in_head, half, -1.0f);
      }
      store(d_qkv + int64_t{t} * width + place.in_row, a);
      store(d_qkv + int64_t{t} * width + place.in_row + half, b);
#pragma unroll
      for (int e = 0; e < W; ++e) {
        sum_a[e] += a[e];
        sum_b[e] += b[e];
      }
    }
  }
  if (parts == nullptr) return;
  add_up_rows<W>(sum_a, sum_b, parts + int64_t{blockIdx.x} * width + place.in_row, half, there);
}

template <class T>
Parts<T> parts_of(const QkvShape& s, T* q, T* k, T* v) {
  return {.q = q,
          .k = k,
          .v = v,
          .heads = static_cast<int>(s.heads),
          .kv_heads = static_cast<int>(s.kv_heads),
          .half = static_cast<int>(s.head_dim / 2)};
}

bool in_sixteen_pairs(DType dtype, const QkvShape& s, std::initializer_list<const void*> places) {
  return in_sixteens(s.head_dim / 2 * size_of(dtype), places);
}

}  // namespace

// 0.5B: 72 threads a row, three rows a block; 1.5B: 128, two.
void split_qkv(cudaStream_t stream, DType dtype, const QkvShape& shape, void* q, void* k, void* v,
               const void* qkv, const void* bias, const float* table) {
  if (shape.rows * shape.width() == 0) return;
  const bool wide = in_sixteen_pairs(dtype, shape, {q, k, v, qkv, bias, table});
  dispatch_wide(dtype, wide, [&]<class T, int W>() {
    const Visit visit = visit_rows(shape.rows, shape.width() / (2 * W));
    split_qkv_kernel<T, W><<<visit.grid, visit.block, 0, stream>>>(
        shape.rows, parts_of(shape, static_cast<T*>(q), static_cast<T*>(k), static_cast<T*>(v)),
        static_cast<const T*>(qkv), static_cast<const T*>(bias), table);
  });
  check_launch("split_qkv");
}

// With a bias three blocks an SM, which take rows in turn, so that few parts remain for add_rows.
void split_qkv_backward(cudaStream_t stream, DType dtype, const QkvShape& shape, void* d_qkv,
                        float* d_bias, const void* d_q, const void* d_k, const void* d_v,
                        const float* table, float* parts) {
  if (shape.rows * shape.width() == 0) return;
  const bool wide = in_sixteen_pairs(dtype, shape, {d_q, d_k, d_v, d_qkv, table});
  Visit visit;
  dispatch_wide(dtype, wide, [&]<class T, int W>() {
    visit = visit_rows(shape.rows, shape.width() / (2 * W),
                       d_bias == nullptr ? int64_t{1} << 30 : kBlocksOfSm * kSms);
    const size_t shared =
        d_bias == nullptr ? 0 : visit.block.x * visit.block.y * 2 * W * sizeof(float);
    split_qkv_backward_kernel<T, W><<<visit.grid, visit.block, shared, stream>>>(
        static_cast<int>(shape.rows),
        parts_of(shape, static_cast<const T*>(d_q), static_cast<const T*>(d_k),
                 static_cast<const T*>(d_v)),
        static_cast<T*>(d_qkv), table, d_bias == nullptr ? nullptr : parts);
  });
  check_launch("split_qkv_backward");
  if (d_bias != nullptr) add_rows(stream, visit.grid.x, shape.width(), d_bias, parts);
}

}  // namespace verlcpp::cuda
