#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "schedule/default_dynamic_cp.h"
#include "schedule/plan_digest.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::schedule;

namespace {

using Lengths = std::vector<int64_t>;
using RankLists = std::vector<std::vector<std::vector<int>>>;  // micro-batch, rank, samples

struct GoldenCase {
  int id = 0;
  Lengths lengths;
  DynamicCpOptions options;
  bool upstream_failed = false;
  std::string precheck;  // verl refuses the batch before it schedules
  RankLists groups;
};

std::vector<GoldenCase> golden_cases() {
  std::ifstream file(VERLCPP_GOLDEN_DIR "/dcp_schedule.jsonl");
  std::vector<GoldenCase> cases;
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    GoldenCase out;
    out.id = row.at("id");
    out.lengths = row.at("seq_lens").get<Lengths>();
    out.options.pool = row.at("dp").get<int64_t>() * row.at("cp").get<int64_t>();
    out.options.max_seqlen_per_rank = row.at("max_seqlen_per_dp_cp_rank");
    out.options.min_cp = row.at("min_cp_size");
    out.upstream_failed = row.contains("error");
    if (!row.at("verl_precheck").is_null()) out.precheck = row.at("verl_precheck");
    if (!out.upstream_failed) out.groups = row.at("groups").get<RankLists>();
    cases.push_back(out);
  }
  return cases;
}

RankLists rank_lists(const Plan& plan) {
  RankLists out;
  for (const MicroBatch& micro_batch : plan.micro_batches) {
    auto& ranks = out.emplace_back();
    for (const PlanGroup& group : micro_batch.groups) {
      ranks.insert(ranks.end(), group.ranks.size(), group.samples);
    }
  }
  return out;
}

bool power_of_two(int64_t value) { return (value & (value - 1)) == 0; }

/// Empty, or the first promise that the plan breaks.
std::string broken_promise(const Plan& plan, const Lengths& lengths,
                           const DynamicCpOptions& options) {
  if (plan.pool != options.pool) return "pool";
  try {
    check_plan(plan, lengths, false);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  const bool aligned = power_of_two(options.pool) && power_of_two(options.min_cp);
  for (const MicroBatch& micro_batch : plan.micro_batches) {
    for (const PlanGroup& group : micro_batch.groups) {
      const auto size = static_cast<int64_t>(group.ranks.size());
      int64_t tokens = 0;
      for (int sample : group.samples) tokens += lengths[static_cast<size_t>(sample)];
      if (tokens > size * options.max_seqlen_per_rank) return "budget of real tokens";
      if (size < options.min_cp) return "smallest group";
      if (aligned && (!power_of_two(size) || group.ranks.front() % size != 0)) return "alignment";
    }
  }
  return "";
}

std::string message_of(const Lengths& lengths, const DynamicCpOptions& options) {
  try {
    schedule_default_dynamic_cp(lengths, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

DynamicCpOptions options_of(int64_t pool, int64_t limit, int64_t min_cp = 1) {
  return {.pool = pool, .max_seqlen_per_rank = limit, .min_cp = min_cp};
}

/// A batch that fits into its pool: mixed shapes, limits that are not round, ties.
Lengths random_lengths(std::mt19937& random, const DynamicCpOptions& options) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const int64_t longest = options.max_seqlen_per_rank * options.pool;
  const int64_t shape = pick(0, 3);
  Lengths lengths(static_cast<size_t>(pick(1, 64)));
  for (int64_t& length : lengths) {
    switch (shape) {
      case 0: {  // a long tail
        const double log_mean = std::log(static_cast<double>(options.max_seqlen_per_rank) / 2);
        const double draw = std::lognormal_distribution<double>(log_mean, 1.2)(random);
        length = std::clamp(static_cast<int64_t>(draw), int64_t{1}, longest);
        break;
      }
      case 1:
        length = pick(1, longest);
        break;
      case 2:
        length = pick(0, 3) == 0 ? longest : pick(1, std::max<int64_t>(1, longest / 8));
        break;
      default:
        length = std::min(longest, pick(1, 3) * options.max_seqlen_per_rank);
    }
  }
  return lengths;
}

}  // namespace

TEST_CASE("Every upstream plan is reproduced, ids and order identical") {
  int plans = 0;
  for (const GoldenCase& golden : golden_cases()) {
    if (golden.upstream_failed || !golden.precheck.empty()) continue;
    INFO("case " << golden.id);
    const Plan plan = schedule_default_dynamic_cp(golden.lengths, golden.options);
    CHECK(rank_lists(plan) == golden.groups);
    CHECK(broken_promise(plan, golden.lengths, golden.options) == "");
    ++plans;
  }
  CHECK(plans == 287);
}

TEST_CASE("What fails upstream is scheduled unless it is a true refusal") {
  int scheduled = 0, refused = 0;
  for (const GoldenCase& golden : golden_cases()) {
    if (!golden.upstream_failed && golden.precheck.empty()) continue;
    INFO("case " << golden.id);
    if (!golden.precheck.empty()) {
      CHECK_THROWS_AS(schedule_default_dynamic_cp(golden.lengths, golden.options), DataError);
      ++refused;
    } else if (golden.options.min_cp > golden.options.pool) {
      CHECK_THROWS_AS(schedule_default_dynamic_cp(golden.lengths, golden.options), ConfigError);
      ++refused;
    } else {
      const Plan plan = schedule_default_dynamic_cp(golden.lengths, golden.options);
      CHECK(broken_promise(plan, golden.lengths, golden.options) == "");
      ++scheduled;
    }
  }
  CHECK(scheduled == 22);
  CHECK(refused == 5);
}

TEST_CASE("10,000 random batches keep the promises on pools of 1 to 64") {
  std::mt19937 random(20240817);
  for (int i = 0; i < 10000; ++i) {
    const int64_t pool = 1 + i % 64;
    const int64_t limit = std::uniform_int_distribution<int64_t>(1, 300)(random);
    const int64_t min_cp =
        i % 5 == 0 ? std::uniform_int_distribution<int64_t>(1, pool)(random) : int64_t{1};
    const DynamicCpOptions options = options_of(pool, limit, min_cp);
    const Lengths lengths = random_lengths(random, options);
    const Plan plan = schedule_default_dynamic_cp(lengths, options);
    const std::string broken = broken_promise(plan, lengths, options);
    const bool same = rank_lists(plan) == rank_lists(schedule_default_dynamic_cp(lengths, options));
    if (!broken.empty() || !same) {
      INFO("batch " << i << ", pool " << pool << ", limit " << limit << ", min_cp " << min_cp);
      CHECK(broken == "");
      CHECK(same);
    }
  }
  SUCCEED("all batches were checked");
}

TEST_CASE("20,000 random batches are cut as when each sample was tried for each micro-batch") {
  std::mt19937 random(5);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  PlanDigest digest;
  for (int i = 0; i < 20000; ++i) {
    const int64_t pool = pick(1, 72), limit = pick(1, 200);
    const int64_t min_cp = i % 3 == 0 ? pick(1, pool) : 1;
    const int64_t longest = std::max<int64_t>(1, limit * pool * pick(1, 100) / 100);
    Lengths lengths(static_cast<size_t>(pick(1, i % 50 == 0 ? 2000 : 100)));
    for (int64_t& length : lengths) {
      const int64_t shrunk = i % 4 == 0 ? pick(1, 50) : 1;  // a few long, many short
      length = std::max<int64_t>(
          1, pick(1, i % 4 == 1 ? std::min<int64_t>(longest, 5) : longest) / shrunk);
    }
    digest.add(schedule_default_dynamic_cp(lengths, options_of(pool, limit, min_cp)));
  }
  CHECK(digest.value() == 0x527d91d47584adbc);
}

TEST_CASE("A plan of 262,144 sequences takes a moment, whatever the pool") {
  for (const int64_t pool : {4, 6, 1024}) {
    INFO("pool " << pool);
    const DynamicCpOptions options = options_of(pool, 1024);
    Lengths lengths;
    for (int64_t i = 0; i < 262144; ++i) lengths.push_back(1 + i * 7919 % 4096);
    const auto start = std::chrono::steady_clock::now();
    const Plan plan = schedule_default_dynamic_cp(lengths, options);
    // A tenth of this with sanitizers; minutes when micro-batches look at every sample that is
    // left.
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
    CHECK(broken_promise(plan, lengths, options) == "");
  }
}

TEST_CASE("The three repairs, by hand") {
  SECTION("a need of 8 in a pool of 6 is 6") {
    const Lengths lengths = {500, 10};
    const Plan plan = schedule_default_dynamic_cp(lengths, options_of(6, 100));
    CHECK(rank_lists(plan) ==
          RankLists{RankLists::value_type(6, {0}), {{1}, {1}, {1}, {1}, {1}, {1}}});
  }
  SECTION("two groups of 4 cannot grow into a pool of 10") {
    const Lengths lengths = {400, 390};
    const Plan plan = schedule_default_dynamic_cp(lengths, options_of(10, 100));
    CHECK(rank_lists(plan) == RankLists{RankLists::value_type(10, {0, 1})});
  }
  SECTION("the fallback holds exactly pool * limit tokens") {
    // Tenths of these, added up in doubles, come out above 100.
    const Lengths lengths = {397, 396, 207};
    const Plan plan = schedule_default_dynamic_cp(lengths, options_of(10, 100));
    CHECK(rank_lists(plan) == RankLists{RankLists::value_type(10, {0, 1, 2})});
  }
}

TEST_CASE("The exact limit fits, one token more is refused with a way out") {
  for (int64_t pool : {1, 2, 3, 6, 8, 13}) {
    INFO("pool " << pool);
    const Plan plan = schedule_default_dynamic_cp(Lengths{pool * 128}, options_of(pool, 128));
    CHECK(rank_lists(plan) == RankLists{RankLists::value_type(static_cast<size_t>(pool), {0})});
    CHECK_THROWS_AS(schedule_default_dynamic_cp(Lengths{pool * 128 + 1}, options_of(pool, 128)),
                    DataError);
  }
  CHECK(message_of({5, 769}, options_of(6, 128)) ==
        "Sample 1: A sequence with 769 tokens needs at least 7 ranks for "
        "max_seqlen_per_dp_cp_rank=128, but the DPxCP group has 6. The longest sequence that fits "
        "has 768 tokens. Increase max_seqlen_per_dp_cp_rank or cap the rollout length.");
}

TEST_CASE("Refusals name what is wrong") {
  CHECK(message_of({}, options_of(2, 8)) == "Dynamic CP cannot schedule an empty batch");
  CHECK(message_of({3, 0}, options_of(2, 8)) ==
        "Dynamic CP requires every sequence to have at least one token, but sample 1 has length 0");
  CHECK(message_of({3}, options_of(4, 8, 8)) ==
        "min_dynamic_context_parallel_size is 8, but must be from 1 to the DPxCP size 4");
  CHECK(message_of({3}, options_of(4, 0)) ==
        "max_seqlen_per_dp_cp_rank must be a positive integer when dynamic_context_parallel is "
        "enabled, got 0");
}

TEST_CASE("A limit beyond every length is harmless") {
  const Lengths lengths = {5, 4, 3};
  const int64_t huge = std::numeric_limits<int64_t>::max();
  CHECK(rank_lists(schedule_default_dynamic_cp(lengths, options_of(64, huge))) ==
        rank_lists(schedule_default_dynamic_cp(lengths, options_of(64, 1000))));
}

TEST_CASE("No rank of a random plan exceeds the bound of padded rows") {
  std::mt19937 random(11);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 3000; ++i) {
    const int64_t pool = pick(1, 16), tp = pick(1, 4);
    const DynamicCpOptions options = options_of(pool, pick(1, 60), pick(1, pool));
    Lengths lengths = random_lengths(random, options);
    if (i % 2 == 0) {  // many documents shorter than their alignment
      for (int64_t& length : lengths) length = std::min(length, pick(1, 3));
    }
    const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
    const Plan plan = schedule_default_dynamic_cp(lengths, options);
    int64_t over = 0;
    for (const MicroBatch& micro_batch : plan.micro_batches) {
      for (const PlanGroup& group : micro_batch.groups) {
        const auto cp = static_cast<int64_t>(group.ranks.size());
        int64_t rows = 0;
        for (int s : group.samples) rows += padded_length(lengths[static_cast<size_t>(s)], tp, cp);
        const int64_t bound =
            padded_rows_bound(options.max_seqlen_per_rank, static_cast<int64_t>(lengths.size()),
                              *shortest, *longest, tp, cp);
        over = std::max(over, rows / cp - bound);
      }
    }
    if (over > 0) {
      INFO("batch " << i << ", pool " << pool << ", tp " << tp);
      CHECK(over == 0);
    }
  }
  SUCCEED("all plans were checked");
}
