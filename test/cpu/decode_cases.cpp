#include "cpu/decode_cases.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cpu/cpu_backend.h"

namespace verlcpp::test {

int64_t DecodeCase::table_length() const {
  int64_t longest = 0;
  for (const int32_t position : positions) longest = std::max<int64_t>(longest, position);
  return longest / block + 2;
}

int32_t DecodeCase::block_of(int64_t b, int64_t m) const {
  // Backwards, so that neighbours in a table are not neighbours in the cache.
  return static_cast<int32_t>((table_length() - 1 - m) * sequences() + b + 1);
}

std::vector<double> rounded_values(int64_t n, uint64_t stream) {
  constexpr int64_t kPeriod = 40961;  // a prime: rows differ
  cpu::CpuBackend backend;
  const int64_t drawn = std::min(n, kPeriod);
  std::vector<double> values = download(
      backend, OpRun{backend, DType::kBFloat16}.from(random_values(drawn, stream), {drawn}));
  for (int64_t i = drawn; i < n; ++i) values.push_back(values[static_cast<size_t>(i - drawn)]);
  return values;
}

std::vector<double> DecodeCase::cache(uint64_t stream) const {
  const int64_t n = numel_of(cache_shape()), width = kv_heads * head_dim;
  const std::vector<double> values = rounded_values(n, stream);
  std::vector<double> out(values.size(), std::numeric_limits<double>::quiet_NaN());
  for (int64_t b = 0; b < sequences(); ++b) {
    for (int64_t j = 0; j < positions[static_cast<size_t>(b)]; ++j) {
      std::copy_n(values.begin() + row_of(b, j) * width, width, out.begin() + row_of(b, j) * width);
    }
  }
  return out;
}

std::vector<DecodeCase> decode_cases() {
  std::vector<int32_t> many;
  for (int32_t i = 0; i < 300; ++i) many.push_back(i % 17 == 5 ? -1 : i * 7 % 150);
  const std::vector<int32_t> hundred(many.begin(), many.begin() + 100);
  const std::vector<int32_t> some{0, 1, 15, 16, 63, 64, -1, 100, 126, 127, 128, 400};
  return {{"odd heads", 4, 2, 6, 4, {0, 3, 4, -1, 9}},
          {"one long sequence", 14, 2, 64, 64, {1000}},
          {"14 heads of 64 over 2", 14, 2, 64, 64, some},
          {"12 heads of 128 over 2", 12, 2, 128, 64, some},
          {"28 heads of 128 over 4", 28, 4, 128, 16, some},
          {"each head its own", 3, 3, 64, 64, some},
          {"20 heads over one", 20, 1, 64, 32, some},
          {"wide heads", 2, 1, 256, 64, some},
          {"small blocks", 14, 2, 64, 8, {7, 8, 40, -1}},
          {"many sequences", 14, 2, 64, 64, many},
          {"a hundred sequences", 14, 2, 64, 64, hundred},
          {"a hundred sequences, heads of 128", 12, 2, 128, 64, hundred},
          {"no sequence in any row", 14, 2, 64, 64, {-1, -1}},
          {"no rows", 4, 2, 64, 64, {}}};
}

Decoded decoded(const OpRun& run, const DecodeCase& c) {
  std::vector<int32_t> tables;
  for (int64_t b = 0; b < c.sequences(); ++b) {
    for (int64_t m = 0; m < c.table_length(); ++m) {
      const bool used = m * c.block <= c.positions[static_cast<size_t>(b)];
      tables.push_back(used ? c.block_of(b, m) : int32_t{1} << 24);
    }
  }
  const auto random = [&](const Shape& shape, uint64_t stream) {
    return run.from(rounded_values(numel_of(shape), stream), shape);
  };
  const Tensor cache_k = run.from(c.cache(4), c.cache_shape());
  const Tensor cache_v = run.from(c.cache(5), c.cache_shape());
  const Tensor o = run.poisoned(c.q_shape());
  run.backend.decode_attention(
      {run.ints(tables, {c.sequences(), c.table_length()}), run.ints(c.positions), c.block},
      c.scale(), random(c.q_shape(), 1), random(c.kv_shape(), 2), random(c.kv_shape(), 3), cache_k,
      cache_v, o);
  return {download(run.backend, o), download(run.backend, cache_k), download(run.backend, cache_v)};
}

}  // namespace verlcpp::test
