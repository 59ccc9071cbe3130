#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 512;
constexpr double kInf = HUGE_VAL;

/// verl's floor, so that temperature 0 means (nearly) greedy instead of a division by zero.
__device__ inline float safe_temperature(float t) { return t > 0.0f ? t : 1e-8f; }

/// One block a row.
__global__ void logit_stats_kernel(int64_t vocab, int64_t first, double* stats, const float* logits,
                                   const int32_t* labels, const float* temperature) {
  const int64_t r = blockIdx.x;
  const float* row = logits + r * vocab;
  const float tau = safe_temperature(temperature[r]);
  float max = -INFINITY;
  for (int64_t v = threadIdx.x; v < vocab; v += blockDim.x) max = fmaxf(max, row[v]);
  max = block_max(max) / tau;
  float sum = 0, weighted = 0;
  if (max != -INFINITY) {
    for (int64_t v = threadIdx.x; v < vocab; v += blockDim.x) {
      const float shifted = row[v] / tau - max, e = expf(shifted);
      sum += e;
      if (e != 0.0f) weighted += e * shifted;  // 0 * -inf counts as 0
    }
  }
  const double all = block_sum(static_cast<double>(sum));
  const double all_weighted = block_sum(static_cast<double>(weighted));
  if (threadIdx.x != 0) return;
  const int64_t label = labels[r] - first;
  stats[r * 4] = max;
  stats[r * 4 + 1] = all;
  stats[r * 4 + 2] = all_weighted;
  stats[r * 4 + 3] = label >= 0 && label < vocab ? static_cast<double>(row[label] / tau) : -kInf;
}

__global__ void token_log_prob_kernel(int64_t rows, int64_t parts, float* log_prob, float* entropy,
                                      float* lse, const double* stats) {
  const int64_t r = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double max = -kInf, label = -kInf, sum = 0, weighted = 0;
  for (int64_t p = 0; p < parts; ++p) {
    const double* s = stats + (p * rows + r) * 4;
    max = fmax(max, s[0]);
    label = fmax(label, s[3]);
  }
  for (int64_t p = 0; p < parts; ++p) {
    const double* s = stats + (p * rows + r) * 4;
    if (s[0] == -kInf) continue;
    const double shift = s[0] - max, scale = exp(shift);
    sum += scale * s[1];
    weighted += scale * (s[2] + s[1] * shift);
  }
  const double log_sum = log(sum);
  lse[r] = static_cast<float>(max + log_sum);
  log_prob[r] = static_cast<float>((label - max) - log_sum);
  entropy[r] = static_cast<float>(log_sum - weighted / sum);
}

/// d_logits may be logits themselves: each element is read, then written, by one thread.
template <class T>
__global__ void token_log_prob_backward_kernel(int64_t vocab, int64_t first, T* d_logits,
                                               const float* logits, const int32_t* labels,
                                               const float* temperature, const float* entropy,
                                               const float* lse, const float* d_log_prob,
                                               const float* d_entropy) {
  const int64_t r = blockIdx.x;
  const float* row = logits + r * vocab;
  T* d_row = d_logits + r * vocab;
  const float tau = safe_temperature(temperature[r]), inverse = 1.0f / tau;
  const float d_lp = d_log_prob[r] * inverse, d_ent = d_entropy[r] * inverse;
  const float row_lse = lse[r], row_entropy = entropy[r];
  const int64_t label = labels[r] - first;
  for (int64_t v = threadIdx.x; v < vocab; v += blockDim.x) {
    const float log_p = row[v] / tau - row_lse, p = expf(log_p);
    float d = p == 0.0f ? 0.0f : -p * (d_lp + d_ent * (log_p + row_entropy));
    if (v == label) d += d_lp;
    d_row[v] = from_float<T>(d);
  }
}

}  // namespace

void logit_stats(cudaStream_t stream, int64_t rows, int64_t vocab, int64_t first, double* stats,
                 const float* logits, const int32_t* labels, const float* temperature) {
  if (rows == 0) return;
  logit_stats_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
      vocab, first, stats, logits, labels, temperature);
  check_launch("logit_stats");
}

void token_log_prob(cudaStream_t stream, int64_t rows, int64_t parts, float* log_prob,
                    float* entropy, float* lse, const double* stats) {
  if (rows == 0) return;
  token_log_prob_kernel<<<grid_for(rows, 128), 128, 0, stream>>>(rows, parts, log_prob, entropy,
                                                                 lse, stats);
  check_launch("token_log_prob");
}

void token_log_prob_backward(cudaStream_t stream, DType dtype, int64_t rows, int64_t vocab,
                             int64_t first, void* d_logits, const float* logits,
                             const int32_t* labels, const float* temperature, const float* entropy,
                             const float* lse, const float* d_log_prob, const float* d_entropy) {
  if (rows == 0) return;
  dispatch(dtype, [&]<class T>() {
    token_log_prob_backward_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
        vocab, first, static_cast<T*>(d_logits), logits, labels, temperature, entropy, lse,
        d_log_prob, d_entropy);
  });
  check_launch("token_log_prob_backward");
}

}  // namespace verlcpp::cuda
