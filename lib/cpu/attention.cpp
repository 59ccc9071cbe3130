#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/reduce.h"

namespace verlcpp::cpu {

template <class T>
T softmax_row(T* scores, int64_t visible, int64_t width) {
  std::fill(scores + visible, scores + width, T{0});
  if (visible == 0) return -std::numeric_limits<T>::infinity();
  const T max = *std::max_element(scores, scores + visible);
  for (int64_t j = 0; j < visible; ++j) scores[j] = std::exp(scores[j] - max);
  const double sum = sum_of(visible, [&](int64_t j) { return static_cast<double>(scores[j]); });
  const T inverse = static_cast<T>(1.0 / sum);
  for (int64_t j = 0; j < visible; ++j) scores[j] *= inverse;
  return static_cast<T>(static_cast<double>(max) + std::log(sum));
}

int64_t visible_rows(AttentionMask mask, int64_t i, int64_t q_length, int64_t kv_length) {
  if (mask == AttentionMask::kNone) return kv_length;
  const int64_t shift = mask == AttentionMask::kBottomRight ? kv_length - q_length : 0;
  return std::clamp(i + 1 + shift, int64_t{0}, kv_length);
}

template <class T>
void attention_block(const AttentionInput<T>& in, T* o, T* lse) {
  const int64_t H = in.head_dim, q_stride = in.heads * H, kv_stride = in.kv_heads * H;
  const int64_t group = in.heads / std::max(in.kv_heads, int64_t{1});
  std::fill_n(o, in.q_rows * q_stride, T{0});
  std::fill_n(lse, in.q_rows * in.heads, -std::numeric_limits<T>::infinity());

  std::vector<T> scores;  // [tile rows, visible kv rows]
  for (int64_t s = 0; s < in.documents; ++s) {
    const int64_t q_length = in.q_length[s], kv_length = in.kv_length[s];
    for (int64_t first = 0; first < q_length; first += kAttentionTile) {
      const int64_t rows = std::min(kAttentionTile, q_length - first);
      const int64_t width = visible_rows(in.mask, first + rows - 1, q_length, kv_length);
      if (width == 0) continue;
      scores.resize(static_cast<size_t>(rows * width));
      for (int64_t n = 0; n < in.heads; ++n) {
        const int64_t q_row = in.q_offset[s] + first, kv_head = n / group;
        const int64_t q_at = q_row * q_stride + n * H;
        const int64_t kv_at = in.kv_offset[s] * kv_stride + kv_head * H;
        gemm<T>(false, true, rows, width, H, static_cast<T>(in.scale), in.q + q_at, q_stride,
                in.k + kv_at, kv_stride, 0, scores.data(), width);
        for (int64_t i = 0; i < rows; ++i) {
          lse[(q_row + i) * in.heads + n] =
              softmax_row(scores.data() + i * width,
                          visible_rows(in.mask, first + i, q_length, kv_length), width);
        }
        gemm<T>(false, false, rows, H, width, 1, scores.data(), width, in.v + kv_at, kv_stride, 0,
                o + q_at, q_stride);
      }
    }
  }
}

template <class T>
void attention_merge(int64_t rows, int64_t head_dim, T* o, T* lse, const T* o_part,
                     const T* lse_part) {
  constexpr T kEmpty = -std::numeric_limits<T>::infinity();
  for (int64_t r = 0; r < rows; ++r, o += head_dim, o_part += head_dim) {
    if (lse_part[r] == kEmpty) continue;
    if (lse[r] == kEmpty) {
      std::copy_n(o_part, head_dim, o);
      lse[r] = lse_part[r];
      continue;
    }
    const double a = lse[r], b = lse_part[r], max = std::max(a, b);
    const double weight = std::exp(a - max), weight_part = std::exp(b - max);
    const double total = weight + weight_part;
    const T keep = static_cast<T>(weight / total), take = static_cast<T>(weight_part / total);
    for (int64_t i = 0; i < head_dim; ++i) o[i] = o[i] * keep + o_part[i] * take;
    lse[r] = static_cast<T>(max + std::log(total));
  }
}

template float softmax_row(float*, int64_t, int64_t);
template double softmax_row(double*, int64_t, int64_t);
template void attention_block(const AttentionInput<float>&, float*, float*);
template void attention_block(const AttentionInput<double>&, double*, double*);
template void attention_merge(int64_t, int64_t, float*, float*, const float*, const float*);
template void attention_merge(int64_t, int64_t, double*, double*, const double*, const double*);

}  // namespace verlcpp::cpu
