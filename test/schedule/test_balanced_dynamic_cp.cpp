#include "base/error.h"
#include "base/rng.h"
#include "schedule/balanced_dynamic_cp.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::schedule;

namespace {

/// Of a 0.5B model on one card, in seconds, about.
const CostModel kCard{.micro_batch = 8e-3,
                      .document = 2e-5,
                      .linear = 6e-6,
                      .quadratic = 4e-10,
                      .exchange = 1e-3,
                      .exchanged = 1e-7};

std::vector<int64_t> drawn(uint32_t seed, size_t count, int64_t longest) {
  std::vector<int64_t> lengths;
  for (uint32_t i = 0; i < count; ++i) {
    const double u = uniform_open(philox4x32({i, seed}, {3, 4})[0]);
    lengths.push_back(1 + static_cast<int64_t>(u * u * u * static_cast<double>(longest - 1)));
  }
  return lengths;
}

}  // namespace

TEST_CASE("a balanced plan keeps every guarantee and never ends after the default") {
  int better = 0, cases = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    for (const int64_t pool : {2, 4, 6, 8, 14}) {
      const DynamicCpOptions options{
          .pool = pool, .max_seqlen_per_rank = 1024, .min_cp = seed % 3 == 0 ? 2 : 1};
      const auto lengths = drawn(seed, 5 + seed * 3, 1024 * pool);
      const int64_t tp = seed % 2 + 1;
      const Plan plan = schedule_balanced_dynamic_cp(lengths, options, kCard, tp);
      check_plan(plan, lengths, false);
      for (const MicroBatch& micro_batch : plan.micro_batches) {
        for (const PlanGroup& group : micro_batch.groups) {
          int64_t tokens = 0;
          for (int sample : group.samples) tokens += lengths[static_cast<size_t>(sample)];
          const auto size = static_cast<int64_t>(group.ranks.size());
          CHECK(tokens <= options.max_seqlen_per_rank * size);
          CHECK(size >= options.min_cp);
        }
      }
      const Plan usual = schedule_default_dynamic_cp(lengths, options);
      const double ours = makespan(kCard, plan, lengths, tp);
      const double theirs = makespan(kCard, usual, lengths, tp);
      CHECK(ours <= theirs);
      better += ours < 0.999 * theirs ? 1 : 0;
      ++cases;
    }
  }
  CHECK(better > cases / 2);
}

TEST_CASE("a balanced plan is a function of its input") {
  const auto lengths = drawn(7, 60, 4096);
  const DynamicCpOptions options{.pool = 4, .max_seqlen_per_rank = 1024};
  const Plan first = schedule_balanced_dynamic_cp(lengths, options, kCard, 1);
  CHECK(to_json(first, lengths, 1) ==
        to_json(schedule_balanced_dynamic_cp(lengths, options, kCard, 1), lengths, 1));
}

TEST_CASE("a sample moves to where it ends sooner") {
  // By default the two long ones are a group each and the rest goes to the first with the least
  // work; where documents cost much and tokens nothing, counts are what is balanced.
  const CostModel by_count{.document = 1, .linear = 0, .quadratic = 0};
  const std::vector<int64_t> lengths = {900, 500, 100, 100, 100, 100};
  const DynamicCpOptions options{.pool = 2, .max_seqlen_per_rank = 1000};
  const Plan plan = schedule_balanced_dynamic_cp(lengths, options, by_count, 1);
  CHECK(makespan(by_count, schedule_default_dynamic_cp(lengths, options), lengths, 1) == 5);
  CHECK(makespan(by_count, plan, lengths, 1) == 4);  // 900 and one of 100 fill a rank
}

TEST_CASE("a balanced schedule has the default's errors") {
  CHECK_THROWS_AS(schedule_balanced_dynamic_cp({}, {.pool = 2, .max_seqlen_per_rank = 8}, kCard, 1),
                  DataError);
  const std::vector<int64_t> long_one = {17};
  CHECK_THROWS_AS(
      schedule_balanced_dynamic_cp(long_one, {.pool = 2, .max_seqlen_per_rank = 8}, kCard, 1),
      DataError);
}
