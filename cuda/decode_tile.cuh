#pragma once

#include <cuda_pipeline.h>

#include <cmath>

#include "cuda/decode.cuh"

// One warp's attention to a tile of positions, in bfloat16 on tensor cores.

namespace verlcpp::cuda {

constexpr int kTile = 16;  // positions that a warp takes at one time
constexpr int kHeads = 8;  // query heads of a thread block, those of one kv head

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

/// kWords words, four (eight dims) at a time from every 32 dims of `from`; zeros where it is null.
template <int kWords>
__device__ inline void load_words(uint32_t* to, const bf16* from) {
#pragma unroll
  for (int w = 0; w < kWords; w += 4) {
    const uint4 x =
        from == nullptr ? uint4{0, 0, 0, 0} : *reinterpret_cast<const uint4*>(from + 8 * w);
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
  int stride;
  int left;  // positions up to the new token, counted from the tile's first: < 0 is behind it
  __device__ const bf16* at(int i) const {
    return i < left ? cache + i * stride : i == left ? fresh : nullptr;
  }
};

/// 16-byte parts of a tile that a lane reads.
template <int H>
constexpr int kPieces = 2 * (H / 32) + 4 * (H / 64);

/// Dims are dealt out so that each lane reads 16 bytes at a time and lanes that read the same row
/// lie side by side, which copies past the first-level cache need: lane 4 g + c reads of k row g
/// (and 8 + g) the eights c, c + 4, ... of dims, the k of the product in its own order, as those of
/// q are; and H/8 dims of v rows 2 c, 2 c + 1, 8 + 2 c, 9 + 2 c, the n of that product. They are
/// copied to shared memory, where each lane has its own places `to` + 32 i, while others are being
/// used.
template <int H>
__device__ void fetch_tile(uint4* to, const TileRows<H>& k, const TileRows<H>& v, int g, int c) {
  int piece = 0;
  const auto fetch = [&](const TileRows<H>& rows, int i, int dims, int apart, int count) {
    const bf16* row = rows.at(i);
    const bf16* from = (row == nullptr ? rows.fresh : row) + dims;
    for (int part = 0; part < count; ++part) {
      __pipeline_memcpy_async(to + 32 * piece++, from + apart * part, 16, row == nullptr ? 16 : 0);
    }
  };
#pragma unroll
  for (int t = 0; t < 2; ++t) fetch(k, 8 * t + g, 8 * c, 32, H / 32);
#pragma unroll
  for (int i = 0; i < 4; ++i) fetch(v, i / 2 * 8 + 2 * c + i % 2, g * (H / 8), 8, H / 64);
}

/// `tile`: the lane's first place. `left`: as in TileRows.
template <int H>
__device__ void take_tile(Running<H>& r, const uint32_t* q, const uint4* tile, int left,
                          float scale_log2, int c) {
  uint32_t key[2][H / 8], value[4][H / 16];
  const auto words = [&](uint32_t* to, int piece) {
    const uint4 x = tile[32 * piece];
    to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
  };
#pragma unroll
  for (int i = 0; i < 2 * (H / 32); ++i) words(key[i / (H / 32)] + i % (H / 32) * 4, i);
#pragma unroll
  for (int i = 0; i < 4 * (H / 64); ++i) {
    words(value[i / (H / 64)] + i % (H / 64) * 4, 2 * (H / 32) + i);
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
    s = i / 2 * 8 + 2 * c + i % 2 > left ? -INFINITY : s * scale_log2;
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

}  // namespace verlcpp::cuda
