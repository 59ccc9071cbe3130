#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "base/error.h"
#include "schedule/differencing.h"
#include "schedule/plan_digest.h"
#include "schedule/static_cp.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::schedule;

namespace {

using Lengths = std::vector<int64_t>;
using Sets = std::vector<std::vector<int>>;

StaticCpOptions fixed(int64_t dp, int64_t cp, int64_t size) {
  return {.dp = dp, .cp = cp, .micro_batch_size = size, .token_budget = {}};
}

StaticCpOptions budget(int64_t dp, int64_t cp, int64_t tokens) {
  return {.dp = dp, .cp = cp, .micro_batch_size = 1, .token_budget = tokens};
}

/// Samples of DP replica `replica`, micro-batch by micro-batch.
Sets replica_of(const Plan& plan, size_t replica) {
  Sets out;
  for (const MicroBatch& micro_batch : plan.micro_batches) {
    out.push_back(micro_batch.groups.at(replica).samples);
  }
  return out;
}

size_t count(const Sets& sets) {
  size_t sum = 0;
  for (const auto& set : sets) sum += set.size();
  return sum;
}

int64_t tokens_of(const std::vector<int>& samples, const Lengths& lengths) {
  int64_t sum = 0;
  for (int sample : samples) sum += lengths[static_cast<size_t>(sample)];
  return sum;
}

constexpr int64_t kTp = 2;

int64_t padded_rows(const std::vector<int>& samples, const Lengths& lengths, int64_t cp) {
  int64_t sum = 0;
  for (int sample : samples) sum += padded_length(lengths[static_cast<size_t>(sample)], kTp, cp);
  return sum / cp;
}

/// Empty, or the first promise of a static plan that is broken.
std::string broken_promise(const Plan& plan, const Lengths& lengths,
                           const StaticCpOptions& options) {
  try {
    check_plan(plan, lengths, true);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  const int64_t bound =
      padded_rows_bound(options.token_budget.value_or(0) / options.cp,
                        static_cast<int64_t>(lengths.size()), *shortest, *longest, kTp, options.cp);
  size_t fewest = lengths.size(), most = 0;
  for (size_t replica = 0; replica < static_cast<size_t>(options.dp); ++replica) {
    const Sets parts = replica_of(plan, replica);
    const size_t samples = count(parts);
    fewest = std::min(fewest, samples);
    most = std::max(most, samples);
    for (const auto& part : parts) {
      if (part.empty() && samples >= parts.size()) return "empty though samples are enough";
      if (options.token_budget && tokens_of(part, lengths) > *options.token_budget) return "budget";
      if (options.token_budget && padded_rows(part, lengths, options.cp) > bound) return "rows";
      if (!options.token_budget && static_cast<int64_t>(part.size()) > options.micro_batch_size) {
        return "micro-batch size";
      }
    }
  }
  return most - fewest > 1 ? "replicas differ by more than one sample" : "";
}

/// The fewest packs of at most `budget` that the lengths from `next` on fit in, beside `rooms`.
int64_t packs_needed(const Lengths& lengths, int64_t budget, Lengths rooms = {}, size_t next = 0) {
  if (next == lengths.size()) return static_cast<int64_t>(rooms.size());
  const int64_t length = lengths[next];
  Lengths more = rooms;
  more.push_back(budget - length);
  int64_t fewest = packs_needed(lengths, budget, more, next + 1);
  for (size_t i = 0; i < rooms.size(); ++i) {
    if (rooms[i] < length) continue;
    more = rooms;
    more[i] -= length;
    fewest = std::min(fewest, packs_needed(lengths, budget, more, next + 1));
  }
  return fewest;
}

/// The parts of one replica, found by trying every number from the tokens' share up.
Sets parts_one_by_one(const Lengths& lengths, int64_t tokens) {
  Lengths workloads;
  for (const int64_t length : lengths) workloads.push_back(static_cast<int64_t>(workload(length)));
  const int64_t sum = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  for (int64_t count = (sum + tokens - 1) / tokens;; ++count) {
    Sets parts = karmarkar_karp(workloads, static_cast<int>(count), false);
    const bool fits = std::all_of(parts.begin(), parts.end(), [&](const std::vector<int>& part) {
      return tokens_of(part, lengths) <= tokens;
    });
    if (!fits) continue;
    std::sort(parts.begin(), parts.end());
    return parts;
  }
}

/// Lengths as parts of a budget that make many numbers of micro-batches fail.
int64_t awkward_length(int kind, int64_t tokens, std::mt19937& random) {
  const auto share = [&](double low, double high) {
    const double part = low + (high - low) * static_cast<double>(random() % 1001) / 1000;
    return std::max<int64_t>(1, static_cast<int64_t>(part * static_cast<double>(tokens)));
  };
  switch (kind) {
    case 0:
      return share(0.51, 0.51);
    case 1:
      return share(0.34, 0.35);
    case 2:
      return share(0.25, 0.27);
    case 3:
      return share(0.2, 0.6);
    case 4:
      return random() % 2 == 0 ? tokens / 2 + 1 : share(0, 1);
    default:
      return random() % 8 == 0 ? tokens : share(0, 0.1);
  }
}

}  // namespace

TEST_CASE("Workload is 24576 L + L^2") {
  CHECK(workload(1) == 24577.0);
  CHECK(workload(10000) == 245760000.0 + 100000000.0);
}

TEST_CASE("Karmarkar-Karp against cases worked by hand") {
  SECTION("8|7 and 6|5, then 4 to the smaller side: 7+4|8, then 16|14") {
    CHECK(karmarkar_karp(Lengths{8, 7, 6, 5, 4}, 2, false) == Sets{{1, 3, 4}, {0, 2}});
  }
  SECTION("equal size: 8|7 meets 6|5 as 8+5|7+6, and of equal sums the later items come first") {
    CHECK(karmarkar_karp(Lengths{8, 7, 6, 5}, 2, true) == Sets{{1, 2}, {0, 3}});
  }
  SECTION("equal items: later indices first") {
    CHECK(karmarkar_karp(Lengths{1, 1, 1}, 3, false) == Sets{{2}, {1}, {0}});
  }
  SECTION("one set takes all, and no items leave the sets empty") {
    CHECK(karmarkar_karp(Lengths{3, 1, 2}, 1, true) == Sets{{0, 1, 2}});
    CHECK(karmarkar_karp(Lengths{}, 2, true) == Sets{{}, {}});
  }
  SECTION("equal size needs divisible numbers") {
    CHECK_THROWS_AS(karmarkar_karp(Lengths{1, 2, 3}, 2, true), std::logic_error);
  }
}

TEST_CASE("Fixed size: replicas balanced by workload, then consecutive micro-batches") {
  const Plan plan = schedule_static_cp(Lengths{8, 7, 6, 5}, fixed(2, 2, 1));
  CHECK(plan.pool == 4);
  CHECK(replica_of(plan, 0) == Sets{{0}, {3}});  // 8^2 + 5^2 > 7^2 + 6^2
  CHECK(replica_of(plan, 1) == Sets{{1}, {2}});
  CHECK(plan.micro_batches[0].groups[1].ranks == std::vector<int>{2, 3});

  const Plan one = schedule_static_cp(Lengths{9, 1, 5, 7, 3}, fixed(1, 3, 2));
  CHECK(replica_of(one, 0) == Sets{{0, 1}, {2, 3}, {4}});
}

TEST_CASE("Fixed size: a replica with fewer samples stretches them, then idles") {
  const Lengths five(5, 10);
  const Plan plan = schedule_static_cp(five, fixed(2, 1, 2));  // 3 and 2 samples
  REQUIRE(plan.micro_batches.size() == 2);
  for (size_t replica : {0, 1}) {
    for (const auto& part : replica_of(plan, replica)) CHECK_FALSE(part.empty());
  }
  const Plan lonely = schedule_static_cp(Lengths{10}, fixed(3, 1, 2));
  REQUIRE(lonely.micro_batches.size() == 1);
  CHECK(count(replica_of(lonely, 0)) + count(replica_of(lonely, 1)) +
            count(replica_of(lonely, 2)) ==
        1);
}

TEST_CASE("Token budget: verl's number, parts and order when they fit") {
  // ceil(150 / 50) = 3 parts; by workload 50 > 40+10 > 30+20; the largest goes to the middle.
  const Plan plan = schedule_static_cp(Lengths{10, 20, 30, 40, 50}, budget(1, 2, 50));
  CHECK(replica_of(plan, 0) == Sets{{1, 2}, {4}, {0, 3}});
}

TEST_CASE("Token budget is strict") {
  // ceil(120 / 70) = 2 parts would put 80 tokens into one.
  const Plan plan = schedule_static_cp(Lengths{40, 40, 40}, budget(1, 1, 70));
  CHECK(replica_of(plan, 0) == Sets{{0}, {2}, {1}});
}

TEST_CASE("Token budget: the exact budget fits, one token more is refused") {
  CHECK(schedule_static_cp(Lengths{64, 64}, budget(1, 2, 64)).micro_batches.size() == 2);
  try {
    schedule_static_cp(Lengths{1, 65}, budget(1, 2, 64));
    FAIL("was not refused");
  } catch (const DataError& error) {
    CHECK(std::string(error.what()) ==
          "max_token_len must be greater than the sequence length: sample 1 has 65 tokens, a "
          "micro-batch holds 64 (max_token_len_per_gpu x context_parallel_size 2)");
  }
}

TEST_CASE("Static scheduling refuses empty batches, empty sequences and sizes below one") {
  CHECK_THROWS_AS(schedule_static_cp(Lengths{}, fixed(1, 1, 1)), DataError);
  CHECK_THROWS_AS(schedule_static_cp(Lengths{1, 0}, fixed(1, 1, 1)), DataError);
  CHECK_THROWS_AS(schedule_static_cp(Lengths{1}, fixed(1, 1, 0)), ConfigError);
  CHECK_THROWS_AS(schedule_static_cp(Lengths{1}, budget(1, 1, 0)), ConfigError);
}

TEST_CASE("3,000 random batches keep the promises of a static plan") {
  std::mt19937 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 3000; ++i) {
    const int64_t cp = pick(1, 4);
    Lengths lengths(static_cast<size_t>(pick(1, 60)));
    const int64_t longest = pick(1, 2000);
    for (int64_t& length : lengths) length = pick(1, longest);
    const StaticCpOptions options = i % 2 == 0 ? fixed(pick(1, 7), cp, pick(1, 9))
                                               : budget(pick(1, 7), cp, longest * pick(1, 4) * cp);
    const std::string broken =
        broken_promise(schedule_static_cp(lengths, options), lengths, options);
    INFO("batch " << i);
    if (!broken.empty()) CHECK(broken == "");
  }
  SUCCEED("all batches were checked");
}

TEST_CASE("2,000 random batches are cut as when every set was held, the empty ones too") {
  std::mt19937 random(6);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  PlanDigest digest;
  for (int i = 0; i < 2000; ++i) {
    const int64_t tokens = pick(1, 400), dp = pick(1, 9);
    const int64_t shortest = i % 4 == 2 ? std::max<int64_t>(1, tokens / 3) : 1;
    const int64_t longest = i % 4 == 1 ? std::max<int64_t>(1, tokens / 4) : tokens;
    Lengths lengths(static_cast<size_t>(pick(1, i % 20 == 0 ? 400 : 80)));
    for (int64_t& length : lengths) {
      length = i % 4 == 3 ? pick(0, 1) * (tokens - 1) + 1 : pick(shortest, longest);
    }
    digest.add(schedule_static_cp(lengths, budget(dp, 1, tokens)));
    digest.add(schedule_static_cp(lengths, fixed(dp, 1, pick(1, 6))));
  }
  CHECK(digest.value() == 0x213076497f6846ac);
}

TEST_CASE("The lower bound of packs is one, and exact where a pack holds a fixed number") {
  std::mt19937 random(9);
  for (int i = 0; i < 600; ++i) {
    const auto tokens = static_cast<int64_t>(2 + random() % 30);
    Lengths lengths(1 + random() % 7);
    for (int64_t& length : lengths) {
      length = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(tokens));
    }
    INFO("batch " << i);
    if (fewest_packs(lengths, tokens) > packs_needed(lengths, tokens)) FAIL("too many packs");
  }
  CHECK(fewest_packs(Lengths(100, 51), 100) == 100);
  CHECK(fewest_packs(Lengths(100, 50), 100) == 50);
  CHECK(fewest_packs(Lengths(100, 34), 100) == 50);
  CHECK(fewest_packs(Lengths(100, 26), 100) == 34);
  CHECK(fewest_packs(Lengths(10, int64_t{1} << 55), int64_t{1} << 56) == 5);
}

TEST_CASE("Token budget: the number of micro-batches is the first that fits, whatever is skipped") {
  std::mt19937 random(10);
  for (int i = 0; i < 600; ++i) {
    const int64_t tokens = i % 3 == 0 ? 16384 : static_cast<int64_t>(4 + random() % 60);
    Lengths lengths(1 + random() % 60);
    for (int64_t& length : lengths) length = awkward_length(i % 6, tokens, random);
    Sets parts = replica_of(schedule_static_cp(lengths, budget(1, 1, tokens)), 0);
    std::sort(parts.begin(), parts.end());
    INFO("batch " << i);
    if (parts != parts_one_by_one(lengths, tokens)) FAIL("other parts");
  }
}

TEST_CASE("A static plan takes a moment where few sequences fit in a micro-batch") {
  for (const int64_t length : {5223, 3482, 2663}) {  // 0.51, 0.34 and 0.26 of the budget
    const Lengths lengths(32768, length);
    const auto start = std::chrono::steady_clock::now();
    const Plan plan = schedule_static_cp(lengths, budget(1, 8, 10240));
    // A hundredth of this without sanitizers; minutes when every number is tried.
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
    const int64_t fit = 10240 / length;
    CHECK(static_cast<int64_t>(plan.micro_batches.size()) == (32768 + fit - 1) / fit);
  }
}

TEST_CASE("A static plan of 65,536 sequences takes a moment") {
  Lengths lengths;
  for (int64_t i = 0; i < 65536; ++i) lengths.push_back(1 + i * 7919 % 4096);
  for (const StaticCpOptions& options :
       {budget(16, 1, 8192), budget(64, 2, 4096), fixed(8, 1, 4)}) {
    const auto start = std::chrono::steady_clock::now();
    const Plan plan = schedule_static_cp(lengths, options);
    // A tenth of this with sanitizers; minutes when empty sets take time.
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
    CHECK(broken_promise(plan, lengths, options) == "");
  }
}

TEST_CASE("packing in order fills the budget sample by sample, replicas in turn") {
  const Lengths lengths = {6, 4, 1, 9, 2, 10, 3};
  StaticCpOptions options = budget(2, 2, 10);
  options.packing = Packing::kInOrder;
  const Plan plan = schedule_static_cp(lengths, options);
  // Packs: {6, 4}, {1, 9}, {2}, {10}, {3}; the sixth is empty.
  CHECK(replica_of(plan, 0) == Sets{{0, 1}, {4}, {6}});
  CHECK(replica_of(plan, 1) == Sets{{2, 3}, {5}, {}});
  CHECK_NOTHROW(check_plan(plan, lengths, true));
}

TEST_CASE("packing in order refuses what balanced packing refuses") {
  StaticCpOptions options = budget(1, 2, 10);
  options.packing = Packing::kInOrder;
  CHECK_THROWS_AS(schedule_static_cp(Lengths{4, 11}, options), DataError);
  options.token_budget.reset();
  CHECK_THROWS_AS(schedule_static_cp(Lengths{4}, options), std::logic_error);
}

TEST_CASE("packing in order keeps the budget and the order, and opens no pack too early") {
  std::mt19937 random(3);
  std::uniform_int_distribution<int64_t> length(1, 40);
  for (int round = 0; round < 50; ++round) {
    Lengths lengths(static_cast<size_t>(1 + round));
    for (int64_t& l : lengths) l = length(random);
    StaticCpOptions options = budget(1 + round % 4, 1, 40);
    options.packing = Packing::kInOrder;
    const Plan plan = schedule_static_cp(lengths, options);
    CHECK_NOTHROW(check_plan(plan, lengths, true));
    std::vector<int> flat;
    int64_t before = 40;
    for (const MicroBatch& micro_batch : plan.micro_batches) {
      for (const PlanGroup& group : micro_batch.groups) {
        if (group.samples.empty()) continue;
        CHECK(tokens_of(group.samples, lengths) <= 40);
        CHECK(before + lengths[static_cast<size_t>(group.samples.front())] > 40);
        before = tokens_of(group.samples, lengths);
        flat.insert(flat.end(), group.samples.begin(), group.samples.end());
      }
    }
    CHECK(std::is_sorted(flat.begin(), flat.end()));
  }
}
