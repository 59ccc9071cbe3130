#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/cpu_backend.h"
#include "cpu/op_cases.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double through(DType storage, DType source, double value) {
  cpu::CpuBackend backend;
  const OpRun run{backend, source};
  const Tensor narrow = backend.allocate(storage, {1}, MemoryTag::kWorkspace);
  backend.copy(narrow, run.from({value}, {1}));
  return download(backend, narrow)[0];
}

}  // namespace

TEST_CASE("float16 rounds to nearest even, with subnormals and infinity") {
  for (DType source : {DType::kFloat32, DType::kFloat64}) {
    const auto half = [&](double x) { return through(DType::kFloat16, source, x); };
    CHECK(half(1 + 0x1p-11) == 1);               // tie to even, down
    CHECK(half(1 + 3 * 0x1p-11) == 1 + 0x1p-9);  // tie to even, up
    CHECK(half(-(1 + 0x1.1p-11)) == -(1 + 0x1p-10));
    CHECK(half(65504) == 65504);
    CHECK(half(65519) == 65504);
    CHECK(half(65520) == kInf);
    CHECK(half(-kInf) == -kInf);
    CHECK(half(0x1p-24) == 0x1p-24);
    CHECK(half(0x1p-25) == 0);
    CHECK(half(3 * 0x1p-25) == 0x1p-23);
    CHECK(half(1023.5 * 0x1p-24) == 0x1p-14);  // the largest subnormal rounds into the normals
    CHECK(std::signbit(half(-0.0)));
    CHECK(std::isnan(half(std::nan(""))));
  }
}

TEST_CASE("bfloat16 rounds to nearest even") {
  for (DType source : {DType::kFloat32, DType::kFloat64}) {
    const auto brain = [&](double x) { return through(DType::kBFloat16, source, x); };
    CHECK(brain(1 + 0x1p-8) == 1);
    CHECK(brain(1 + 3 * 0x1p-8) == 1 + 0x1p-6);
    CHECK(brain(-(1 + 0x1.1p-8)) == -(1 + 0x1p-7));
    CHECK(brain(0x1p-130) == 0x1p-130);
    CHECK(brain(std::numeric_limits<float>::max()) == kInf);
    CHECK(brain(-kInf) == -kInf);
    CHECK(std::isnan(brain(std::nan(""))));
  }
}

TEST_CASE("every 16-bit value survives the way to float and back") {
  cpu::CpuBackend backend;
  std::vector<uint16_t> bits(65536), back(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  for (DType storage : {DType::kBFloat16, DType::kFloat16}) {
    for (DType wide : {DType::kFloat32, DType::kFloat64}) {
      const Tensor x = backend.allocate(storage, {65536}, MemoryTag::kWorkspace);
      const Tensor middle = backend.allocate(wide, {65536}, MemoryTag::kWorkspace);
      backend.write(x, std::as_bytes(std::span(bits)));
      backend.copy(middle, x);
      backend.fill_zero(x);
      backend.copy(x, middle);
      backend.read(std::as_writable_bytes(std::span(back)), x);
      const std::vector<double> values = download(backend, middle);
      size_t changed = 0;
      for (size_t i = 0; i < bits.size(); ++i)
        changed += !std::isnan(values[i]) && back[i] != bits[i];
      CHECK(changed == 0);
    }
  }
}

TEST_CASE("copy between float64 and float32, and of integers") {
  cpu::CpuBackend backend;
  const OpRun wide{backend, DType::kFloat64}, single{backend, DType::kFloat32};
  Tensor narrow = single.poisoned({2});
  backend.copy(narrow, wide.from({1.0 / 3, -2}, {2}));
  CHECK(narrow.as<float>()[0] == 1.0f / 3);
  Tensor widened = wide.poisoned({2});
  backend.copy(widened, narrow);
  CHECK(widened.as<double>()[0] == 1.0f / 3);
  Tensor ints = single.ints({0, 0});
  backend.copy(ints, single.ints({5, -6}));
  CHECK(ints.as<int32_t>()[1] == -6);
}

TEST_CASE("every float16 widens to its value") {
  cpu::CpuBackend backend;
  std::vector<uint16_t> bits(1 << 16);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const auto n = static_cast<int64_t>(bits.size());
  const Tensor halves = backend.allocate(DType::kFloat16, {n}, MemoryTag::kWorkspace);
  const Tensor wide = backend.allocate(DType::kFloat64, {n}, MemoryTag::kWorkspace);
  backend.write(halves, std::as_bytes(std::span(bits)));
  backend.copy(wide, halves);
  const std::vector<double> got = download(backend, wide);
  int wrong = 0;
  for (int i = 0; i < 1 << 16; ++i) {
    const int exponent = i >> 10 & 31, fraction = i & 1023;
    const double magnitude = exponent == 31  ? (fraction == 0 ? HUGE_VAL : std::nan(""))
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, exponent - 25);
    const double want = i >> 15 ? -magnitude : magnitude, value = got[static_cast<size_t>(i)];
    const bool same = std::isnan(want) ? std::isnan(value)
                                       : value == want && std::signbit(value) == std::signbit(want);
    if (!same) ++wrong;
  }
  CHECK(wrong == 0);
}
