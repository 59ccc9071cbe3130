#include <cmath>

#include "cpu/cpu_backend.h"
#include "cpu/decode_cases.h"
#include "support/catch.h"
#include "tensor/checked_backend.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

using Values = std::vector<double>;

/// Softmax attention one (sequence, head) at a time, straight from the definition, over a cache
/// that holds the new token too.
Values reference(const DecodeCase& c, const Values& q, const Values& k, const Values& v) {
  Values o(q.size(), 0.0);
  const int64_t H = c.head_dim;
  const auto at = [](const Values& x, int64_t i) { return x[static_cast<size_t>(i)]; };
  for (int64_t b = 0; b < c.sequences(); ++b) {
    for (int64_t n = 0; n < c.heads; ++n) {
      const int64_t head = (b * c.heads + n) * H;
      double sum = 0;
      for (int64_t j = 0; j <= c.positions[static_cast<size_t>(b)]; ++j) {
        const int64_t row = (c.row_of(b, j) * c.kv_heads + n * c.kv_heads / c.heads) * H;
        double score = 0;
        for (int64_t h = 0; h < H; ++h) score += at(q, head + h) * at(k, row + h);
        const double e = std::exp(score * c.scale());
        sum += e;
        for (int64_t h = 0; h < H; ++h) o[static_cast<size_t>(head + h)] += e * at(v, row + h);
      }
      for (int64_t h = 0; h < H && sum > 0; ++h) o[static_cast<size_t>(head + h)] /= sum;
    }
  }
  return o;
}

/// The cache with the new tokens' rows written.
Values written(const DecodeCase& c, uint64_t cache_stream, uint64_t new_stream) {
  Values cache = c.cache(cache_stream);
  const int64_t width = c.kv_heads * c.head_dim;
  const Values fresh = rounded_values(c.sequences() * width, new_stream);
  for (int64_t b = 0; b < c.sequences(); ++b) {
    const int32_t position = c.positions[static_cast<size_t>(b)];
    if (position < 0) continue;
    std::copy_n(fresh.begin() + b * width, width, cache.begin() + c.row_of(b, position) * width);
  }
  return cache;
}

void check_close(const Values& got, const Values& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    const double difference = std::abs(got[i] - want[i]);
    if (!(difference <= largest)) largest = difference;
  }
  CHECK(largest <= tolerance);
}

}  // namespace

TEST_CASE("decode attention is softmax attention over the sequence's blocks") {
  cpu::CpuBackend backend;
  for (const DecodeCase& c : decode_cases()) {
    INFO(c.name);
    const Values k = written(c, 4, 2), v = written(c, 5, 3);
    const Values o = reference(c, rounded_values(numel_of(c.q_shape()), 1), k, v);
    for (const auto& [dtype, tolerance] :
         {std::pair{DType::kFloat64, 1e-12}, {DType::kFloat32, 1e-5}}) {
      const Decoded got = decoded({backend, dtype}, c);
      check_close(got.o, o, tolerance);
      check_close(got.cache_k, k, 0);
      check_close(got.cache_v, v, 0);
    }
  }
}

TEST_CASE("decode attention refuses blocks that the cache lacks") {
  cpu::CpuBackend backend;
  const OpRun run{backend, DType::kFloat32};
  const Tensor q = run.filled(1, {1, 2, 4}), kv = run.filled(1, {1, 1, 4});
  const Tensor cache = run.filled(1, {8, 1, 4});
  const auto decode = [&](const std::vector<int32_t>& table, int32_t position) {
    backend.decode_attention(
        {run.ints(table, {1, static_cast<int64_t>(table.size())}), run.ints({position}), 4}, 1, q,
        kv, kv, cache, cache, run.poisoned({1, 2, 4}));
  };
  CHECK_NOTHROW(decode({1, 0}, 7));
  CHECK_THROWS_AS(decode({1, 0}, 8), std::logic_error);
  CHECK_THROWS_AS(decode({2}, 0), std::logic_error);
  CHECK_THROWS_AS(decode({-1}, 0), std::logic_error);
}

TEST_CASE("sequences advance, rows without one stay; both new ops agree with themselves") {
  CheckedBackend backend(std::make_unique<cpu::CpuBackend>(), std::make_unique<cpu::CpuBackend>());
  const OpRun run{backend, DType::kFloat32};
  const Tensor positions = run.ints({4, -1, 0});
  const Tensor counters = run.ints({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0}, {3, 4});
  backend.advance_sequences(positions, counters);
  std::vector<int32_t> got(3), words(12);
  backend.read(std::as_writable_bytes(std::span(got)), positions);
  backend.read(std::as_writable_bytes(std::span(words)), counters);
  CHECK(got == std::vector<int32_t>{5, -1, 1});
  CHECK(words == std::vector<int32_t>{1, 2, 3, 5, 5, 6, 7, 8, 9, 10, 11, 1});
  CHECK_NOTHROW(decoded(run, decode_cases()[2]));
  CHECK(backend.checked_ops() == 2);
}

TEST_CASE("a later read hands out what the tensor held when it was asked") {
  cpu::CpuBackend backend;
  const OpRun run{backend, DType::kFloat32};
  const Tensor x = run.ints({1, 2});
  const PendingRead read = backend.read_later(x);
  backend.fill_zero(x);
  const auto bytes = read();
  REQUIRE(bytes.size() == 8);
  CHECK(bytes[0] == std::byte{1});
  CHECK(bytes[4] == std::byte{2});
}
