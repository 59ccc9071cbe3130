// CudaBackend against CpuBackend over the op table: same inputs, outputs poisoned first.

#include <algorithm>
#include <array>
#include <cmath>

#include "cpu/cpu_backend.h"
#include "cpu/op_cases.h"
#include "cuda/runtime.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

constexpr uint64_t kProjectionStream = 1000;

/// Outputs, then gradients, of a case on one backend. Inputs and the direction of the gradient are
/// random numbers that bfloat16 holds, so that every dtype starts from the same.
std::vector<std::vector<double>> results(const OpRun& run, const OpCase& c) {
  const auto random = [&](const OpRun& where, int64_t n, uint64_t stream, const Shape& shape) {
    const Tensor rounded =
        OpRun{run.backend, DType::kBFloat16}.from(random_values(n, stream), shape);
    return where.from(download(run.backend, rounded), shape);
  };
  std::vector<Tensor> inputs, projections;
  for (const OpInput& in : c.inputs) {
    inputs.push_back(random(run, numel_of(in.shape), inputs.size(), in.shape));
  }
  const OpResult result = c.forward(run, inputs);
  std::vector<std::vector<double>> values;
  for (const Tensor& x : result.outputs) {
    values.push_back(download(run.backend, x));
    projections.push_back(random({run.backend, x.dtype()}, x.numel(),
                                 kProjectionStream + projections.size(), x.shape()));
  }
  for (const Tensor& g : c.backward(run, inputs, result, projections)) {
    values.push_back(download(run.backend, g));
  }
  return values;
}

double largest_error(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double scale = 1e-30, error = 0;
  for (double w : want) {
    if (std::isfinite(w)) scale = std::max(scale, std::abs(w));
  }
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i]) continue;  // infinities too
    const double d = std::abs(got[i] - want[i]);
    error = std::isnan(d) ? HUGE_VAL : std::max(error, d);
  }
  return error / scale;
}

}  // namespace

TEST_CASE("products of bfloat16 into float32 are not rounded to bfloat16", "[small]") {
  const auto gpu = cuda::make_backend(0);
  cpu::CpuBackend cpu;
  const auto product = [](Backend& backend, DType dtype) {
    const OpRun half{backend, DType::kBFloat16}, out{backend, DType::kFloat32};
    const Tensor c = out.poisoned({9, 33});
    const OpRun in{backend, dtype};
    backend.matmul(c, in.converted(half.from(random_values(9 * 64, 1), {9, 64})),
                   in.converted(half.from(random_values(33 * 64, 2), {33, 64})), false, true,
                   false);
    return download(backend, c);
  };
  CHECK(largest_error(product(*gpu, DType::kBFloat16), product(cpu, DType::kFloat32)) < 1e-5);
}

TEST_CASE("products of float32 add up their slices, whatever is transposed", "[small]") {
  const auto gpu = cuda::make_backend(0);
  cpu::CpuBackend cpu;
  const auto product = [](Backend& backend, DType dtype, int64_t summands, bool transpose_a,
                          bool transpose_b, bool accumulate) {
    const OpRun run{backend, dtype}, single{backend, DType::kFloat32};
    const auto operand = [&](int64_t rows, bool across, uint64_t stream) {
      std::vector<double> values = random_values(rows * summands, stream);
      for (double& x : values) x = 1 + std::abs(x);
      const Shape shape = across ? Shape{rows, summands} : Shape{summands, rows};
      return run.converted(single.from(values, shape));
    };
    const Tensor c = run.from(std::vector<double>(9 * 33, 7.0), {9, 33});
    backend.matmul(c, operand(9, !transpose_a, 1), operand(33, transpose_b, 2), transpose_a,
                   transpose_b, accumulate);
    return download(backend, c);
  };
  for (const int64_t summands : {2048, 5000, 49152}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const bool accumulate : {false, true}) {
          INFO(summands << ", " << transpose_a << transpose_b << accumulate);
          const auto of = [&](Backend& backend, DType dtype) {
            return product(backend, dtype, summands, transpose_a, transpose_b, accumulate);
          };
          CHECK(largest_error(of(*gpu, DType::kFloat32), of(cpu, DType::kFloat64)) < 1.5e-6);
        }
      }
    }
  }
}

TEST_CASE("products of float32 are as exact with many summands as with few") {
  // The gradient of the head's input, of so few rows that cuBLAS adds up a whole slice in order.
  constexpr int64_t kRows = 201, kColumns = 576, kMost = 49152;
  const auto gpu = cuda::make_backend(0);
  const OpRun run{*gpu, DType::kFloat32};
  // All of one sign: a sum that grows rounds off more and more of what is added.
  const auto positive = [](int64_t n, uint64_t stream) {
    std::vector<double> values = random_values(n, stream);
    for (double& x : values) x = static_cast<float>(1 + std::abs(x));
    return values;
  };
  const std::vector<double> a = positive(kRows * kMost, 1), b = positive(kMost * kColumns, 2);
  const auto error = [&](int64_t summands) {
    const auto first = [](const std::vector<double>& values, int64_t n) {
      return std::vector<double>(values.begin(), values.begin() + n);
    };
    const Tensor c = run.poisoned({kRows, kColumns});
    gpu->matmul(c, run.from(first(a, kRows * summands), {kRows, summands}),
                run.from(first(b, summands * kColumns), {summands, kColumns}), false, false, false);
    const std::vector<double> all = download(*gpu, c);
    double worst = 0;
    for (int64_t r = 0; r < kRows; r += 20) {
      std::vector<double> want(kColumns);
      for (int64_t k = 0; k < summands; ++k) {
        for (int64_t v = 0; v < kColumns; ++v) {
          want[v] += a[r * summands + k] * b[k * kColumns + v];
        }
      }
      for (int64_t v = 0; v < kColumns; ++v) {
        worst = std::max(worst, std::abs(all[r * kColumns + v] / want[v] - 1));
      }
    }
    return worst;
  };
  const double few = error(2048), many = error(kMost);
  INFO("relative errors of 2,048 and of 49,152 summands: " << few << ", " << many);
  CHECK(few < 1e-6);
  CHECK(many < 2 * few);  // 3.3 times it in one sum of all
}

TEST_CASE("the last rows of more than 2^31 logits are what they are alone") {
  constexpr int64_t kVocab = 151936, kWidth = 64, kRows = 14336, kLast = 16;
  static_assert((kRows - kLast) * kVocab > int64_t{1} << 31);
  const auto gpu = cuda::make_backend(0);
  const OpRun run{*gpu, DType::kBFloat16}, wide = run.wide();
  const Tensor w_VD = run.from(random_values(kVocab * kWidth, 1), {kVocab, kWidth});
  const Tensor x_RD = run.from(random_values(kRows * kWidth, 2), {kRows, kWidth});
  // Log-probs, entropies and the gradient of logits of the last rows of [first, kRows).
  const auto last_rows = [&](int64_t first) {
    const int64_t rows = kRows - first;
    std::vector<int32_t> labels;
    for (int64_t r = first; r < kRows; ++r) {
      labels.push_back(static_cast<int32_t>(r * 7919 % kVocab));
    }
    const Tensor label_R = run.ints(labels), tau_R = wide.filled(1.0, {rows});
    const Tensor stats_1R4 = OpRun{*gpu, DType::kFloat64}.poisoned({1, rows, 4});
    const KeptLogits kept = allocate_kept(*gpu, run.dtype, rows, kVocab);
    gpu->head_stats(stats_1R4.slice(0, {rows, 4}), kept, x_RD.rows(first, rows), w_VD, label_R,
                    tau_R, 0);
    const Tensor log_prob = wide.poisoned({rows}), entropy = wide.poisoned({rows}),
                 lse = wide.poisoned({rows});
    gpu->token_log_prob(log_prob, entropy, lse, stats_1R4);
    const Tensor d_logits = kept.values_RV.memory_for(run.dtype);
    gpu->token_log_prob_backward(d_logits, kept, label_R, tau_R, entropy, lse,
                                 wide.filled(1.0, {rows}), wide.filled(0.1, {rows}), 0);
    std::vector<std::vector<double>> values;
    for (const Tensor& all : {log_prob, entropy, d_logits}) {
      values.push_back(download(*gpu, all.rows(rows - kLast, kLast)));
    }
    return values;
  };
  const auto all = last_rows(0), alone = last_rows(kRows - kLast);
  for (size_t i = 0; i < all.size(); ++i) {
    INFO("value " << i);
    CHECK(largest_error(all[i], alone[i]) < (i < 2 ? 1e-5 : 1e-2));
  }
}

namespace {

/// Ops that cuBLAS or cuDNN may run. compute-sanitizer's initcheck does not see all that their
/// kernels write (bulk copies of Hopper), so scripts/gpu_check.sh leaves them out of that.
bool may_use_libraries(const OpCase& c) {
  const auto attention = attention_cases();
  return c.name.starts_with("matmul") || c.name.starts_with("head_stats") ||
         c.name.starts_with("gate_up") ||
         std::any_of(attention.begin(), attention.end(),
                     [&](const OpCase& other) { return other.name == c.name; });
}

void check_cases(const std::vector<OpCase>& cases) {
  const auto gpu = cuda::make_backend(0);
  cpu::CpuBackend cpu;
  // A bfloat16 has 8 bits; a sum of products of rounded intermediates loses a few of them.
  for (const auto& [dtype, tolerance] :
       {std::pair{DType::kFloat32, 1e-5}, {DType::kBFloat16, 0.02}}) {
    for (const OpCase& c : cases) {
      INFO(name_of(dtype) << " " << c.name);
      const auto got = results({*gpu, dtype}, c);
      const auto want = results({cpu, DType::kFloat32}, c);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        INFO("value " << i);
        CHECK(largest_error(got[i], want[i]) < tolerance);
      }
    }
  }
}

/// In bfloat16, to the bit.
void check_repeats(Backend& gpu, const std::vector<OpCase>& cases) {
  for (const OpCase& c : cases) {
    INFO(c.name);
    const bool repeats = results({gpu, DType::kBFloat16}, c) == results({gpu, DType::kBFloat16}, c);
    CHECK(repeats);
  }
}

void check_table(bool libraries) {
  std::vector<OpCase> cases;
  for (OpCase& c : op_cases()) {
    if (may_use_libraries(c) == libraries) cases.push_back(std::move(c));
  }
  check_cases(cases);
}

}  // namespace

// Tags: [small] takes seconds under compute-sanitizer, [own] runs kernels built here alone,
// [layers] whole layers.

TEST_CASE("every op of the table equals the CPU's, in float32 and within bfloat16's rounding",
          "[small][own]") {
  check_table(false);
}

TEST_CASE("products and attention of the table too", "[small]") { check_table(true); }

TEST_CASE("passes of a layer over more rows than are in flight, and again to the same bits") {
  check_cases(large_layer_cases());
  check_repeats(*cuda::make_backend(0), large_layer_cases());
}

TEST_CASE("gate and up of many tiles equal the CPU's, every time") {
  check_cases(large_gate_up_cases());
  check_repeats(*cuda::make_backend(0, {.deterministic = true}), large_gate_up_cases());
}

TEST_CASE("the head's statistics of many tiles and parts equal the CPU's, every time") {
  check_cases(large_head_cases());
  check_repeats(*cuda::make_backend(0, {.deterministic = true}), large_head_cases());
}

TEST_CASE("embedding gradients of often repeated tokens equal the CPU's, every time") {
  const auto gpu = cuda::make_backend(0);
  cpu::CpuBackend cpu;
  const int64_t rows = 10007, vocab = 40, width = 259, first = 5;
  std::vector<int32_t> few, all_alike(static_cast<size_t>(rows), first + 2), elsewhere, mixed;
  for (int32_t t = 0; t < rows; ++t) {
    few.push_back(first + t * 31 % 7);
    elsewhere.push_back(t % 2 == 0 ? first - 1 : first + static_cast<int32_t>(vocab));
    mixed.push_back(t * 7919 % 64);  // some before the part of the vocabulary, some behind
  }
  for (const auto& ids : {few, all_alike, elsewhere, mixed}) {
    const auto on = [&](Backend& backend) {
      const OpRun run{backend, DType::kFloat32};
      const Tensor d_table = run.grad_start({vocab, width});
      backend.embedding_backward(d_table, run.from(random_values(rows * width, 3), {rows, width}),
                                 run.ints(ids), first);
      return download(backend, d_table);
    };
    const auto got = on(*gpu);
    CHECK(largest_error(got, on(cpu)) < 1e-5);
    CHECK(on(*gpu) == got);
  }
}

// --- beside the table

TEST_CASE("a row's norm has the same bits among few rows and among many", "[own]") {
  const auto gpu = cuda::make_backend(0);
  for (const int64_t width : {512, 896, 1536, 3584, 8192}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      if (width * size_of(dtype) > 16384) continue;
      INFO(width << ", " << name_of(dtype));
      const OpRun run{*gpu, dtype};
      const int64_t rows = 1200, few = 3;
      const auto normed = [&](int64_t count) {
        const Tensor a = run.from(random_values(rows * width, 17), {rows, width}).rows(0, count);
        const Tensor b = run.from(random_values(rows * width, 18), {rows, width}).rows(0, count);
        const Tensor w = run.from(random_values(width, 19), {width});
        const Tensor sum = run.poisoned({count, width}), y = run.poisoned({count, width});
        const Tensor plain = run.poisoned({count, width});
        const Tensor rstd = OpRun{*gpu, DType::kFloat32}.poisoned({count});
        gpu->add_rms_norm(sum, y, rstd, a, b, w, 1e-6);
        gpu->rms_norm(plain, rstd, sum, w, 1e-6);
        CHECK(download(*gpu, plain) == download(*gpu, y));
        return std::array{download(*gpu, y.rows(0, few)), download(*gpu, rstd.rows(0, few))};
      };
      CHECK(normed(few) == normed(rows));
    }
  }
}

TEST_CASE("columns, sums of squares, conversions and AdamW equal the CPU's", "[small][own]") {
  const auto gpu = cuda::make_backend(0);
  cpu::CpuBackend cpu;
  const auto on = [](Backend& backend) {
    std::vector<std::vector<double>> values;
    const OpRun run{backend, DType::kFloat32}, half{backend, DType::kBFloat16};
    const Tensor joined = run.filled(0, {5, 7});
    backend.join_columns(joined, run.from(random_values(15, 1), {5, 3}), 4);
    backend.join_columns(joined, run.from(random_values(10, 2), {5, 2}), 1);
    values.push_back(download(backend, joined));

    const Tensor squares = OpRun{backend, DType::kFloat64}.filled(100, {1});
    for (const int64_t n : {0, 1, 100003}) {
      backend.sum_squares(squares, run.from(random_values(n, 3), {n}));
    }
    values.push_back(download(backend, squares));

    const std::vector<double> mixed{0, -0.0, 1, -123.5, 3e-5, 65504, HUGE_VAL, 1.0 / 3};
    for (const DType dtype : {DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
      const Tensor stored = backend.allocate(dtype, {8}, MemoryTag::kWorkspace);
      backend.copy(stored, run.from(mixed, {8}));
      values.push_back(download(backend, stored));
      // From and to where 16 bytes begin, with a tail behind them, and elsewhere.
      const Tensor many = run.from(random_values(1004, 5), {1004});
      for (const int64_t first : {0, 1}) {
        const Tensor out = backend.allocate(dtype, {1004}, MemoryTag::kWorkspace);
        backend.fill_zero(out);
        backend.copy(out.slice(first, {1003}), many.slice(first, {1003}));
        values.push_back(download(backend, out));
      }
    }

    const int64_t n = 1000;
    const Tensor master = run.from(random_values(n, 4), {n}), weight = half.filled(0, {n});
    const Tensor m = run.filled(0, {n}), v = run.filled(0, {n});
    for (int64_t step = 1; step <= 3; ++step) {
      const AdamWOptions options{.lr = 0.1, .weight_decay = 0.5, .step = step, .grad_scale = 0.25};
      backend.adamw(weight, master,
                    run.from(random_values(n, static_cast<uint64_t>(4 + step)), {n}), m, v,
                    options);
      backend.adamw(master, master, run.from(random_values(n, 9), {n}), m, v, options);
    }
    for (const Tensor& x : {master, m, v}) values.push_back(download(backend, x));
    return values;
  };
  const auto got = on(*gpu), want = on(cpu);
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("value " << i);
    CHECK(largest_error(got[i], want[i]) < 1e-5);
  }
}
