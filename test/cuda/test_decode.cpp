// Decode attention, replays and later reads on a GPU.

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/error.h"
#include "cpu/cpu_backend.h"
#include "cpu/decode_cases.h"
#include "cuda/backend.h"
#include "cuda/runtime.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

using Values = std::vector<double>;

/// Of the largest magnitude; NaN may meet NaN alone.
double difference(const Values& got, const Values& want) {
  REQUIRE(got.size() == want.size());
  double scale = 1e-30, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    if (std::isnan(want[i]) || std::isnan(got[i])) return HUGE_VAL;
    scale = std::max(scale, std::abs(want[i]));
    largest = std::max(largest, std::abs(got[i] - want[i]));
  }
  return largest / scale;
}

template <class T>
std::vector<T> read_ints(Backend& backend, const Tensor& x) {
  std::vector<T> values(static_cast<size_t>(x.numel()));
  backend.read(std::as_writable_bytes(std::span(values)), x);
  return values;
}

void check_decode(Backend& gpu, const DecodeCase& c, const std::vector<DType>& dtypes) {
  cpu::CpuBackend cpu;
  const Decoded want = decoded({cpu, DType::kFloat64}, c);
  for (const DType dtype : dtypes) {
    const double tolerance = dtype == DType::kFloat32 ? 1e-5 : 0.02;
    INFO(c.name << ", " << name_of(dtype));
    const Decoded got = decoded({gpu, dtype}, c);
    CHECK(difference(got.o, want.o) < tolerance);
    CHECK(difference(got.cache_k, want.cache_k) == 0);
    CHECK(difference(got.cache_v, want.cache_v) == 0);
    CHECK(decoded({gpu, dtype}, c).o == got.o);
  }
}

}  // namespace

TEST_CASE("decode attention equals the CPU's, in float32 and within bfloat16's rounding",
          "[small][own]") {
  const auto gpu = cuda::make_backend(0);
  for (const DecodeCase& c : decode_cases()) {
    check_decode(*gpu, c, {DType::kFloat32, DType::kBFloat16});
  }
}

TEST_CASE("on tensor cores decode attention reaches more positions than a warp knows at one time") {
  const auto gpu = cuda::make_backend(0);
  check_decode(*gpu, {"a book", 1, 1, 64, 64, {270000}}, {DType::kBFloat16});
}

TEST_CASE("sequences advance on the GPU as on the CPU", "[small][own]") {
  const auto gpu = cuda::make_backend(0);
  const OpRun run{*gpu, DType::kFloat32};
  std::vector<int32_t> positions, counters;
  for (int32_t b = 0; b < 300; ++b) {
    positions.push_back(b % 3 == 0 ? -1 : b);
    counters.insert(counters.end(), {b, 1, 2, 3 * b});
  }
  const Tensor p = run.ints(positions), c = run.ints(counters, {300, 4});
  gpu->advance_sequences(p, c);
  for (size_t b = 0; b < 300; ++b) {
    if (positions[b] < 0) continue;
    ++positions[b];
    ++counters[4 * b + 3];
  }
  CHECK(read_ints<int32_t>(*gpu, p) == positions);
  CHECK(read_ints<int32_t>(*gpu, c) == counters);
}

// --- replays

namespace {

/// out = (x w^T) w, then x += 1 through a constant: what a body may do, scratch included.
class Body {
 public:
  explicit Body(Backend& backend)
      : run_{backend, DType::kFloat32},
        x_(run_.filled(1, {4, 8})),
        out_(run_.poisoned({4, 8})),
        w_(run_.from(random_values(16 * 8, 1), {16, 8})),
        one_(run_.filled(1, {4, 8})) {}

  void operator()() const {
    Backend& b = run_.backend;
    const Tensor wide = b.allocate(DType::kFloat32, {4, 16}, MemoryTag::kWorkspace);
    b.matmul(wide, x_, w_, false, true, false);
    const Tensor result = b.allocate(DType::kFloat32, {4, 8}, MemoryTag::kWorkspace);
    b.matmul(result, wide, w_, false, false, false);
    b.copy(out_, result);
    b.add(x_, x_, one_);
  }
  Values out() const { return download(run_.backend, out_); }

 private:
  OpRun run_;
  Tensor x_, out_, w_, one_;
};

cuda::CudaBackend& as_cuda(Backend& backend) { return dynamic_cast<cuda::CudaBackend&>(backend); }

}  // namespace

TEST_CASE("a replayed body reads what device memory holds now, and its memory stays its own") {
  const auto gpu = cuda::make_backend(0);
  cpu::CpuBackend cpu;
  const Body body(*gpu), same(cpu);
  std::vector<Tensor> others;
  for (int step = 0; step < 6; ++step) {
    int calls = 0;
    gpu->replay("body", [&] {
      ++calls;
      body();
    });
    CHECK(calls == (step < 2 ? 1 : 0));
    same();
    CHECK(difference(body.out(), same.out()) < 1e-5);
    // What is allocated now is not what the graph works in.
    const Tensor other = OpRun{*gpu, DType::kFloat32}.filled(step, {4, 16});
    others.push_back(other);
    for (size_t i = 0; i < others.size(); ++i) {
      CHECK(download(*gpu, others[i]) == Values(64, static_cast<double>(i)));
    }
  }
  CHECK(as_cuda(*gpu).replay_graphs() == 1);
  gpu->forget_replays();
  CHECK(as_cuda(*gpu).replay_graphs() == 0);
  gpu->replay("body", body);
  same();
  CHECK(difference(body.out(), same.out()) < 1e-5);
}

TEST_CASE("without graphs a body runs every time") {
  const auto gpu = cuda::make_backend(0, {.graphs = false});
  const Body body(*gpu);
  int calls = 0;
  for (int step = 0; step < 3; ++step) {
    gpu->replay("body", [&] {
      ++calls;
      body();
    });
  }
  CHECK(calls == 3);
  CHECK(as_cuda(*gpu).replay_graphs() == 0);
}

TEST_CASE("what is no op is refused in a body; a body that fails leaves the backend usable") {
  const auto gpu = cuda::make_backend(0);
  const OpRun run{*gpu, DType::kFloat32};
  const Tensor x = run.filled(1, {8});
  std::vector<std::byte> bytes(32);
  const std::vector<std::function<void()>> refused{
      [&] { gpu->write(x, bytes); },
      [&] { gpu->read(bytes, x); },
      [&] { gpu->read_later(x); },
      [&] { gpu->synchronize(); },
      [&] { gpu->run_on_host({x}, {}, [](auto, auto) {}); },
      [&] { gpu->replay("inner", [] {}); }};
  for (const auto& call : refused) CHECK_THROWS_AS(gpu->replay("first", call), std::logic_error);
  for (size_t i = 0; i < refused.size(); ++i) {
    const std::string key = "second " + std::to_string(i);
    gpu->replay(key, [&] { gpu->fill_zero(x); });
    CHECK_THROWS_AS(gpu->replay(key,
                                [&] {
                                  gpu->fill_zero(x);
                                  refused[i]();
                                }),
                    std::logic_error);
  }
  CHECK(as_cuda(*gpu).replay_graphs() == 0);
  const std::vector<float> threes(8, 3.0f);
  gpu->write(x, std::as_bytes(std::span(threes)));
  CHECK(download(*gpu, x) == Values(8, 3.0));
}

TEST_CASE("later reads on a GPU hand out what the tensor held when they were asked for") {
  const auto gpu = cuda::make_backend(0);
  const OpRun run{*gpu, DType::kFloat32};
  for (const int64_t n : {1, 1000, 100001}) {  // a few, by a kernel, and many
    const Tensor x = run.filled(0, {n}), one = run.filled(1, {n});
    std::vector<PendingRead> reads;
    for (int i = 0; i < 20; ++i) {
      gpu->add(x, x, one);
      reads.push_back(gpu->read_later(x));
      if (i % 3 == 2) reads.erase(reads.begin());  // never asked for, its memory serves again
    }
    const double first = 20.0 - static_cast<double>(reads.size()) + 1;
    for (size_t i = reads.size(); i-- > 0;) {
      const auto bytes = reads[i]();
      REQUIRE(static_cast<int64_t>(bytes.size()) == 4 * n);
      const auto* values = reinterpret_cast<const float*>(bytes.data());
      CHECK(std::count(values, values + n, static_cast<float>(first + static_cast<double>(i))) ==
            n);
    }
  }
}
