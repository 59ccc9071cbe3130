#include <stdexcept>

#include "schedule/plan.h"
#include "support/catch.h"

using namespace verlcpp::schedule;

namespace {

/// Lengths 5, 9, 2: micro-batch 0 has samples 1 and 2 on ranks 0-1 and nothing on rank 2,
/// micro-batch 1 has sample 0 on all three.
Plan small_plan() {
  return {.pool = 3,
          .micro_batches = {
              {.groups = {{.ranks = {0, 1}, .samples = {1, 2}}, {.ranks = {2}, .samples = {}}}},
              {.groups = {{.ranks = {0, 1, 2}, .samples = {0}}}}}};
}

const std::vector<int64_t> kLengths = {5, 9, 2};

}  // namespace

TEST_CASE("Alignment is verl's") {
  CHECK(alignment(1, 1) == 1);
  CHECK(alignment(4, 1) == 4);
  CHECK(alignment(1, 3) == 6);
  CHECK(alignment(2, 4) == 16);
  CHECK(padded_length(1, 2, 4) == 16);
  CHECK(padded_length(16, 2, 4) == 16);
  CHECK(padded_length(17, 2, 4) == 32);
  CHECK(padded_length(7, 1, 1) == 7);
}

TEST_CASE("Zigzag shards hold every real token once") {
  // 9 tokens on 2 ranks: padded to 12, chunks of 3: [0,3) [3,6) [6,9) pad.
  CHECK(shard_tokens(9, 1, 2, 0) == 3);
  CHECK(shard_tokens(9, 1, 2, 1) == 6);
  for (int64_t tp : {1, 2}) {
    for (int64_t cp = 1; cp <= 8; ++cp) {
      for (int64_t length = 1; length <= 70; ++length) {
        int64_t sum = 0;
        for (int64_t i = 0; i < cp; ++i) sum += shard_tokens(length, tp, cp, i);
        REQUIRE(sum == length);
      }
    }
  }
}

TEST_CASE("Totals count each group once") {
  const PlanTotals sums = totals(small_plan(), kLengths, 1);
  CHECK(sums.tokens == 16);
  CHECK(sums.padded_tokens == 12 + 4 + 6);
}

TEST_CASE("Text: a line a micro-batch") {
  CHECK(to_text(small_plan(), kLengths, 1) ==
        "pool of 3: 3 samples in 2 micro-batches, 16 tokens (22 padded)\n"
        "micro-batch 0: ranks 0-1 cp2: samples 1,2 (11 tokens); rank 2 cp1: samples none (0 "
        "tokens)\n"
        "micro-batch 1: ranks 0-2 cp3: sample 0 (5 tokens)\n");
}

TEST_CASE("JSON has the documented form") {
  CHECK(to_json(small_plan(), kLengths, 1) ==
        R"({"pool":3,"micro_batches":[)"
        R"({"ranks":[[1,2],[1,2],[]],)"
        R"("groups":[{"ranks":[0,1],"samples":[1,2]},{"ranks":[2],"samples":[]}],)"
        R"("tokens":[4,7,0],"padded_tokens":[8,8,0]},)"
        R"({"ranks":[[0],[0],[0]],"groups":[{"ranks":[0,1,2],"samples":[0]}],)"
        R"("tokens":[1,2,2],"padded_tokens":[2,2,2]}],)"
        R"("total_tokens":16,"total_padded_tokens":22})");
}

TEST_CASE("check_plan finds what is broken") {
  Plan plan = small_plan();
  CHECK_NOTHROW(check_plan(plan, kLengths, true));
  CHECK_THROWS_AS(check_plan(plan, kLengths, false), std::logic_error);  // rank 2 is idle
  SECTION("a sample twice") { plan.micro_batches[0].groups[1].samples = {0}; }
  SECTION("a sample missing") { plan.micro_batches[0].groups[0].samples = {1}; }
  SECTION("a sample that does not exist") { plan.micro_batches[0].groups[0].samples = {1, 3}; }
  SECTION("a negative sample") { plan.micro_batches[0].groups[0].samples = {1, -1}; }
  SECTION("a rank twice") { plan.micro_batches[0].groups[1].ranks = {1}; }
  SECTION("a rank missing") { plan.micro_batches[1].groups[0].ranks = {0, 1}; }
  SECTION("a rank too many") { plan.micro_batches[1].groups[0].ranks = {0, 1, 2, 3}; }
  SECTION("ranks out of order") { plan.micro_batches[1].groups[0].ranks = {0, 2, 1}; }
  SECTION("a group without ranks") { plan.micro_batches[0].groups.push_back({}); }
  CHECK_THROWS_AS(check_plan(plan, kLengths, true), std::logic_error);
}
