// Packed attention in bfloat16 (cuDNN) against CpuBackend in float64 on the same rounded inputs.
// Outputs hold NaN before each call.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/error.h"
#include "cpu/attention_cases.h"
#include "cpu/cpu_backend.h"
#include "cpu/op_cases.h"
#include "cuda/backend.h"
#include "cuda/runtime.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
const std::vector<int32_t> kLengths{1, 7, 130, 257, 333, 64, 513};

struct Heads {
  int64_t q, kv, dim;
};
const std::vector<Heads> kHeads{{14, 2, 64}, {12, 2, 128}, {4, 4, 64}};

/// Documents laid one after the other with `gap` rows before each and after the last.
struct Laid {
  std::vector<int32_t> offset;
  int64_t rows;
};
Laid laid(const std::vector<int32_t>& lengths, int32_t gap) {
  Laid out{{}, gap};
  for (const int32_t length : lengths) {
    out.offset.push_back(static_cast<int32_t>(out.rows));
    out.rows += length + gap;
  }
  return out;
}

AttentionCase make_case(std::string name, AttentionMask mask, const Heads& heads,
                        const std::vector<int32_t>& q_length, const std::vector<int32_t>& kv_length,
                        int32_t gap) {
  const Laid q = laid(q_length, gap), kv = laid(kv_length, gap);
  return {std::move(name), mask,     q.rows,   kv.rows,   heads.q,  heads.kv,
          heads.dim,       q.offset, q_length, kv.offset, kv_length};
}

/// kv ranges from the last document to the first, as slots of a cache can lie.
AttentionCase backwards(AttentionCase a) {
  int32_t end = static_cast<int32_t>(a.kv_rows);
  for (size_t s = 0; s < a.kv_length.size(); ++s) a.kv_offset[s] = end -= a.kv_length[s];
  return a;
}

std::vector<AttentionCase> cases(const Heads& heads) {
  using enum AttentionMask;
  const std::vector<int32_t> other{300, 64, 5, 0, 200, 129, 40},
      none_of_first{0, 9, 0, 257, 1, 64, 3};
  std::vector<int32_t> longer;
  for (const int32_t length : kLengths) longer.push_back(length * 3 / 2 + 3);
  return {make_case("causal", kCausal, heads, kLengths, kLengths, 0),
          make_case("causal, gaps", kCausal, heads, kLengths, kLengths, 13),
          make_case("causal, one short document", kCausal, heads, {5}, {5}, 0),
          make_case("none, other lengths, no kv rows for one", kNone, heads, kLengths, other, 5),
          make_case("none, no q rows for some", kNone, heads, none_of_first, kLengths, 3),
          backwards(make_case("none, kv in another order", kNone, heads, kLengths, other, 0)),
          make_case("bottom right", kBottomRight, heads, kLengths, longer, 2),
          make_case("bottom right, decode", kBottomRight, heads, std::vector<int32_t>(7, 1),
                    kLengths, 0),
          backwards(make_case("bottom right, decode from slots", kBottomRight, heads,
                              {1, 1, 1, 60, 1, 1, 200}, kLengths, 0))};
}

/// Which rows some document with both sides covers.
std::vector<bool> covered(int64_t rows, const std::vector<int32_t>& offset,
                          const std::vector<int32_t>& length, const std::vector<int32_t>& other) {
  std::vector<bool> out(static_cast<size_t>(rows), false);
  for (size_t s = 0; s < offset.size(); ++s) {
    if (other[s] == 0) continue;
    std::fill_n(out.begin() + offset[s], length[s], true);
  }
  return out;
}

struct Inputs {
  explicit Inputs(const AttentionCase& a)
      : q(random_values(numel_of(a.q_shape()), 1)),
        k(random_values(numel_of(a.kv_shape()), 2)),
        v(random_values(numel_of(a.kv_shape()), 3)),
        d_o(random_values(numel_of(a.q_shape()), 4)) {
    cpu::CpuBackend backend;
    for (Values* x : {&q, &k, &v, &d_o}) {
      const auto n = static_cast<int64_t>(x->size());
      *x = download(backend, OpRun{backend, DType::kBFloat16}.from(*x, {n}));
    }
  }
  Values q, k, v, d_o;
};

double scale_of(const AttentionCase& a) { return 1 / std::sqrt(static_cast<double>(a.head_dim)); }

/// o, lse, d_q, d_k, d_v. `o_dtype` and the gradients' dtype as a ring or a group of one has them.
std::vector<Values> attend(const OpRun& run, const AttentionCase& a, const Inputs& in,
                           bool accumulate, DType o_dtype) {
  Backend& backend = run.backend;
  const AttentionSpans spans = run.spans(a.q_offset, a.q_length, a.kv_offset, a.kv_length);
  const Tensor q = run.from(in.q, a.q_shape()), d_o = run.from(in.d_o, a.q_shape());
  const Tensor k = run.from(in.k, a.kv_shape()), v = run.from(in.v, a.kv_shape());
  const Tensor lse = run.wide().poisoned(a.lse_shape());
  const Tensor o_out = OpRun{backend, o_dtype}.poisoned(a.q_shape());
  backend.attention_block(a.mask, spans, scale_of(a), q, k, v, o_out, lse);
  const Tensor o = o_dtype == run.dtype ? o_out : run.poisoned(a.q_shape());
  if (o_dtype != run.dtype) backend.copy(o, o_out);
  std::vector<Tensor> grads;
  for (const Tensor& x : {q, k, v}) {
    grads.push_back(accumulate ? run.wide().grad_start(x.shape()) : run.poisoned(x.shape()));
  }
  backend.attention_block_backward(a.mask, spans, scale_of(a), q, k, v, o, lse, d_o, grads[0],
                                   grads[1], grads[2], accumulate);
  std::vector<Values> out{download(backend, o_out), download(backend, lse)};
  for (const Tensor& g : grads) {
    out.push_back(download(backend, g));
    for (double& x : out.back()) x -= accumulate ? OpRun::kGradStart : 0.0;
  }
  return out;
}

double frobenius(const Values& got, const Values& want) {
  REQUIRE(got.size() == want.size());
  double error = 0, size = 1e-30;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}

double largest_difference(const Values& got, const Values& want) {
  double largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;  // -inf
    const double d = std::abs(got[i] - want[i]);
    largest = std::isnan(d) ? kInf : std::max(largest, d);
  }
  return largest;
}

/// Rows that no document covers hold exactly `value`.
bool others_hold(const Values& x, const std::vector<bool>& covered, double value) {
  const size_t width = x.size() / std::max<size_t>(covered.size(), 1);
  for (size_t row = 0; row < covered.size(); ++row) {
    if (covered[row]) continue;
    for (size_t i = 0; i < width; ++i) {
      if (!(x[row * width + i] == value)) return false;
    }
  }
  return true;
}

void check_against_cpu(Backend& gpu, const AttentionCase& a, bool accumulate, DType o_dtype) {
  INFO(a.name << ", " << a.heads << "/" << a.kv_heads << " heads of " << a.head_dim
              << (accumulate ? ", accumulating" : ", overwriting"));
  cpu::CpuBackend cpu;
  const Inputs in(a);
  const auto got = attend({gpu, DType::kBFloat16}, a, in, accumulate, o_dtype);
  const auto want = attend({cpu, DType::kFloat64}, a, in, accumulate, DType::kFloat64);
  CHECK(frobenius(got[0], want[0]) < 4e-3);
  CHECK(largest_difference(got[1], want[1]) < 1e-4);
  for (size_t i = 2; i < got.size(); ++i) {
    INFO("gradient " << i - 2);
    CHECK(frobenius(got[i], want[i]) < 8e-3);
  }
  const auto q_rows = covered(a.q_rows, a.q_offset, a.q_length, a.kv_length);
  const auto kv_rows = covered(a.kv_rows, a.kv_offset, a.kv_length, a.q_length);
  CHECK(others_hold(got[0], q_rows, 0));
  CHECK(others_hold(got[1], q_rows, -kInf));
  CHECK(others_hold(got[2], q_rows, 0));
  CHECK(others_hold(got[3], kv_rows, 0));
  CHECK(others_hold(got[4], kv_rows, 0));
}

/// Enough work that atomics would meet in another order.
AttentionCase long_case() {
  std::vector<int32_t> lengths(12, 1500);
  lengths.insert(lengths.end(), {100, 700, 3000, 31, 250, 1100});
  return make_case("long", AttentionMask::kCausal, {14, 2, 64}, lengths, lengths, 0);
}

/// Backend::prepare_attention for the case's forward or backward.
int64_t prepare(Backend& gpu, const AttentionCase& a, bool backward,
                DType dtype = DType::kBFloat16) {
  return gpu.prepare_attention({.mask = a.mask,
                                .scale = scale_of(a),
                                .dtype = dtype,
                                .q_rows = a.q_rows,
                                .kv_rows = a.kv_rows,
                                .heads = a.heads,
                                .kv_heads = a.kv_heads,
                                .head_dim = a.head_dim,
                                .q_lengths = a.q_length,
                                .kv_lengths = a.kv_length,
                                .backward = backward});
}

int64_t plans_of(const Backend& gpu) {
  return dynamic_cast<const cuda::CudaBackend&>(gpu).attention_plans();
}

bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace

TEST_CASE("bfloat16 attention is the CPU's in float64, forward and backward") {
  const auto gpu = cuda::make_backend(0);
  for (const Heads& heads : kHeads) {
    for (const AttentionCase& a : cases(heads)) {
      check_against_cpu(*gpu, a, false, DType::kBFloat16);
      check_against_cpu(*gpu, a, true, DType::kFloat32);
    }
  }
}

TEST_CASE("deterministic bfloat16 attention is the CPU's, launched by length") {
  const auto gpu = cuda::make_backend(0, {.deterministic = true});
  for (const AttentionCase& a : cases(kHeads[0])) {
    check_against_cpu(*gpu, a, false, DType::kBFloat16);
    check_against_cpu(*gpu, a, true, DType::kFloat32);
  }
}

TEST_CASE("a length's own plan computes what its bucket's does") {
  using enum AttentionMask;
  for (const Heads& heads : kHeads) {
    for (const int32_t length : {5, 130, 333}) {
      const auto gpu = cuda::make_backend(0, {.own_length = {.passes = 1, .flops = 1}});
      const int32_t longer = length * 3 / 2 + 3;
      for (const AttentionCase& a :
           {make_case("own length, causal", kCausal, heads, {length}, {length}, 0),
            make_case("own length, none", kNone, heads, {length}, {longer}, 0),
            make_case("own length, bottom right", kBottomRight, heads, {length}, {longer}, 0)}) {
        const int64_t before = plans_of(*gpu);
        check_against_cpu(*gpu, a, false, DType::kBFloat16);
        check_against_cpu(*gpu, a, true, DType::kFloat32);
        INFO(length);
        CHECK(plans_of(*gpu) - before == 4);  // forward and backward, each beside its bucket's
      }
    }
  }
}

TEST_CASE("a length gets its own plans when it has come in enough passes") {
  const AttentionCase a =
      make_case("own length", AttentionMask::kCausal, kHeads[0], {600}, {600}, 0);
  for (const bool deterministic : {false, true}) {
    const auto gpu = cuda::make_backend(
        0, {.deterministic = deterministic, .own_length = {.passes = 3, .flops = 1}});
    std::vector<int64_t> plans;
    for (int pass = 0; pass < 4; ++pass) {
      check_against_cpu(*gpu, a, false, DType::kBFloat16);
      plans.push_back(plans_of(*gpu));
    }
    CHECK(plans ==
          (deterministic ? std::vector<int64_t>{2, 2, 2, 2} : std::vector<int64_t>{2, 2, 4, 4}));
  }
}

TEST_CASE("a prepared call of attention builds no plan") {
  for (const bool deterministic : {false, true}) {
    const auto gpu = cuda::make_backend(0, {.deterministic = deterministic});
    for (const Heads& heads : {kHeads[0], kHeads[1]}) {
      for (const AttentionCase& a : cases(heads)) {
        INFO(a.name << (deterministic ? ", deterministic" : ""));
        const int64_t before = plans_of(*gpu);
        const int64_t built = prepare(*gpu, a, false) + prepare(*gpu, a, true);
        const int64_t ready = plans_of(*gpu);
        CHECK(ready - before == built);
        attend({*gpu, DType::kBFloat16}, a, Inputs(a), false, DType::kBFloat16);
        attend({*gpu, DType::kBFloat16}, a, Inputs(a), true, DType::kFloat32);
        CHECK(plans_of(*gpu) == ready);
        CHECK(prepare(*gpu, a, false) + prepare(*gpu, a, true) == 0);
      }
    }
    CHECK(plans_of(*gpu) > 0);
  }
}

TEST_CASE("attention that cuDNN does not compute needs no plan") {
  const auto gpu = cuda::make_backend(0);
  AttentionCase a = cases(kHeads[0])[0];
  CHECK(prepare(*gpu, a, true, DType::kFloat32) == 0);
  a.head_dim = 20;
  CHECK(prepare(*gpu, a, false) == 0);
  CHECK(plans_of(*gpu) == 0);
}

TEST_CASE("spans serve models of other heads one after the other") {
  const auto gpu = cuda::make_backend(0);
  const OpRun run{*gpu, DType::kBFloat16};
  const std::vector<int32_t> offset{3}, length{200};
  const AttentionSpans spans = run.spans(offset, length, offset, length);
  for (const Heads& heads : {kHeads[0], kHeads[1], kHeads[0]}) {
    const AttentionCase a = make_case("", AttentionMask::kCausal, heads, length, length, 3);
    const Inputs in(a);
    const Tensor o = run.poisoned(a.q_shape()), lse = run.wide().poisoned(a.lse_shape());
    gpu->attention_block(a.mask, spans, scale_of(a), run.from(in.q, a.q_shape()),
                         run.from(in.k, a.kv_shape()), run.from(in.v, a.kv_shape()), o, lse);
    cpu::CpuBackend cpu;
    const auto want = attend({cpu, DType::kFloat64}, a, in, false, DType::kFloat64);
    CHECK(frobenius(download(*gpu, o), want[0]) < 4e-3);
  }
}

TEST_CASE("deterministic attention that needs more memory than there is names its key") {
  const auto gpu = cuda::make_backend(0, {.deterministic = true});
  const std::vector<int32_t> lengths(16, 32768);  // 16 x 8 heads x 32768^2 x 2 bytes = 275 GB
  const AttentionCase a = make_case("", AttentionMask::kCausal, {8, 8, 64}, lengths, lengths, 0);
  const OpRun run{*gpu, DType::kBFloat16};
  const AttentionSpans spans = run.spans(a.q_offset, a.q_length, a.kv_offset, a.kv_length);
  const auto empty = [&](DType dtype, const Shape& shape) {
    const Tensor x = gpu->allocate(dtype, shape, MemoryTag::kWorkspace);
    gpu->fill_zero(x);
    return x;
  };
  const Tensor x = empty(run.dtype, a.q_shape()), lse = empty(DType::kFloat32, a.lse_shape());
  const auto check_refused = [](const std::function<void()>& body) {
    std::string message;
    try {
      body();
    } catch (const DeviceError& error) {
      message = error.what();
    }
    INFO(message);
    CHECK(message.find("deterministic_mode") != std::string::npos);
    CHECK(message.find("up to 16 documents of up to 32768 rows") != std::string::npos);
  };
  check_refused([&] { prepare(*gpu, a, true); });
  check_refused([&] {
    gpu->attention_block_backward(a.mask, spans, scale_of(a), x, x, x, x, lse, x,
                                  empty(run.dtype, a.q_shape()), empty(run.dtype, a.q_shape()),
                                  empty(run.dtype, a.q_shape()), false);
  });
}

TEST_CASE("the forward repeats bit for bit; deterministic, the gradients too") {
  const AttentionCase a = long_case();
  const Inputs in(a);
  for (const bool deterministic : {false, true}) {
    INFO("deterministic " << deterministic);
    const auto gpu = cuda::make_backend(0, {.deterministic = deterministic});
    const OpRun run{*gpu, DType::kBFloat16};
    const auto first = attend(run, a, in, false, DType::kBFloat16);
    for (int again = 0; again < 6; ++again) {
      const auto now = attend(run, a, in, false, DType::kBFloat16);
      for (size_t i = 0; i < (deterministic ? 5u : 2u); ++i) CHECK(same_bits(now[i], first[i]));
    }
  }
}
