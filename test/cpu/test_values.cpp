#include <cmath>
#include <limits>
#include <numbers>

#include "cpu/cpu_backend.h"
#include "cpu/op_cases.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

// Forward values against numbers worked out by hand, and what the border refuses.

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const DType kComputeDTypes[] = {DType::kFloat64, DType::kFloat32};

void check_values(Backend& backend, const Tensor& x, const std::vector<double>& want) {
  const std::vector<double> got = download(backend, x);
  REQUIRE(got.size() == want.size());
  const double tolerance = x.dtype() == DType::kFloat64 ? 1e-12 : 1e-6;
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i);
    CHECK(got[i] == Approx(want[i]).epsilon(tolerance).margin(tolerance));
  }
}

}  // namespace

TEST_CASE("matmul: all transposes, overwriting and accumulating") {
  cpu::CpuBackend backend;
  for (DType dtype : kComputeDTypes) {
    const OpRun run{backend, dtype};
    const Tensor a = run.from({1, 2, 3, 4, 5, 6}, {2, 3}),
                 a_t = run.from({1, 4, 2, 5, 3, 6}, {3, 2});
    const Tensor b = run.from({1, 0, 2, 1, 0, 3}, {3, 2}),
                 b_t = run.from({1, 2, 0, 0, 1, 3}, {2, 3});
    for (int flags = 0; flags < 4; ++flags) {
      const bool ta = flags & 1, tb = flags & 2;
      Tensor c = run.poisoned({2, 2});
      backend.matmul(c, ta ? a_t : a, tb ? b_t : b, ta, tb, false);
      check_values(backend, c, {5, 11, 14, 23});
      backend.matmul(c, ta ? a_t : a, tb ? b_t : b, ta, tb, true);
      check_values(backend, c, {10, 22, 28, 46});
    }
  }
}

TEST_CASE("host code gets the values of its inputs and fills its outputs") {
  cpu::CpuBackend backend;
  for (DType dtype : kComputeDTypes) {
    const OpRun run{backend, dtype};
    const Tensor x = run.from({1, 2, 3}, {3}), y = run.poisoned({2}), none = run.poisoned({0});
    compute_on_host(backend, {x, none}, {none, y}, [](const HostValues& in, HostValues& out) {
      CHECK(in == HostValues{{1, 2, 3}, {}});
      CHECK(out == HostValues{{}, {0, 0}});
      out[1] = {in[0][2], 0.5};
    });
    check_values(backend, y, {3, 0.5});
    CHECK_THROWS_AS(compute_on_host(backend, {}, {y},
                                    [](const HostValues&, HostValues& out) { out[0].pop_back(); }),
                    std::logic_error);
    CHECK_THROWS_AS(compute_on_host(backend, {run.ints({1})}, {}, {}), std::logic_error);
  }
}

TEST_CASE("rows: embedding, gather, scatter, split and join") {
  cpu::CpuBackend backend;
  for (DType dtype : kComputeDTypes) {
    const OpRun run{backend, dtype};
    const Tensor table = run.from({1, 2, 3, 4, 5, 6}, {3, 2});
    Tensor out = run.poisoned({2, 2});
    backend.embedding(out, table, run.ints({9, 12}), 10);  // rows 10, 11, 12 of the vocabulary
    check_values(backend, out, {0, 0, 5, 6});
    backend.embedding(out, table, run.ints({2, 0}), 0);
    check_values(backend, out, {5, 6, 1, 2});
    backend.add(out, out, run.from({10, 20, 10, 20}, {2, 2}));
    check_values(backend, out, {15, 26, 11, 22});
    backend.scatter_rows(table, out, run.ints({1, 0}));
    check_values(backend, table, {11, 22, 15, 26, 5, 6});
    backend.gather_rows(out, table, run.ints({2, 2}));
    check_values(backend, out, {5, 6, 5, 6});

    const Tensor joined = run.filled(0, {2, 3});
    backend.join_columns(joined, run.from({1, 2}, {2, 1}), 2);
    backend.join_columns(joined, run.from({3, 4, 5, 6}, {2, 2}), 0);
    check_values(backend, joined, {3, 4, 1, 5, 6, 2});

    const Tensor qkv = run.from({1, 2, 3, 4, 5, 6, 7, 8}, {1, 8});
    Tensor q = run.poisoned({1, 2, 2}), k = run.poisoned({1, 1, 2}), v = run.poisoned({1, 1, 2});
    backend.split_qkv(q, k, v, qkv, {}, {});
    check_values(backend, q, {1, 2, 3, 4});
    check_values(backend, k, {5, 6});
    check_values(backend, v, {7, 8});
    // A quarter turn takes (a, b) to (-b, a). The bias comes before it.
    const Tensor bias = run.from({10, 20, 30, 40, 50, 60, 70, 80}, {8});
    const Tensor quarter = run.from({0, 1}, {1, 2});
    backend.split_qkv(q, k, v, qkv, bias, quarter);
    check_values(backend, q, {-22, 11, -44, 33});
    check_values(backend, k, {-66, 55});
    check_values(backend, v, {77, 88});
    const Tensor d_bias = run.filled(100, {8});
    backend.split_qkv_backward(qkv, d_bias, q, k, v, quarter);
    check_values(backend, qkv, {11, 22, 33, 44, 55, 66, 77, 88});
    check_values(backend, d_bias, {111, 122, 133, 144, 155, 166, 177, 188});
  }
}

TEST_CASE("gather_rows moves integers and 16-bit values too") {
  cpu::CpuBackend backend;
  const OpRun run{backend, DType::kFloat32};
  Tensor out = run.ints({0, 0});
  backend.gather_rows(out, run.ints({7, 8, 9}), run.ints({2, 0}));
  CHECK(out.as<int32_t>()[0] == 9);
  CHECK(out.as<int32_t>()[1] == 7);
}

TEST_CASE("rms_norm, rope and swiglu") {
  cpu::CpuBackend backend;
  for (DType dtype : kComputeDTypes) {
    const OpRun run{backend, dtype};
    Tensor y = run.poisoned({1, 2}), rstd = run.poisoned({1});
    backend.rms_norm(y, rstd, run.from({3, 4}, {1, 2}), run.from({1, 2}, {2}), 3.5);
    check_values(backend, rstd, {0.25});  // 1 / sqrt(12.5 + 3.5)
    check_values(backend, y, {0.75, 2.0});
    const Tensor sum = run.from({2, 1}, {1, 2});
    backend.add_rms_norm(sum, y, rstd, run.from({1, 3}, {1, 2}), sum, run.from({1, 2}, {2}), 3.5);
    check_values(backend, sum, {3, 4});
    check_values(backend, rstd, {0.25});
    check_values(backend, y, {0.75, 2.0});

    // A quarter and a half turn of the pairs (0, 2) and (1, 3).
    const Tensor x = run.from({1, 2, 3, 4}, {1, 1, 4});
    const Tensor inv_freq = run.from({std::numbers::pi / 2, std::numbers::pi}, {2});
    const Tensor table = run.poisoned({1, 4});
    backend.rope_table(table, run.ints({1}), inv_freq);
    check_values(backend, table, {0, -1, 1, 0});
    backend.rope(x, table, false);
    check_values(backend, x, {-3, -2, 1, -4});
    backend.rope(x, table, true);
    check_values(backend, x, {1, 2, 3, 4});

    Tensor out = run.poisoned({1, 3});
    backend.swiglu(out, run.from({0, std::log(3.0), -800, 5, 2, 7}, {1, 6}));
    check_values(backend, out, {0, 1.5 * std::log(3.0), 0});
  }
}

TEST_CASE("temperatures below 1e-8 count as 1e-8") {
  cpu::CpuBackend backend;
  for (DType dtype : kComputeDTypes) {
    const OpRun run{backend, dtype};
    const auto stats_at = [&](double temperature) {
      const Tensor stats = OpRun{backend, DType::kFloat64}.poisoned({1, 4});
      backend.logit_stats(stats, run.from({0, 1e-8, 3e-8}, {1, 3}), run.ints({1}),
                          run.from({temperature}, {1}), 0);
      return download(backend, stats);
    };
    const std::vector<double> floor = stats_at(1e-8);
    CHECK(floor[0] == Approx(3).epsilon(1e-5));
    for (const double below : {4e-9, 1e-30, 0.0, -1.0}) CHECK(stats_at(below) == floor);
    CHECK(stats_at(2e-8) != floor);
  }
}

TEST_CASE("token_log_prob: probabilities 1/4 and 3/4") {
  cpu::CpuBackend backend;
  const double log3 = std::log(3.0);
  const double entropy = std::log(4.0) - 0.75 * log3;
  for (DType dtype : kComputeDTypes) {
    const OpRun run{backend, dtype};
    // Row 1 has temperature 1/2, row 2 far from zero, row 3 temperature 0 (counted as 1e-8), row 4
    // a token that cannot happen.
    const Tensor logits =
        run.from({0, log3, 0, log3 / 2, 64 + log3, 64, 0, log3 * 1e-8, 2, -kInf}, {5, 2});
    const Tensor labels = run.ints({1, 0, 0, 1, 0});
    const Tensor temperature = run.from({1, 0.5, 1, 0, 1}, {5});
    Tensor log_prob = run.poisoned({5}), ent = run.poisoned({5}), lse = run.poisoned({5});
    const Tensor stats = OpRun{backend, DType::kFloat64}.poisoned({1, 5, 4});
    backend.logit_stats(stats.view({5, 4}), logits, labels, temperature, 0);
    backend.token_log_prob(log_prob, ent, lse, stats);
    const double quarter = std::log(0.25), most = std::log(0.75);
    const std::vector<double> got = download(backend, log_prob), got_ent = download(backend, ent);
    const std::vector<double> want{most, quarter, most, most, 0};
    for (size_t r = 0; r < 5; ++r) {
      INFO("row " << r);
      CHECK(got[r] == Approx(want[r]).epsilon(3e-6).margin(1e-12));
      CHECK(got_ent[r] == Approx(r == 4 ? 0 : entropy).epsilon(3e-6).margin(1e-12));
    }
    check_values(backend, lse.rows(0, 1), {std::log(4.0)});
    check_values(backend, logits.rows(1, 1), {0, log3 / 2});  // untouched

    const Tensor apart = run.poisoned({5, 2});
    for (const Tensor& d_logits : {apart, logits}) {
      backend.token_log_prob_backward(d_logits, {logits, {}}, labels, temperature, ent, lse,
                                      run.from({2, 2, 0, 0, 1}, {5}),
                                      run.from({0, 0, 1, 0, 1}, {5}), 0);
      check_values(backend, d_logits.rows(0, 2), {-0.5, 0.5, 3, -3});
      const double pull = 0.75 * (most + entropy);
      const std::vector<double> grad = download(backend, d_logits.rows(2, 1));
      CHECK(grad[0] == Approx(-pull).epsilon(1e-4));
      CHECK(grad[1] == Approx(pull).epsilon(1e-4));
      check_values(backend, d_logits.rows(3, 2), {0, 0, 0, 0});
    }
  }
}

TEST_CASE("adamw: two steps by hand") {
  cpu::CpuBackend backend;
  for (DType dtype : kComputeDTypes) {
    const OpRun run{backend, dtype};
    const Tensor w = run.from({1}, {1}), m = run.filled(0, {1}), v = run.filled(0, {1});
    AdamWOptions options{.lr = 0.1,
                         .beta1 = 0.9,
                         .beta2 = 0.99,
                         .eps = 0.1,
                         .weight_decay = 0.5,
                         .step = 1,
                         .grad_scale = 2};
    // g = 1: m^ = 1, v^ = 1, w = 0.95 - 0.1 / 1.1.
    backend.adamw(w, w, run.from({0.5}, {1}), m, v, options);
    check_values(backend, w, {0.95 - 1.0 / 11});
    check_values(backend, m, {0.1});
    check_values(backend, v, {0.01});
    // g = -1: m = -0.01, m^ = -1/19, v^ = 1.
    options.step = 2;
    backend.adamw(w, w, run.from({-0.5}, {1}), m, v, options);
    check_values(backend, w, {(0.95 - 1.0 / 11) * 0.95 + 1.0 / (19 * 11)});
  }
}

TEST_CASE("sum_squares adds to its float64 output") {
  cpu::CpuBackend backend;
  for (DType dtype : kComputeDTypes) {
    const OpRun run{backend, dtype};
    const OpRun wide{backend, DType::kFloat64};
    const Tensor out = wide.from({100}, {1});
    backend.sum_squares(out, run.from({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {11}));
    CHECK(download(backend, out)[0] == 606);
    backend.sum_squares(out, run.from({}, {0}));
    CHECK(download(backend, out)[0] == 606);
  }
}

TEST_CASE("sum_squares keeps its digits over millions of elements") {
  cpu::CpuBackend backend;
  const OpRun wide{backend, DType::kFloat64};
  constexpr int64_t kCount = 1 << 22;
  const Tensor out = wide.from({0}, {1});
  backend.sum_squares(out, wide.from(std::vector<double>(kCount, 0.1), {kCount}));
  const double exact = kCount * (0.1 * 0.1);  // the factor is a power of two
  CHECK(std::abs(download(backend, out)[0] - exact) < 1e-12 * exact);
}

TEST_CASE("replay runs its body every time") {
  cpu::CpuBackend backend;
  int runs = 0;
  for (int i = 0; i < 3; ++i) backend.replay("key", [&] { ++runs; });
  CHECK(runs == 3);
}

TEST_CASE("the border refuses wrong shapes, dtypes and indices") {
  cpu::CpuBackend backend;
  const OpRun run{backend, DType::kFloat32}, wide{backend, DType::kFloat64};
  const Tensor x = run.filled(1, {2, 3}), square = run.filled(1, {3, 3});
  CHECK_THROWS_AS(backend.matmul(x, square, x, false, false, false), std::logic_error);
  CHECK_THROWS_AS(backend.matmul(x, x, wide.filled(1, {3, 3}), false, false, false),
                  std::logic_error);
  CHECK_THROWS_AS(backend.add(x, x, square), std::logic_error);
  CHECK_THROWS_AS(backend.embedding(run.filled(0, {1, 2}), square, run.ints({2}), 0),
                  std::logic_error);
  CHECK_THROWS_AS(backend.join_columns(x, run.filled(0, {2, 2}), 2), std::logic_error);
  CHECK_THROWS_AS(backend.gather_rows(run.filled(0, {1, 3}), x, run.ints({2})), std::logic_error);
  CHECK_THROWS_AS(backend.scatter_rows(x, run.filled(0, {1, 3}), run.ints({2})), std::logic_error);
  CHECK_THROWS_AS(backend.copy(x, square), std::logic_error);
  CHECK_THROWS_AS(backend.copy(x, run.ints({1, 2, 3, 4, 5, 6})), std::logic_error);
  const Tensor half = backend.allocate(DType::kBFloat16, {2, 3}, MemoryTag::kWorkspace);
  CHECK_THROWS_AS(backend.add(half, half, half), std::logic_error);
  const Tensor row = run.filled(1, {2});
  const Tensor stats = wide.filled(0, {2, 4});
  CHECK_THROWS_AS(backend.logit_stats(stats, x, run.ints({0, 1, 2}), row, 0), std::logic_error);
  CHECK_THROWS_AS(backend.logit_stats(x, x, run.ints({0, 1}), row, 0), std::logic_error);
}
