// Host code between kernels: it sees what came before, what comes after sees it, nobody waits.

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cuda/runtime.h"
#include "support/catch.h"
#include "tensor/backend.h"

using namespace verlcpp;
using namespace std::chrono_literals;

namespace {

Tensor full(Backend& backend, DType dtype, int64_t n, double value) {
  return upload_as(backend, dtype, std::vector<double>(static_cast<size_t>(n), value), {n},
                   MemoryTag::kWorkspace);
}

}  // namespace

TEST_CASE("host code runs between the ops around it, in order", "[small]") {
  const auto backend = cuda::make_backend(0);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const int64_t n = 1000;  // not aligned
    const Tensor x = full(*backend, DType::kFloat32, n, 1), y = full(*backend, dtype, n, -1);
    const Tensor none = backend->allocate(dtype, {0}, MemoryTag::kWorkspace);
    const auto seen = std::make_shared<std::vector<double>>();
    for (int round = 0; round < 8; ++round) {
      backend->add(x, x, x);
      compute_on_host(*backend, {x, none}, {y, none},
                      [seen](const HostValues& in, HostValues& out) {
                        seen->push_back(in[0].back());
                        for (size_t i = 0; i < out[0].size(); ++i) out[0][i] = in[0][i] + 0.5;
                      });
      if (dtype == DType::kFloat32) backend->add(x, x, y);  // x = 2x + 0.5
    }
    const auto result = download(*backend, y);
    REQUIRE(seen->size() == 8);
    double want = 1;
    for (const double value : *seen) {
      want *= 2;
      CHECK(value == want);
      if (dtype == DType::kFloat32) want = 2 * want + 0.5;
    }
    CHECK(result.front() == seen->back() + 0.5);
    CHECK(result.back() == seen->back() + 0.5);
  }
}

TEST_CASE("the caller goes on while host code has not run, and a wait is for it too") {
  const auto backend = cuda::make_backend(0);
  const auto go = std::make_shared<std::atomic<bool>>(false);
  const auto ran = std::make_shared<std::atomic<int>>(0);
  const Tensor x = full(*backend, DType::kFloat32, 4, 1);
  for (int i = 0; i < 50; ++i) {
    backend->run_on_host({x}, {}, [go, ran](auto, auto) {
      while (!*go) std::this_thread::sleep_for(1ms);
      ++*ran;
    });
    backend->add(x, x, x);
  }
  CHECK(*ran == 0);
  *go = true;
  backend->synchronize();
  CHECK(*ran == 50);
}

TEST_CASE("what host code throws comes out of the next wait, and code after it does not run") {
  const auto backend = cuda::make_backend(0);
  const Tensor x = full(*backend, DType::kFloat32, 4, 1);
  const auto later = std::make_shared<std::atomic<bool>>(false);
  backend->run_on_host({x}, {}, [](auto, auto) { throw DataError("row 7 is bad"); });
  backend->run_on_host({x}, {}, [later](auto, auto) { *later = true; });
  CHECK_THROWS_WITH(download(*backend, x), "row 7 is bad");
  CHECK_THROWS_WITH(backend->synchronize(), "row 7 is bad");
  CHECK(!*later);
}
