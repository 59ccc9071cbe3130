// The product's claim, on hundreds of drawn cases and layouts: TP, sequence parallelism, CP, DP,
// DCP, ZeRO-1, micro-batching, packing order and recompute give the numbers of one rank with one
// micro-batch, in fp64. One update each.
//
//   VERLCPP_LAYOUT_DRAW=SEED:INDEX   runs exactly that draw and prints its differences
//   VERLCPP_LAYOUT_DRAW=SEED:A-B     runs draws A to B
//   VERLCPP_LAYOUTS=short            runs a few

#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "cpu/cpu_backend.h"
#include "random_layout.h"
#include "support/catch.h"
#include "train/validate_checks.h"

using namespace verlcpp;
using namespace verlcpp::test;
using namespace verlcpp::train;

namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kDraws = 320, kShortDraws = 16;
constexpr double kTolerance = 1e-9;

struct Range {
  uint64_t seed = kSeed;
  int64_t first = 0, last = kDraws - 1;
  bool asked_for = false;
};

Range range() {
  if (const char* value = std::getenv("VERLCPP_LAYOUT_DRAW")) {
    const DrawRange draws = parse_draws(value);
    return {draws.seed, draws.first, draws.last, true};
  }
  const char* value = std::getenv("VERLCPP_LAYOUTS");
  if (value != nullptr && std::string(value) == "short") return {.last = kShortDraws - 1};
  return {};
}

/// Weights with more to say than those of a fresh model: twice as large. Much larger ones (q and k
/// norms are among them) saturate the attention, whose gradient is then lost in rounding.
void load(Backend& backend, const model::ParameterBuffer& weights, bool reference) {
  initialize(backend, weights, reference ? 2 : 1);
  backend.add(weights.flat(), weights.flat(), weights.flat());
}

/// The case's configuration in a layout, and the parts of validate() that need no files.
TrainConfig checked_config(const RandomCase& of, const std::vector<std::string>& layout) {
  TrainConfig config = make_config(layout, of.overrides);
  const config::Node nothing;
  Findings findings(nothing);
  check_layout(config, findings);
  check_dynamic_cp(config, findings);
  check_batches(config, findings);
  check_algorithm(config, findings);
  findings.finish();
  return config;
}

LayoutResult update(const RandomCase& of, const TrainConfig& config,
                    std::function<Planner(Planner)> change_planner) {
  LayoutRun run{.config = config, .model = of.model, .batch = of.batch};
  run.make_backend = [](int) { return std::make_unique<cpu::CpuBackend>(); };
  run.load_weights = load;
  run.change_planner = std::move(change_planner);
  return run_layout(run);
}

/// The command that repeats a draw.
std::string reproduction(uint64_t seed, int64_t index) {
  return fmt::format("VERLCPP_LAYOUT_DRAW={}:{} build/test/train/test_random_layouts", seed, index);
}

/// What was drawn.
std::string description(const RandomCase& of, const RandomLayout& layout) {
  const model::ModelConfig& m = of.model;
  std::string text = fmt::format(
      "  {}: vocabulary {}, hidden {}, ffn {}, {} layers, {} heads of {}, {} kv heads{}\n"
      "  {} trajectories, the longest of {} tokens{}\n",
      m.architecture, m.vocab, m.hidden, m.ffn, m.layers, m.heads, m.head_dim, m.kv_heads,
      m.tied_embeddings ? ", tied" : "", of.batch.size(), of.longest,
      layout.shuffle_packing ? ", shuffled packing" : "");
  for (const auto* list : {&of.overrides, &layout.overrides}) {
    text += list == &of.overrides ? "  case:  " : "\n  layout:";
    for (const std::string& o : *list) text += " " + o;
  }
  return text;
}

std::string to_text(const LayoutDifference& d) {
  return fmt::format("losses {:.1e}, grad norms {:.1e}, gradients {:.1e}, weights {:.1e}", d.losses,
                     d.grad_norms, d.gradients, d.weights);
}

/// Runs draws of one seed; keeps the one-rank result of the case at hand.
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}

  /// `fault`, if any, comes on top of the drawn planner.
  LayoutDifference run(int64_t index, const std::function<Planner(Planner)>& fault = {}) {
    const RandomLayout layout = at(index);
    const auto plan = [&](Planner inner) {
      if (layout.shuffle_packing) inner = shuffled(std::move(inner));
      return fault ? fault(std::move(inner)) : inner;
    };
    // A draw always has something to compare, so no floor hides a difference.
    return difference(update(case_, checked_config(case_, layout.overrides), plan), *want_, 1e-150);
  }

  double clipped_tokens() const { return clipped_tokens_; }  // of all cases so far
  std::string description(int64_t index) { return ::description(case_, at(index)); }

 private:
  RandomLayout at(int64_t index) {
    if (number_ != index / kLayoutsPerCase) {
      number_ = index / kLayoutsPerCase;
      case_ = draw_case(seed_, number_);
      want_ = update(case_, checked_config(case_, {}), {});
      clipped_tokens_ += want_->clipped_tokens;
    }
    return draw_layout(seed_, index, case_);
  }

  uint64_t seed_;
  int64_t number_ = -1;
  RandomCase case_;
  double clipped_tokens_ = 0;
  std::optional<LayoutResult> want_;
};

}  // namespace

TEST_CASE("drawn layouts give the one-rank numbers") {
  const Range draws = range();
  Draws runner(draws.seed);
  int64_t agreeing = 0;
  for (int64_t index = draws.first; index <= draws.last; ++index) {
    std::string outcome;
    bool good = false;
    try {
      const LayoutDifference d = runner.run(index);
      outcome = to_text(d);
      good = d.largest() < kTolerance;  // false for NaN
    } catch (const std::exception& e) {
      outcome = e.what();
    }
    // Whole lines, which Catch would wrap.
    if (!good || draws.asked_for) {
      std::cout << reproduction(draws.seed, index) << "\n"
                << runner.description(index) << "\n  " << outcome << std::endl;
    }
    agreeing += good;
    if (!good) FAIL_CHECK(outcome << "\n" << reproduction(draws.seed, index));
  }
  CHECK(agreeing == draws.last - draws.first + 1);
  if (!draws.asked_for) CHECK(runner.clipped_tokens() > 0);
}

TEST_CASE("what VERLCPP_LAYOUT_DRAW may be, and the message for anything else") {
  const DrawRange one = parse_draws("7:3"), several = parse_draws("18446744073709551615:0-12");
  CHECK((one.seed == 7 && one.first == 3 && one.last == 3));
  CHECK((several.seed == std::numeric_limits<uint64_t>::max() && several.first == 0 &&
         several.last == 12));
  for (const std::string text :
       {"", "abc", "1", "1:", ":1", "1:x", "1:-5", "1:5-", "1:5-4", "-1:5", "1:+5", "1: 5", "1-2:3",
        "1:2-3-4", "1:2:3", "1:4294967296", "18446744073709551616:1"}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_draws(text),
                      Catch::Matchers::StartsWith("VERLCPP_LAYOUT_DRAW is \"" + text +
                                                  "\"; valid: SEED:INDEX or SEED:FIRST-LAST, "));
  }
}

TEST_CASE("draws repeat, and cover what they are for") {
  std::set<int64_t> tp, dynamic_pools, static_cps, worlds;
  std::map<std::string, int> seen;
  for (int64_t index = 0; index < kDraws; ++index) {
    const RandomCase of = draw_case(kSeed, index / kLayoutsPerCase);
    const RandomLayout l = draw_layout(kSeed, index, of);
    REQUIRE(l.overrides == draw_layout(kSeed, index, of).overrides);
    REQUIRE(l.tp * l.pool <= 16);
    tp.insert(l.tp);
    worlds.insert(l.tp * l.pool);
    (l.dynamic_cp ? dynamic_pools : static_cps).insert(l.dynamic_cp ? l.pool : l.cp);
    seen["sequence parallel"] += l.sequence_parallel;
    seen["ZeRO-1"] += l.zero1;
    seen["all optimizer states everywhere"] += !l.zero1;
    seen["micro-batches by tokens"] += l.dynamic_bsz;
    seen["micro-batches by size"] += !l.dynamic_bsz && !l.dynamic_cp;
    seen["shared kv heads"] += l.tp > of.model.kv_heads;
    seen["DCP with TP"] += l.dynamic_cp && l.tp > 1;
    seen["shuffled packing"] += l.shuffle_packing;
    seen["fused head with TP"] += l.fused_head && l.tp > 1;
    seen["tied with TP"] += l.tp > 1 && of.model.tied_embeddings;
  }
  CHECK(tp == std::set<int64_t>{1, 2, 4});
  CHECK(dynamic_pools == std::set<int64_t>{2, 4, 6, 8, 10, 12, 14, 16});
  CHECK(static_cps == std::set<int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(worlds.size() >= 14);
  for (const auto& [what, count] : seen) {
    INFO(what);
    CHECK(count >= 20);
  }
}

TEST_CASE("a sample that a plan leaves out is found, and the message repeats it") {
  const auto drop = [](Planner inner) -> Planner {
    return [inner = std::move(inner)](std::span<const int64_t> lengths) {
      schedule::Plan plan = inner(lengths);
      for (schedule::PlanGroup& g : plan.micro_batches.front().groups) {
        if (!g.samples.empty()) g.samples.pop_back();
      }
      return plan;
    };
  };
  Draws runner(kSeed);
  CHECK(runner.run(3).largest() < kTolerance);
  CHECK(runner.run(3, drop).largest() > 1e-4);
  CHECK(reproduction(kSeed, 3) == "VERLCPP_LAYOUT_DRAW=1:3 build/test/train/test_random_layouts");
  CHECK_THAT(runner.description(3), Catch::Matchers::ContainsSubstring("  layout: "));
}
