#include <algorithm>
#include <cmath>

#include "cuda/check.h"
#include "cuda/decode.cuh"

// Attention of one token a sequence over a paged KV cache (flash decoding: Dao et al. 2023). The
// positions of a sequence are cut into splits so that small batches fill the GPU too; a second pass
// merges them. Sizes that change from step to step are read on the device, so that a graph of these
// kernels stays right. The new token's k and v are taken from where they were made: no block reads
// the cache row that another one writes.

namespace verlcpp::cuda {
namespace {

constexpr int kTile = 16;              // positions that a warp takes at one time
constexpr int kHeads = 8;              // query heads of a thread block, those of one kv head
constexpr int kMultiprocessors = 132;  // of an H100 or H200
constexpr int kMostSplits = 32;

/// What a split leaves for the merge: by (sequence, head, split) a maximum and a sum of
/// e^(score - maximum), then the weighted sum of v, not divided by anything.
struct Parts {
  float2* stats;
  float* o;
};

// --- bfloat16 on tensor cores

/// d = a b + c of one m16n8k16 product. Rows 8 to 15 of a are zero, and so are theirs of c and d.
__device__ inline void multiply(float* c, uint32_t a0, uint32_t a2, uint32_t b0, uint32_t b1) {
  [[maybe_unused]] float unused0, unused1;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n"
      : "=f"(c[0]), "=f"(c[1]), "=f"(unused0), "=f"(unused1)
      : "r"(a0), "r"(0u), "r"(a2), "r"(0u), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(0.0f),
        "f"(0.0f));
}

__device__ inline uint32_t packed(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

/// kWords words from `from`, 16 bytes at a time; zeros where it is null.
template <int kWords>
__device__ inline void load_words(uint32_t* to, const bf16* from) {
#pragma unroll
  for (int w = 0; w < kWords; w += 4) {
    const uint4 x =
        from == nullptr ? uint4{0, 0, 0, 0} : reinterpret_cast<const uint4*>(from)[w / 4];
    to[w] = x.x, to[w + 1] = x.y, to[w + 2] = x.z, to[w + 3] = x.w;
  }
}

/// One warp's running softmax. Lane 4 g + c has query head g (of kHeads); of o the dims
/// 2 c H/8 + j and (2 c + 1) H/8 + j in o[j].
template <int H>
struct Running {
  float max = -INFINITY, sum = 0, o[H / 8][2] = {};
};

/// A tile's rows of k or v: those of the cache, the new token's, or none behind it.
template <int H>
struct TileRows {
  const bf16 *cache, *fresh;  // of the tile's first position, of the new token
  int64_t stride;
  int left;  // positions up to the new token, counted from the tile's first: < 0 is behind it
  __device__ const bf16* at(int i) const {
    return i < left ? cache + i * stride : i == left ? fresh : nullptr;
  }
};

/// Dims are dealt out so that each lane reads 16 bytes and more that lie together: lane 4 g + c
/// reads H/4 dims of k row g (and 8 + g), the k of the product in its own order, as those of q are;
/// and H/8 dims of v rows 2 c, 2 c + 1, 8 + 2 c, 9 + 2 c, the n of that product.
template <int H>
__device__ void take_tile(Running<H>& r, const uint32_t* q, const TileRows<H>& k,
                          const TileRows<H>& v, float scale_log2, int g, int c) {
  constexpr int kKeyWords = H / 8, kValueWords = H / 16;
  uint32_t key[2][kKeyWords], value[4][kValueWords];
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    const bf16* row = k.at(8 * t + g);
    load_words<kKeyWords>(key[t], row == nullptr ? row : row + c * (H / 4));
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bf16* row = v.at(i / 2 * 8 + 2 * c + i % 2);
    load_words<kValueWords>(value[i], row == nullptr ? row : row + g * (H / 8));
  }
  float score[2][2] = {};
#pragma unroll
  for (int step = 0; step < H / 16; ++step) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      multiply(score[t], q[2 * step], q[2 * step + 1], key[t][2 * step], key[t][2 * step + 1]);
    }
  }
  float max = r.max;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float& s = score[i / 2][i % 2];
    s = i / 2 * 8 + 2 * c + i % 2 > k.left ? -INFINITY : s * scale_log2;
    max = fmaxf(max, s);
  }
  max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 1));
  max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 2));  // finite: the tile's first is visible
  const float keep = exp2f(r.max - max);
  r.max = max;
  r.sum *= keep;
#pragma unroll
  for (int i = 0; i < 4; ++i) r.sum += score[i / 2][i % 2] = exp2f(score[i / 2][i % 2] - max);
  const uint32_t p0 = packed(score[0][0], score[0][1]), p1 = packed(score[1][0], score[1][1]);
#pragma unroll
  for (int j = 0; j < H / 8; ++j) {
    const uint32_t half = j % 2 == 0 ? 0x5410 : 0x7632;
    r.o[j][0] *= keep;
    r.o[j][1] *= keep;
    multiply(r.o[j], p0, p1, __byte_perm(value[0][j / 2], value[1][j / 2], half),
             __byte_perm(value[2][j / 2], value[3][j / 2], half));
  }
}

/// What the warps of a thread block have found, joined: the split's, or where it is the only one
/// the output.
template <int H, int kWarps>
__device__ void join_warps(const Running<H>& r, const DecodeArgs& a, const Parts& parts,
                           int64_t first_head, int heads, int g, int c) {
  __shared__ float max_s[kWarps][kHeads], sum_s[kWarps][kHeads], o_s[kWarps][kHeads][H];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  float sum = r.sum + __shfl_xor_sync(0xffffffffu, r.sum, 1);
  sum += __shfl_xor_sync(0xffffffffu, sum, 2);
  if (c == 0) {
    max_s[warp][g] = r.max;
    sum_s[warp][g] = sum;
  }
#pragma unroll
  for (int j = 0; j < H / 8; ++j) {
    o_s[warp][g][2 * c * (H / 8) + j] = r.o[j][0];
    o_s[warp][g][(2 * c + 1) * (H / 8) + j] = r.o[j][1];
  }
  __syncthreads();
  const int split = static_cast<int>(blockIdx.x), splits = static_cast<int>(gridDim.x);
  for (int i = static_cast<int>(threadIdx.x); i < heads * H; i += 32 * kWarps) {
    const int head = i / H, d = i % H;
    float max = -INFINITY, total = 0, o = 0;
    for (int w = 0; w < kWarps; ++w) max = fmaxf(max, max_s[w][head]);
    for (int w = 0; w < kWarps; ++w) {
      const float weight = max_s[w][head] == -INFINITY ? 0.0f : exp2f(max_s[w][head] - max);
      total += weight * sum_s[w][head];
      o += weight * o_s[w][head][d];
    }
    if (splits == 1) {
      static_cast<bf16*>(a.o)[(first_head + head) * H + d] =
          __float2bfloat16(total > 0 ? o / total : 0.0f);
      continue;
    }
    const int64_t part = (first_head + head) * splits + split;
    parts.o[part * H + d] = o;
    if (d == 0) parts.stats[part] = {max, total};
  }
}

/// Warps that a multiprocessor has registers for.
template <int H>
constexpr int kResident = H <= 64 ? 16 : 8;

/// blockIdx: split; kv head, and which kHeads of its query heads; sequence.
template <int H, int kWarps>
__global__ void __launch_bounds__(32 * kWarps, kResident<H> / kWarps)
    decode_kernel(DecodeArgs a, Parts parts) {
  const int sequence = static_cast<int>(blockIdx.z), lane = static_cast<int>(threadIdx.x) % 32;
  const int kv_head = static_cast<int>(blockIdx.y % a.kv_heads), g = lane / 4, c = lane % 4;
  const int from_head = static_cast<int>(blockIdx.y / a.kv_heads) * kHeads;
  const int group = static_cast<int>(a.heads / a.kv_heads), heads = min(kHeads, group - from_head);
  const int64_t first_head = sequence * a.heads + kv_head * group + from_head;
  const int position = a.positions[sequence];
  if (position >= 0 && blockIdx.x == 0 && from_head == 0) {
    write_new<bf16>(a, sequence, position, kv_head, static_cast<int>(threadIdx.x), 32 * kWarps);
  }

  uint32_t q[H / 8];  // of each step of 16 dims two words
  const bf16* q_row = static_cast<const bf16*>(a.q) + (first_head + g) * H + c * (H / 4);
  load_words<H / 8>(q, g < heads ? q_row : nullptr);
  const int64_t fresh = (sequence * a.kv_heads + kv_head) * H, stride = a.kv_heads * H;
  const float scale_log2 = a.scale * 1.44269504088896f;

  Running<H> r;
  const int tiles = (position + kTile) / kTile;  // none where position is -1
  const int per_split = (tiles + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  const int first = static_cast<int>(blockIdx.x) * per_split;
  for (int tile = first + static_cast<int>(threadIdx.x) / 32; tile < min(first + per_split, tiles);
       tile += kWarps) {
    const int start = tile * kTile;
    const int64_t cached = row_of(a, sequence, start) * stride + kv_head * H;
    const TileRows<H> k{static_cast<const bf16*>(a.cache_k) + cached,
                        static_cast<const bf16*>(a.k) + fresh, stride, position - start};
    const TileRows<H> v{static_cast<const bf16*>(a.cache_v) + cached,
                        static_cast<const bf16*>(a.v) + fresh, stride, position - start};
    take_tile<H>(r, q, k, v, scale_log2, g, c);
  }
  join_warps<H, kWarps>(r, a, parts, first_head, heads, g, c);
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
  while (warps > 4 && blocks * warps > kMultiprocessors * resident) warps /= 2;
  const int64_t wanted = kMultiprocessors * (resident / warps) / blocks;
  const int64_t most = a.blocks_per_sequence * a.block / 64;
  return {warps, std::max<int64_t>(1, std::min({wanted, most, int64_t{kMostSplits}}))};
}

template <int H, int kWarps>
void launch(cudaStream_t stream, const DecodeArgs& a, int64_t splits, float* workspace) {
  const int64_t parts_count = a.sequences * a.heads * splits;
  const Parts parts{reinterpret_cast<float2*>(workspace), workspace + 2 * parts_count};
  const dim3 grid(static_cast<unsigned>(splits), static_cast<unsigned>(a.kv_heads * head_groups(a)),
                  static_cast<unsigned>(a.sequences));
  decode_kernel<H, kWarps><<<grid, 32 * kWarps, 0, stream>>>(a, parts);
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
