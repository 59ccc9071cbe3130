#include <bit>

#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"
#include "tensor/cuda_limits.h"

// A row is read once: a team of lanes holds it in registers between the sum over it and its use.
// Lanes are threadIdx.x, up to a warp (a power of two) or whole warps; teams are threadIdx.y.

namespace verlcpp::cuda {
namespace {

/// Sum over a team, whose warps meet once: `turn` alternates between two sums in a row, so that
/// none writes what others still read. Teams take part together, or `apart`, at a barrier of each
/// team's own: a block has 16, of which __syncthreads uses one.
template <bool apart = false>
__device__ float team_sum(float value, int turn) {
  __shared__ float shared[2][32];
  const int lanes = static_cast<int>(blockDim.x);
  for (int offset = min(lanes, 32) / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  if (lanes <= 32) return value;
  const int first = static_cast<int>(threadIdx.y) * (lanes / 32);
  const int warp = first + static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) shared[turn][warp] = value;
  if constexpr (apart) {
    asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(lanes) : "memory");
  } else {
    __syncthreads();
  }
  float sum = 0;
  for (int w = 0; w < lanes / 32; ++w) sum += shared[turn][first + w];
  return sum;
}

/// The columns of a lane's k-th pack begin here.
template <int W>
__device__ int column_of(int k) {
  return (k * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * W;
}

/// A lane's packs of the row at `from`; zeros behind its end, and where there is no row.
template <class T, int W, int K>
__device__ void load_row(Pack<T, W> (&row)[K], const T* from, int width, bool there) {
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int column = column_of<W>(k);
    row[k] = there && column < width ? load<W>(from + column) : Pack<T, W>{};
  }
}

/// The sum of a pack's squares, rounded alike wherever it is formed.
template <class T, int W>
__device__ float squares_of(const Pack<T, W>& pack) {
  float sum = __fmul_rn(pack[0], pack[0]);
#pragma unroll
  for (int e = 1; e < W; ++e) sum = __fmaf_rn(pack[e], pack[e], sum);
  return sum;
}

template <class T, int W>
__device__ Pack<T, W> sum_of(const Pack<T, W>& a, const Pack<T, W>& b) {
  float sum[W];
#pragma unroll
  for (int e = 0; e < W; ++e) sum[e] = a[e] + b[e];
  return Pack<T, W>::of(sum);
}

template <class T, int W>
__device__ Pack<T, W> normed(const Pack<T, W>& row, float scale, const Pack<T, W>& weight) {
  float out[W];
#pragma unroll
  for (int e = 0; e < W; ++e) out[e] = row[e] * scale * weight[e];
  return Pack<T, W>::of(out);
}

template <class T, int W, int K>
__global__ void rms_norm_kernel(int64_t rows, int width, T* y, float* rstd, const T* x, const T* w,
                                float eps, T* sum, const T* b) {
  const int64_t t = int64_t{blockIdx.x} * blockDim.y + threadIdx.y, start = t * width;
  const bool there = t < rows;  // the lanes of other rows sum along
  Pack<T, W> row[K];
  load_row<T, W, K>(row, x + start, width, there);
  if (b != nullptr) {
    Pack<T, W> other[K];
    load_row<T, W, K>(other, b + start, width, there);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      row[k] = sum_of(row[k], other[k]);
      if (there && column_of<W>(k) < width) store(sum + start + column_of<W>(k), row[k]);
    }
  }
  float squares = 0;
#pragma unroll
  for (int k = 0; k < K; ++k) squares += squares_of(row[k]);
  const float scale = rsqrtf(team_sum(squares, 0) / static_cast<float>(width) + eps);
  if (!there) return;
  if (threadIdx.x == 0) rstd[t] = scale;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int column = column_of<W>(k);
    if (column >= width) continue;
    store(y + start + column, normed(row[k], scale, load<W>(w + column)));
  }
}

/// Few rows, whose time is that of one row: a block each, a pack a thread, all loads at once.
/// Thread k lanes + l has the k-th pack of the other kernel's lane l, and adds up in its order: a
/// row's bits are the same among few and among many.
template <class T, int W>
__global__ void rms_norm_few_kernel(int64_t lanes, int width, T* y, float* rstd, const T* x,
                                    const T* w, float eps, T* sum, const T* b) {
  __shared__ float squares_s[1024];
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const bool there = thread * W < width;
  const int64_t place = int64_t{blockIdx.x} * width + thread * W;
  Pack<T, W> row{}, other{}, weight{};
  if (there) {
    row = load<W>(x + place);
    if (b != nullptr) other = load<W>(b + place);
    weight = load<W>(w + thread * W);
  }
  if (b != nullptr) row = sum_of(row, other);
  squares_s[thread] = squares_of(row);
  __syncthreads();
  float squares = 0;
  const int stride = static_cast<int>(lanes);
  for (int first = 0; first < stride; first += 32) {
    float of_lane = 0;
    for (int i = first + thread % 32; i < threads; i += stride) of_lane += squares_s[i];
    squares += warp_sum(of_lane);
  }
  const float scale = rsqrtf(squares / static_cast<float>(width) + eps);
  if (thread == 0) rstd[blockIdx.x] = scale;
  if (!there) return;
  store(y + place, normed(row, scale, weight));
  if (b != nullptr) store(sum + place, row);
}

/// Threads of a backward block, at most; where packs are 16 bytes two of them fit an SM, four with
/// one pack a lane.
template <int W, int K>
constexpr int kMostThreads = W == 1   ? 1024
                             : K == 2 ? 384
                                      : 256;
template <int W, int K>
constexpr int kBlocksOfSm = W == 1   ? 1
                            : K == 1 ? 4
                                     : 2;

/// What backward reads; d_residual may be null.
template <class T>
struct BackwardRows {
  int64_t count;
  int width;
  const T *d_y, *x, *d_residual;
  const float* rstd;
};

/// A lane's packs of one row.
template <class T, int W, int K>
struct BackwardRow {
  Pack<T, W> d_y[K], x[K], residual[K];
  float scale;

  __device__ void load_from(const BackwardRows<T>& rows, int64_t t) {
    const bool there = t < rows.count;
    const int64_t start = t * rows.width;
    load_row<T, W, K>(d_y, rows.d_y + start, rows.width, there);
    load_row<T, W, K>(x, rows.x + start, rows.width, there);
    load_row<T, W, K>(residual, rows.d_residual + start, rows.width, there && rows.d_residual);
    scale = there ? rows.rstd[t] : 0;
  }

  /// The lane's part of sum(d_y w x).
  __device__ float dot(const Pack<T, W> (&w)[K]) const {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
      for (int e = 0; e < W; ++e) sum += d_y[k][e] * w[k][e] * x[k][e];
    }
    return sum;
  }

  /// d_x of the k-th packs; d_w goes up.
  __device__ Pack<T, W> step(int k, const Pack<T, W>& w, float mean, float (&d_w)[W]) const {
    float d_x[W];
#pragma unroll
    for (int e = 0; e < W; ++e) {
      const float n = x[k][e] * scale;
      d_w[e] += d_y[k][e] * n;
      d_x[e] = scale * (d_y[k][e] * w[e] - n * mean) + residual[k][e];
    }
    return Pack<T, W>::of(d_x);
  }
};

/// The sums over a block's teams of what each lane has of d_w, into `sums`. In packs of at most 16
/// bytes: lanes one after the other would write to few banks of shared memory.
template <int W, int K>
__device__ void add_up_teams(float* sums, const float (&d_w)[K][W], int width) {
  constexpr int V = W < 4 ? W : 4;
  extern __shared__ __align__(16) float team_parts[];  // [teams][width]
  const int teams = static_cast<int>(blockDim.y);
  float* const mine = teams == 1 ? sums : team_parts + static_cast<int>(threadIdx.y) * width;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (column_of<W>(k) >= width) continue;
#pragma unroll
    for (int e = 0; e < W; e += V) {
      store(mine + column_of<W>(k) + e, reinterpret_cast<const float(&)[V]>(d_w[k][e]));
    }
  }
  if (teams == 1) return;
  __syncthreads();
  const int threads = static_cast<int>(blockDim.x) * teams;
  for (int i = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x) * V; i < width;
       i += threads * V) {
    Pack<float, V> sum = load<V>(team_parts + i);
    for (int team = 1; team < teams; ++team) {
      const Pack<float, V> more = load<V>(team_parts + team * width + i);
#pragma unroll
      for (int e = 0; e < V; ++e) sum.at[e] += more.at[e];
    }
    store(sums + i, sum);
  }
}

/// A team takes rows in turn and keeps its part of d_w in registers; the teams of a block add
/// theirs up, into parts[block]. What a lane has none of is zeros, which count for nothing, so that
/// nothing but the stores is behind a branch.
template <class T, int W, int K>
__global__ void __launch_bounds__((kMostThreads<W, K>), (kBlocksOfSm<W, K>))
    rms_norm_backward_kernel(BackwardRows<T> rows, T* d_x, const T* w, float* parts) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.y;
  int64_t t = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  Pack<T, W> weight[K];
  load_row<T, W, K>(weight, w, rows.width, true);
  BackwardRow<T, W, K> row;
  float d_w[K][W] = {};
  // The lanes of teams that have no row left sum along.
  for (int turn = 0; t - threadIdx.y < rows.count; turn ^= 1, t += stride) {
    row.load_from(rows, t);
    const float dot = team_sum<true>(row.dot(weight), turn);
    keep_packed(row.d_y);
    keep_packed(row.x);
    keep_packed(weight);
    const float mean = dot * row.scale / static_cast<float>(rows.width);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Pack<T, W> out = row.step(k, weight[k], mean, d_w[k]);
      if (t < rows.count && column_of<W>(k) < rows.width) {
        store(d_x + t * rows.width + column_of<W>(k), out);
      }
    }
  }
  add_up_teams<W, K>(parts + int64_t{blockIdx.x} * rows.width, d_w, rows.width);
}

constexpr int64_t kFewRows = 8 * kSms;

/// Lanes of a team that hold so many packs, `each` of them at most.
unsigned lanes_for(int64_t packs, int64_t each) {
  const int64_t lanes = (packs + each - 1) / each;
  if (lanes > 32) return static_cast<unsigned>((lanes + 31) / 32 * 32);
  return std::bit_ceil(static_cast<unsigned>(lanes));
}

/// So many teams that a block has about `threads` threads.
dim3 block_of(unsigned lanes, unsigned threads) { return {lanes, std::max(1u, threads / lanes)}; }

/// Whether rows are visited by 16 bytes: 1024 packs at most, which 256 lanes hold; one by one 8192.
bool by_sixteens(DType dtype, int64_t width, std::initializer_list<const void*> places) {
  expects(width <= kWidestCudaRow, "rms_norm: a row is too wide");
  const int64_t row_bytes = width * size_of(dtype);
  return row_bytes <= 1024 * 16 && in_sixteens(row_bytes, places);
}

}  // namespace

// Most rows lie in one warp, 4 packs a lane with D = 896 and 6 with 1536, so that every lane has
// much in flight and nobody waits at a barrier. Heads of 64 (QK norm) need 8 lanes. Rows that would
// not fill the GPU so, those of a decoding step, have a block each.
void rms_norm(cudaStream_t stream, DType dtype, int64_t rows, int64_t width, void* y, float* rstd,
              const void* x, const void* w, double eps, void* sum, const void* b) {
  if (rows == 0) return;
  const bool wide = by_sixteens(dtype, width, {y, x, w, sum, b});
  dispatch_wide(dtype, wide, [&]<class T, int W>() {
    const auto launch = [&]<int K>() {
      const unsigned lanes = lanes_for(width / W, K);
      dim3 block = block_of(lanes, 128);
      unsigned grid = grid_for(rows, block.y);
      int64_t rows_or_lanes = rows;
      auto* kernel = rms_norm_kernel<T, W, K>;
      if constexpr (W > 1) {
        if (lanes >= 32 && rows <= kFewRows) {
          block = {static_cast<unsigned>((width / W + 31) / 32 * 32)};
          grid = static_cast<unsigned>(rows);
          rows_or_lanes = lanes;
          kernel = rms_norm_few_kernel<T, W>;
        }
      }
      kernel<<<grid, block, 0, stream>>>(rows_or_lanes, static_cast<int>(width), static_cast<T*>(y),
                                         rstd, static_cast<const T*>(x), static_cast<const T*>(w),
                                         static_cast<float>(eps), static_cast<T*>(sum),
                                         static_cast<const T*>(b));
    };
    if constexpr (W == 1) {
      launch.template operator()<8>();
    } else if (width > 128 * W) {
      launch.template operator()<8>();
    } else if (width > 32 * W) {
      launch.template operator()<4>();
    } else {
      launch.template operator()<1>();
    }
  });
  check_launch("rms_norm");
}

// A warp holds a row of up to 128 packs, with D = 896 four a lane: 16 warps on an SM keep 80 KB in
// flight. Wider rows are held by several warps, two packs a lane: D = 1536 by three. Two blocks an
// SM (four of narrow rows), so that few parts remain for add_rows. From 768 packs on four a lane.
void rms_norm_backward(cudaStream_t stream, DType dtype, int64_t rows, int64_t width, void* d_x,
                       float* d_w, const void* d_y, const void* x, const void* w, const float* rstd,
                       const void* d_residual, float* parts) {
  if (rows == 0) return;
  const bool wide = by_sixteens(dtype, width, {d_x, d_y, x, w, d_residual});
  int64_t blocks = 0;
  dispatch_wide(dtype, wide, [&]<class T, int W>() {
    const auto launch = [&]<int K>() {
      const unsigned lanes = lanes_for(width / W, K);
      const dim3 block = block_of(lanes, lanes <= 32 ? 256 : 384);
      blocks = grid_for(rows, block.y, kSms * (K == 1 ? 4 : 2));
      const size_t shared = block.y == 1 ? 0 : block.y * static_cast<size_t>(width) * sizeof(float);
      rms_norm_backward_kernel<T, W, K><<<static_cast<unsigned>(blocks), block, shared, stream>>>(
          {rows, static_cast<int>(width), static_cast<const T*>(d_y), static_cast<const T*>(x),
           static_cast<const T*>(d_residual), rstd},
          static_cast<T*>(d_x), static_cast<const T*>(w), parts);
    };
    if constexpr (W == 1) {
      launch.template operator()<8>();
    } else if (width > 128 * W && width <= 2 * W * kMostThreads<W, 2>) {
      launch.template operator()<2>();
    } else if (width > 32 * W) {
      launch.template operator()<4>();
    } else {
      launch.template operator()<1>();
    }
  });
  check_launch("rms_norm_backward");
  add_rows(stream, blocks, width, d_w, parts);
}

}  // namespace verlcpp::cuda
