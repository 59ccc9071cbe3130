#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/attention_cases.h"
#include "cpu/cpu_backend.h"
#include "cpu/op_cases.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Attended {
  std::vector<double> o, lse;
};

bool sees(const AttentionCase& a, size_t s, int64_t i, int64_t j) {
  switch (a.mask) {
    case AttentionMask::kNone:
      return true;
    case AttentionMask::kCausal:
      return j <= i;
    case AttentionMask::kBottomRight:
      return j <= i + a.kv_length[s] - a.q_length[s];
  }
  return false;
}

/// Softmax attention one (row, head) at a time, straight from the definition.
Attended reference(const AttentionCase& a, const std::vector<double>& q,
                   const std::vector<double>& k, const std::vector<double>& v) {
  const int64_t H = a.head_dim;
  Attended out{std::vector<double>(q.size(), 0.0),
               std::vector<double>(static_cast<size_t>(a.q_rows * a.heads), -kInf)};
  for (size_t s = 0; s < a.q_offset.size(); ++s) {
    for (int64_t i = 0; i < a.q_length[s]; ++i) {
      for (int64_t n = 0; n < a.heads; ++n) {
        const int64_t row = (a.q_offset[s] + i) * a.heads + n;
        const int64_t kv_head = n * a.kv_heads / a.heads;
        double sum = 0;
        for (int64_t j = 0; j < a.kv_length[s]; ++j) {
          if (!sees(a, s, i, j)) continue;
          const int64_t kv_row = (a.kv_offset[s] + j) * a.kv_heads + kv_head;
          double score = 0;
          for (int64_t h = 0; h < H; ++h) {
            score += q[static_cast<size_t>(row * H + h)] * k[static_cast<size_t>(kv_row * H + h)];
          }
          const double e = std::exp(score * a.scale());
          sum += e;
          for (int64_t h = 0; h < H; ++h) {
            out.o[static_cast<size_t>(row * H + h)] += e * v[static_cast<size_t>(kv_row * H + h)];
          }
        }
        if (sum == 0) continue;
        out.lse[static_cast<size_t>(row)] = std::log(sum);
        for (int64_t h = 0; h < H; ++h) out.o[static_cast<size_t>(row * H + h)] /= sum;
      }
    }
  }
  return out;
}

void check_close(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // infinities
    if (!(std::abs(a[i] - b[i]) <= tolerance)) FAIL("[" << i << "] " << a[i] << " vs " << b[i]);
  }
}

struct Inputs {
  std::vector<double> q, k, v, d_o;
};
Inputs inputs_of(const AttentionCase& a) {
  return {random_values(numel_of(a.q_shape()), 1), random_values(numel_of(a.kv_shape()), 2),
          random_values(numel_of(a.kv_shape()), 3), random_values(numel_of(a.q_shape()), 4)};
}

}  // namespace

TEST_CASE(
    "attention_block is the definition, with o = 0 and lse = -inf for rows that see nothing") {
  cpu::CpuBackend backend;
  for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
    const OpRun run{backend, dtype};
    for (const AttentionCase& a : attention_table()) {
      INFO(a.name);
      const Inputs in = inputs_of(a);
      Tensor o = run.poisoned(a.q_shape()), lse = run.poisoned(a.lse_shape());
      backend.attention_block(a.mask, run.spans(a.q_offset, a.q_length, a.kv_offset, a.kv_length),
                              a.scale(), run.from(in.q, a.q_shape()), run.from(in.k, a.kv_shape()),
                              run.from(in.v, a.kv_shape()), o, lse);
      const Attended want = reference(a, in.q, in.k, in.v);
      const double tolerance = dtype == DType::kFloat64 ? 1e-12 : 1e-5;
      check_close(download(backend, o), want.o, tolerance);
      check_close(download(backend, lse), want.lse, tolerance);
    }
  }
}

TEST_CASE("attention over two kv blocks and a merge is attention over both, forward and backward") {
  cpu::CpuBackend backend;
  const OpRun run{backend, DType::kFloat64};
  // The last document's kv rows are all in the second block, the first one's all in the first.
  const AttentionCase whole{"",        AttentionMask::kNone, 12,       17, 4, 2, 3, {0, 4, 9},
                            {3, 5, 2}, {0, 3, 11},           {3, 7, 6}};
  const std::vector<int32_t> first{3, 2, 0};
  std::vector<int32_t> second_offset, second_length;
  for (size_t s = 0; s < first.size(); ++s) {
    second_offset.push_back(whole.kv_offset[s] + first[s]);
    second_length.push_back(whole.kv_length[s] - first[s]);
  }
  const Inputs in = inputs_of(whole);
  const Tensor q = run.from(in.q, whole.q_shape()), d_o = run.from(in.d_o, whole.q_shape());
  const Tensor k = run.from(in.k, whole.kv_shape()), v = run.from(in.v, whole.kv_shape());
  const auto spans_all =
      run.spans(whole.q_offset, whole.q_length, whole.kv_offset, whole.kv_length);
  const auto spans_a = run.spans(whole.q_offset, whole.q_length, whole.kv_offset, first);
  const auto spans_b = run.spans(whole.q_offset, whole.q_length, second_offset, second_length);
  constexpr auto kNone = AttentionMask::kNone;

  Tensor o = run.poisoned(whole.q_shape()), lse = run.poisoned(whole.lse_shape());
  backend.attention_block(kNone, spans_all, whole.scale(), q, k, v, o, lse);
  Tensor o2 = run.poisoned(whole.q_shape()), lse2 = run.poisoned(whole.lse_shape());
  Tensor part = run.poisoned(whole.q_shape()), lse_part = run.poisoned(whole.lse_shape());
  backend.attention_block(kNone, spans_a, whole.scale(), q, k, v, o2, lse2);
  backend.attention_block(kNone, spans_b, whole.scale(), q, k, v, part, lse_part);
  backend.attention_merge(o2, lse2, part, lse_part);
  check_close(download(backend, o2), download(backend, o), 1e-12);
  check_close(download(backend, lse2), download(backend, lse), 1e-12);

  std::vector<Tensor> once, twice;
  for (const Tensor& x : {q, k, v}) {
    once.push_back(run.poisoned(x.shape()));
    twice.push_back(run.filled(0, x.shape()));
  }
  backend.attention_block_backward(kNone, spans_all, whole.scale(), q, k, v, o, lse, d_o, once[0],
                                   once[1], once[2], false);
  for (const auto& spans : {spans_a, spans_b}) {
    backend.attention_block_backward(kNone, spans, whole.scale(), q, k, v, o, lse, d_o, twice[0],
                                     twice[1], twice[2], true);
  }
  for (size_t i = 0; i < 3; ++i) {
    check_close(download(backend, twice[i]), download(backend, once[i]), 1e-12);
  }
}

TEST_CASE("attention_merge with nothing on one side or both") {
  cpu::CpuBackend backend;
  const OpRun run{backend, DType::kFloat64};
  // Rows: nothing + nothing, nothing + something, something + nothing, equal weights, 1 : 3.
  const Tensor o = run.from({0, 0, 0, 0, 1, 2, 1, 2, 1, 2}, {5, 1, 2});
  const Tensor lse = run.from({-kInf, -kInf, 3, 800, 0}, {5, 1});
  const Tensor part = run.from({0, 0, 5, 6, 0, 0, 3, 6, 5, 6}, {5, 1, 2});
  const Tensor lse_part = run.from({-kInf, 2, -kInf, 800, std::log(3.0)}, {5, 1});
  backend.attention_merge(o, lse, part, lse_part);
  check_close(download(backend, o), {0, 0, 5, 6, 1, 2, 2, 4, 4, 5}, 1e-13);
  check_close(download(backend, lse), {-kInf, 2, 3, 800 + std::log(2.0), std::log(4.0)}, 1e-13);
}

TEST_CASE("attention refuses spans outside of its rows and heads that do not group") {
  cpu::CpuBackend backend;
  const OpRun run{backend, DType::kFloat64};
  const Tensor q = run.filled(0, {4, 3, 2}), kv = run.filled(0, {4, 1, 2});
  const Tensor o = run.filled(0, {4, 3, 2}), lse = run.filled(0, {4, 3});
  constexpr auto kNone = AttentionMask::kNone;
  CHECK_NOTHROW(
      backend.attention_block(kNone, run.spans({1}, {3}, {0}, {4}), 1, q, kv, kv, o, lse));
  CHECK_THROWS_AS(
      backend.attention_block(kNone, run.spans({2}, {3}, {0}, {4}), 1, q, kv, kv, o, lse),
      std::logic_error);
  AttentionSpans short_maximum = run.spans({1}, {3}, {0}, {4});
  short_maximum.max_kv_length = 3;
  CHECK_THROWS_AS(backend.attention_block(kNone, short_maximum, 1, q, kv, kv, o, lse),
                  std::logic_error);
  const Tensor kv2 = run.filled(0, {4, 2, 2});
  CHECK_THROWS_AS(
      backend.attention_block(kNone, run.spans({1}, {3}, {0}, {4}), 1, q, kv2, kv2, o, lse),
      std::logic_error);
}
