// The memory plan against what a GPU's pool counts, and the pool against the plan.

#include <cstdio>

#include "cuda/runtime.h"
#include "memory_case.h"
#include "support/catch.h"

using namespace verlcpp;
using Catch::Matchers::ContainsSubstring;

namespace {

void check_plan(const test::MemoryCase& c, DType dtype) {
  const train::TrainConfig config = test::memory_config(c, "cuda", dtype);
  const cuda::Reservation reservation{.planned = train::memory_plan(c.model, config).peak(),
                                      .ranks_per_gpu = config.trainer.ranks_per_gpu};
  const test::MeasuredStep step =
      test::measured_step(c, config, [&](const auto& me, const auto& host) {
        return cuda::make_device(me, host, me.sizes().world, {.reservation = reservation});
      });
  const std::string differs = test::beyond_a_tenth(reservation.planned, step.peak);
  INFO(name_of(dtype) << " " << c.name << ": " << differs);
  CHECK(differs.empty());
  CHECK(step.grown == 0);
  if (reservation.planned.total < int64_t{1} << 30) return;
  // What the plan leaves out makes itself felt one-sidedly.
  for (const MemoryTag tag : kMemoryTags) {
    INFO(name_of(tag));
    CHECK(step.peak[tag] <= reservation.planned[tag] + reservation.planned[tag] / 100);
  }
  std::printf("%s, planned and measured: total %s %s", c.name.c_str(),
              human_bytes(reservation.planned.total).c_str(), human_bytes(step.peak.total).c_str());
  for (const MemoryTag tag : kMemoryTags) {
    std::printf(", %s %s %s", std::string(name_of(tag)).c_str(),
                human_bytes(reservation.planned[tag]).c_str(), human_bytes(step.peak[tag]).c_str());
  }
  std::printf("\n");
}

}  // namespace

TEST_CASE("a step on a GPU asks for what its plan says, and its pool does not grow") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const test::MemoryCase& c : test::memory_cases()) check_plan(c, dtype);
  }
}

TEST_CASE("a step of a whole model on a GPU asks for what its plan says") {
  for (const test::MemoryCase& c : test::full_size_memory_cases()) {
    check_plan(c, DType::kBFloat16);
  }
}

TEST_CASE("a write larger than the staging ring arrives whole, between small ones") {
  const auto gpu = cuda::make_backend(0);
  constexpr int64_t kMany = (int64_t{20} << 20) / 4 + 3;
  std::vector<int32_t> many(kMany);
  for (int64_t i = 0; i < kMany; ++i) many[static_cast<size_t>(i)] = static_cast<int32_t>(i * 7);
  std::vector<Tensor> small;
  const auto write_small = [&](int32_t value) {
    const std::vector<int32_t> one{value};
    small.push_back(upload<int32_t>(*gpu, one, {1}, MemoryTag::kWorkspace));
  };
  for (int32_t i = 0; i < 1000; ++i) write_small(i);
  const Tensor large = upload<int32_t>(*gpu, many, {kMany}, MemoryTag::kWorkspace);
  for (int32_t i = 1000; i < 2000; ++i) write_small(i);

  std::vector<int32_t> back(many.size());
  gpu->read(std::as_writable_bytes(std::span(back)), large);
  CHECK(back == many);
  int64_t wrong = 0;
  for (size_t i = 0; i < small.size(); ++i) {
    int32_t value = -1;
    gpu->read(std::as_writable_bytes(std::span(&value, 1)), small[i]);
    if (value != static_cast<int32_t>(i)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a plan larger than the card is refused with the bytes it needs") {
  cuda::Reservation reservation;
  reservation.planned.add(MemoryTag::kSaved, int64_t{1} << 50);
  CHECK_THROWS_WITH(cuda::expect_room(1, reservation), ContainsSubstring("1024.00 TiB are needed"));
  CHECK_THROWS_WITH(cuda::make_backend(0, {.reservation = reservation}),
                    ContainsSubstring("1024.00 TiB are needed"));
}

TEST_CASE("what does not fit is refused by name, and the pool goes on") {
  const auto gpu = cuda::make_backend(0);
  CHECK_THROWS_WITH(gpu->allocate(DType::kFloat32, {int64_t{1} << 48}, MemoryTag::kKv),
                    ContainsSubstring("out of memory on GPU 0: kv asked for 1024.00 TiB more"));
  const Tensor x = gpu->allocate(DType::kFloat32, {1024}, MemoryTag::kKv);
  gpu->fill_zero(x);
  CHECK(download(*gpu, x) == std::vector<double>(1024, 0.0));
}
