#include <cstdint>
#include <memory>
#include <thread>

#include "cpu/cpu_backend.h"
#include "cpu/memory_pool.h"
#include "support/catch.h"

using namespace verlcpp;

namespace {
constexpr MemoryTag kTag = MemoryTag::kWorkspace;
}  // namespace

TEST_CASE("the pool reuses a freed block of the same size class, aligned") {
  auto pool = std::make_shared<cpu::MemoryPool>();
  std::shared_ptr<std::byte> first = pool->allocate(1000, kTag);
  const std::byte* address = first.get();
  CHECK(reinterpret_cast<uintptr_t>(address) % 64 == 0);
  CHECK(pool->allocate(1000, kTag).get() != address);
  first.reset();
  CHECK(pool->allocate(1001, kTag).get() == address);
  CHECK(pool->allocate(100000, kTag).get() != address);
}

TEST_CASE("the pool counts current and peak bytes") {
  auto pool = std::make_shared<cpu::MemoryPool>();
  auto a = pool->allocate(4096, kTag);
  CHECK(pool->held_bytes().total == 4096);
  auto b = pool->allocate(64, kTag);
  a.reset();
  CHECK(pool->held_bytes().total == 64);
  CHECK(pool->peak_bytes().total == 4096 + 64);
  a = pool->allocate(128, kTag);
  CHECK(pool->peak_bytes().total == 4096 + 64);
  CHECK(pool->allocate(0, kTag) != nullptr);
}

TEST_CASE("a peak that was reset begins with what is allocated") {
  auto pool = std::make_shared<cpu::MemoryPool>();
  auto kept = pool->allocate(64, kTag);
  pool->allocate(4096, kTag);
  pool->reset_peak_bytes();
  CHECK(pool->peak_bytes().total == 64);
  pool->allocate(128, kTag);
  CHECK(pool->peak_bytes().total == 64 + 128);
}

TEST_CASE("a tensor outlives its backend and may be freed by another thread") {
  Tensor x;
  {
    cpu::CpuBackend backend;
    x = backend.allocate(DType::kFloat64, {3, 5}, MemoryTag::kWorkspace);
    backend.fill_zero(x);
    CHECK(backend.peak_bytes().total == 120);
  }
  CHECK(x.as<double>()[14] == 0.0);
  std::jthread([moved = std::move(x)]() mutable { moved = Tensor(); });
}

TEST_CASE("threads allocate and free from one pool") {
  auto pool = std::make_shared<cpu::MemoryPool>();
  {
    const auto churn = [&](int64_t bytes) {
      for (int i = 0; i < 2000; ++i) {
        auto block = pool->allocate(bytes + i % 3, kTag);
        block.get()[0] = std::byte{1};
      }
    };
    std::jthread a(churn, 500), b(churn, 501);
  }
  CHECK(pool->held_bytes().total == 0);
}
