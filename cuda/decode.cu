#include <algorithm>
#include <cmath>

#include "cuda/check.h"
#include "cuda/decode_tile.cuh"

// Attention of one token a sequence over a paged KV cache (flash decoding: Dao et al. 2023). The
// positions of a sequence are cut into splits so that small batches fill the GPU too; a second pass
// merges them. Sizes that change from step to step are read on the device, so that a graph of these
// kernels stays right. The new token's k and v are taken from where they were made: no block reads
// the cache row that another one writes.

namespace verlcpp::cuda {
namespace {

constexpr int kMostSplits = 32;

/// What a split leaves for the merge: by (sequence, head, split) a maximum and a sum of
/// e^(score - maximum), then the weighted sum of v, not divided by anything.
struct Parts {
  float2* stats;
  float* o;
};

constexpr int kStages = 2;  // tiles of a warp in shared memory
/// 16-byte places of a warp there, which serve its part of the output in the end.
template <int H>
constexpr int kPlaces = kStages * 32 * kPieces<H>;

/// Four dims of a head, from `dim` on: of the output, or undivided of the split.
template <int H>
__device__ inline void write_joined(const DecodeArgs& a, const Parts& parts, int64_t head, int dim,
                                    const float4& o, float total) {
  if (gridDim.x == 1) {
    const float4 x =
        total > 0 ? float4{o.x / total, o.y / total, o.z / total, o.w / total} : float4{};
    *reinterpret_cast<uint2*>(static_cast<bf16*>(a.o) + head * H + dim) = {packed(x.x, x.y),
                                                                           packed(x.z, x.w)};
    return;
  }
  auto* to = reinterpret_cast<float2*>(parts.o + (head * gridDim.x + blockIdx.x) * H + dim);
  to[0] = {o.x, o.y};
  to[1] = {o.z, o.w};
}

/// What the warps of a thread block have found, joined: the split's, or where it is the only one
/// the output. A lane's H/4 dims lie side by side, padded by 4 floats: then the 16 bytes that 8
/// lanes store at a time are in different banks.
template <int H, int kWarps>
__device__ void join_warps(const Running<H>& r, const DecodeArgs& a, const Parts& parts,
                           uint4* memory, int64_t first_head, int heads, int g, int c) {
  constexpr int kQuads = H / 16, kStride = kQuads + 1;  // float4 of a lane, and with padding
  __shared__ float max_s[kWarps][kHeads], sum_s[kWarps][kHeads];
  const auto o_of = [&](int w, int head) {
    return reinterpret_cast<float4*>(memory + w * kPlaces<H>) + head * 4 * kStride;
  };
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (c == 0) max_s[warp][g] = r.max;
  __syncthreads();
  float max = -INFINITY;
  for (int w = c; w < kWarps; w += 4) max = fmaxf(max, max_s[w][g]);
  max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 1));
  max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 2));
  const float weight = r.max == -INFINITY ? 0.0f : exp2f(r.max - max);
  float sum = r.sum + __shfl_xor_sync(0xffffffffu, r.sum, 1);
  sum += __shfl_xor_sync(0xffffffffu, sum, 2);
  if (c == 0) sum_s[warp][g] = weight * sum;
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    const int half = i / (kQuads / 2), j = i % (kQuads / 2) * 4;
    o_of(warp, g)[c * kStride + i] = {weight * r.o[j][half], weight * r.o[j + 1][half],
                                      weight * r.o[j + 2][half], weight * r.o[j + 3][half]};
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < heads * 4 * kQuads; i += 32 * kWarps) {
    const int head = i / (4 * kQuads), quad = i % (4 * kQuads);
    float total = 0;
    float4 o{};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float4 x = o_of(w, head)[quad / kQuads * kStride + quad % kQuads];
      total += sum_s[w][head];
      o.x += x.x, o.y += x.y, o.z += x.z, o.w += x.w;
    }
    write_joined<H>(a, parts, first_head + head, 4 * quad, o, total);
    if (gridDim.x == 1 || quad != 0) continue;
    max = max_s[0][head];
    for (int w = 1; w < kWarps; ++w) max = fmaxf(max, max_s[w][head]);
    parts.stats[(first_head + head) * gridDim.x + blockIdx.x] = {max, total};
  }
}

/// Warps that a multiprocessor has registers for.
template <int H>
constexpr int kResident = H <= 64 ? 16 : 8;

/// The tiles of a warp, and where they are in the cache: a lane knows one of the next 32, which are
/// looked up without waiting for the number of positions.
template <int kWarps>
struct WarpTiles {
  int place = 0;  // cache row / kTile

  /// The warp's n-th tile.
  __device__ static int tile(int n) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return (n * kWarps + warp) * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  }
  /// The first cache row of the n-th. Called by whole warps, n = 0, 1, ...
  __device__ int64_t row(const DecodeArgs& a, int n) {
    if (n % 32 == 0) {
      const int mine = tile(n + static_cast<int>(threadIdx.x) % 32);
      const int of_block = static_cast<int>(a.block) / kTile, entry = mine / of_block;
      const int64_t length = a.blocks_per_sequence;
      const int block = entry < length ? a.tables[blockIdx.z * length + entry] : 0;
      place = block * of_block + mine % of_block;
    }
    return int64_t{__shfl_sync(0xffffffffu, place, n % 32)} * kTile;
  }
};

/// blockIdx: split; kv head, and which kHeads of its query heads; sequence. The splits and their
/// warps take tiles in turn; while a warp waits for one, the next is on its way too.
template <int H, int kWarps>
__global__ void __launch_bounds__(32 * kWarps, kResident<H> / kWarps)
    decode_kernel(DecodeArgs a, Parts parts) {
  const int sequence = static_cast<int>(blockIdx.z), lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, c = lane % 4;
  const int kv_heads = static_cast<int>(a.kv_heads), group = static_cast<int>(a.heads) / kv_heads;
  const int kv_head = static_cast<int>(blockIdx.y) % kv_heads;
  const int from_head = static_cast<int>(blockIdx.y) / kv_heads * kHeads;
  const int heads = min(kHeads, group - from_head);
  const int64_t first_head = sequence * a.heads + kv_head * group + from_head;
  const int position = a.positions[sequence];
  WarpTiles<kWarps> tiles;
  extern __shared__ uint4 memory[];  // [warps][stages][pieces][lanes]
  uint4* const places = memory + static_cast<int>(threadIdx.x) / 32 * kPlaces<H> + lane;

  uint32_t q[H / 8];  // of each step of 16 dims two words
  const bf16* q_row = static_cast<const bf16*>(a.q) + (first_head + g) * H + 8 * c;
  load_words<H / 8>(q, g < heads ? q_row : nullptr);
  const int64_t fresh = (sequence * a.kv_heads + kv_head) * H;
  const int stride = kv_heads * H;
  const float scale_log2 = a.scale * 1.44269504088896f;

  // Groups of copies: one a tile, also behind the last, so that they can be counted.
  const auto fetch = [&](int n) {
    const int64_t cached = tiles.row(a, n) * stride + kv_head * H;
    const int left = position - tiles.tile(n) * kTile;
    const TileRows<H> k{static_cast<const bf16*>(a.cache_k) + cached,
                        static_cast<const bf16*>(a.k) + fresh, stride, left};
    const TileRows<H> v{static_cast<const bf16*>(a.cache_v) + cached,
                        static_cast<const bf16*>(a.v) + fresh, stride, left};
    if (left >= 0) fetch_tile<H>(places + n % kStages * 32 * kPieces<H>, k, v, g, c);
    __pipeline_commit();
  };
#pragma unroll
  for (int n = 0; n < kStages; ++n) fetch(n);
  if (position >= 0 && blockIdx.x == 0 && from_head == 0) {
    write_new<bf16>(a, sequence, position, kv_head, static_cast<int>(threadIdx.x), 32 * kWarps);
  }
  Running<H> r;
  for (int n = 0; tiles.tile(n) * kTile <= position; ++n) {
    __pipeline_wait_prior(kStages - 1);
    take_tile<H>(r, q, places + n % kStages * 32 * kPieces<H>, position - tiles.tile(n) * kTile,
                 scale_log2, c);
    fetch(n + kStages);
  }
  __pipeline_wait_prior(0);
  __syncwarp();  // the places become join_warps'
  join_warps<H, kWarps>(r, a, parts, memory, first_head, heads, g, c);
}

/// One thread block a (head, sequence).
template <int H>
__global__ void merge_kernel(DecodeArgs a, Parts parts, int splits) {
  const int64_t head = blockIdx.y * a.heads + blockIdx.x, part = head * splits;
  float max = -INFINITY, total = 0, o = 0;
  for (int s = 0; s < splits; ++s) max = fmaxf(max, parts.stats[part + s].x);
  for (int s = 0; s < splits; ++s) {
    const float2 stats = parts.stats[part + s];
    if (stats.y == 0) continue;  // a split without positions
    const float weight = exp2f(stats.x - max);
    total += weight * stats.y;
    o += weight * parts.o[(part + s) * H + threadIdx.x];
  }
  static_cast<bf16*>(a.o)[head * H + threadIdx.x] = __float2bfloat16(total > 0 ? o / total : 0.0f);
}

int64_t head_groups(const DecodeArgs& a) { return (a.heads / a.kv_heads + kHeads - 1) / kHeads; }

bool on_tensor_cores(DType dtype, const DecodeArgs& a) {
  return dtype == DType::kBFloat16 && (a.head_dim == 64 || a.head_dim == 128) &&
         a.block % kTile == 0;
}

/// How a call fills the GPU: thread blocks of as many warps as the multiprocessors have room for,
/// and where that is not enough several to a (sequence, kv head), 64 positions of a full table
/// each.
struct Filling {
  int64_t warps, splits;
};

Filling filling_of(const DecodeArgs& a) {
  const int64_t resident = a.head_dim <= 64 ? kResident<64> : kResident<128>;
  const int64_t blocks = a.sequences * a.kv_heads * head_groups(a);
  int64_t warps = resident;
  while (warps > 4 && blocks * warps > kSms * resident) warps /= 2;
  const int64_t wanted = kSms * (resident / warps) / blocks;
  const int64_t most = a.blocks_per_sequence * a.block / 64;
  return {warps, std::max<int64_t>(1, std::min({wanted, most, int64_t{kMostSplits}}))};
}

template <int H, int kWarps>
void launch(cudaStream_t stream, const DecodeArgs& a, int64_t splits, float* workspace) {
  const int64_t parts_count = a.sequences * a.heads * splits;
  const Parts parts{reinterpret_cast<float2*>(workspace), workspace + 2 * parts_count};
  const dim3 grid(static_cast<unsigned>(splits), static_cast<unsigned>(a.kv_heads * head_groups(a)),
                  static_cast<unsigned>(a.sequences));
  constexpr int kShared = kWarps * kPlaces<H> * static_cast<int>(sizeof(uint4));
  check(cudaFuncSetAttribute(decode_kernel<H, kWarps>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kShared),
        "the shared memory of decode_attention");
  decode_kernel<H, kWarps><<<grid, 32 * kWarps, kShared, stream>>>(a, parts);
  if (splits == 1) return;
  const dim3 heads(static_cast<unsigned>(a.heads), static_cast<unsigned>(a.sequences));
  merge_kernel<H><<<heads, H, 0, stream>>>(a, parts, static_cast<int>(splits));
}

void launch(cudaStream_t stream, const DecodeArgs& a, float* workspace) {
  const auto [warps, splits] = filling_of(a);
  const auto chosen = a.head_dim == 64 ? warps == 16  ? launch<64, 16>
                                         : warps == 8 ? launch<64, 8>
                                                      : launch<64, 4>
                      : warps == 8 ? launch<128, 8>
                                       : launch<128, 4>;
  chosen(stream, a, splits, workspace);
}

}  // namespace

int64_t decode_attention_workspace(DType dtype, const DecodeArgs& args) {
  if (args.sequences == 0 || !on_tensor_cores(dtype, args)) return 0;
  const int64_t splits = filling_of(args).splits;
  return splits == 1 ? 0 : args.sequences * args.heads * splits * (args.head_dim + 2);
}

void decode_attention(cudaStream_t stream, DType dtype, const DecodeArgs& args, float* workspace) {
  if (args.sequences == 0) return;
  if (!on_tensor_cores(dtype, args)) return decode_attention_plain(stream, dtype, args);
  launch(stream, args, workspace);
  check_launch("decode_attention");
}

}  // namespace verlcpp::cuda
