// The controlled comparison on CPU ranks: arms that differ in scheduling alone process the same
// tokens and agree in loss and gradient.

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "compare_case.h"
#include "cpu/cpu_backend.h"
#include "parallel/thread_ranks.h"
#include "setup.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/compare_report.h"

using namespace verlcpp;
using namespace verlcpp::train;
using Catch::Matchers::ContainsSubstring;
using test::compare_overrides;
using test::compare_result;
using test::even_model;
using test::run_compare;
using test::TemporaryFolder;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";

std::string origin(const CompareArm& arm, const std::string& key) {
  const config::Node* node = arm.tree.find(key);
  REQUIRE(node != nullptr);
  return node->origin().text;
}

}  // namespace

TEST_CASE("the arms differ in scheduling alone, and say so in their origins") {
  const TemporaryFolder folder;
  const auto base =
      test::configured(compare_overrides(folder), {"data.max_token_len_per_gpu=4096"});
  const std::vector<CompareArm> arms = compare_arms(base.tree);
  REQUIRE(arms.size() == 3);
  CHECK(arms[0].name == "static-balanced");
  CHECK(arms[1].name == "static-in-order");
  CHECK(arms[2].name == "dcp");
  for (const CompareArm& arm : arms) {
    INFO(arm.name);
    CHECK(differing_settings(arms[0], arm).empty());
    CHECK(compare_limit(arm) == 40);
    for (Pass pass : {Pass::kActorUpdate, Pass::kOldLogProb, Pass::kRefLogProb}) {
      const BatchingRule rule = batching_rule(arm.config, pass);
      CHECK(rule.dcp.has_value() == (arm.name == "dcp"));
      CHECK(rule.use_dynamic_bsz);
      CHECK(rule.max_token_len_per_gpu == 40);
      if (rule.dcp) CHECK(rule.dcp->max_seqlen_per_rank == 40);
    }
    const std::string by = "--compare-dcp, " + arm.name;
    CHECK(origin(arm, kMegatron + "dynamic_context_parallel") == by);
    CHECK_THAT(origin(arm, kA + "rollout.log_prob_max_token_len_per_gpu"),
               ContainsSubstring(by + ": " + kMegatron + "max_seqlen_per_dp_cp_rank of override "));
    CHECK_THAT(origin(arm, kA + "actor.optim.lr"), ContainsSubstring("override "));
  }
}

TEST_CASE("without a limit the per-GPU budget is it, from either kind of configuration") {
  const TemporaryFolder folder;
  for (const char* dynamic : {"False", "True"}) {
    const auto base = test::configured(
        compare_overrides(folder),
        {kMegatron + "dynamic_context_parallel=" + dynamic,
         kMegatron + "max_seqlen_per_dp_cp_rank=null", "data.max_token_len_per_gpu=48"});
    const std::vector<CompareArm> arms = compare_arms(base.tree);
    CHECK(compare_limit(arms[0]) == 48);
    CHECK(batching_rule(arms[2].config, Pass::kActorUpdate).dcp->max_seqlen_per_rank == 48);
    CHECK_FALSE(arms[1].dynamic());
  }
}

TEST_CASE("a comparison refuses a limit that is none, and what DCP refuses") {
  const TemporaryFolder folder;
  const auto limit =
      test::configured(compare_overrides(folder), {kMegatron + "max_seqlen_per_dp_cp_rank=40.5"});
  CHECK_THROWS_WITH(compare_arms(limit.tree),
                    ContainsSubstring(kMegatron + "max_seqlen_per_dp_cp_rank = 40.5") &&
                        ContainsSubstring("must be a positive integer"));
  const auto odd =
      test::configured(compare_overrides(folder),
                       {"trainer.n_gpus_per_node=3", kMegatron + "context_parallel_size=1"});
  CHECK_THROWS_WITH(compare_arms(odd.tree),
                    ContainsSubstring("--compare-dcp, arm dcp: ") && ContainsSubstring("DPxCP=3"));
}

TEST_CASE("in order means in order") {
  const TemporaryFolder folder;
  const auto arms = compare_arms(test::configured(compare_overrides(folder)).tree);
  const std::vector<int64_t> lengths = {30, 60, 10, 50};
  const schedule::Plan plan = arm_planner(arms[1], Pass::kActorUpdate)(lengths);
  REQUIRE(plan.micro_batches.size() == 2);
  CHECK(plan.micro_batches[0].groups[0].samples == std::vector<int>{0});
  CHECK(plan.micro_batches[0].groups[1].samples == std::vector<int>{1, 2});
  CHECK(plan.micro_batches[1].groups[0].samples == std::vector<int>{3});
  CHECK(plan.micro_batches[1].groups[1].samples.empty());
}

TEST_CASE("equal tokens, and equal losses in float64") {
  const TemporaryFolder folder;
  const bool tp = GENERATE(false, true);  // DP 2 x CP 2, or TP 2 x CP 2
  INFO("TP " << tp);
  std::vector<std::string> more{"data.max_response_length=52"};
  if (tp) {
    more.push_back(kMegatron + "tensor_model_parallel_size=2");
    more.push_back(kA + "model.path='" + even_model(folder) + "'");
    more.push_back(kA + "model.random_init=True");
  }
  const auto arms = compare_arms(test::configured(compare_overrides(folder), more).tree);
  const CompareOptions options{.steps = 2, .warmup = 1};
  const Comparison comparison = run_compare(arms, options);
  REQUIRE(comparison.arms.size() == 3);
  const ArmResult& reference = comparison.arms.front();
  const int64_t tokens =
      std::accumulate(comparison.lengths.begin(), comparison.lengths.end(), int64_t{0});
  for (const ArmResult& arm : comparison.arms) {
    INFO(arm.name);
    CHECK(arm.step_seconds.size() == 2);
    CHECK(arm.passes.at("old_log_prob").tokens == tokens);
    CHECK(arm.passes.at("ref").tokens == tokens);
    CHECK(arm.passes.at("update_actor").tokens == 2 * tokens);
    REQUIRE(arm.losses.size() == 6);
    // The updates move the weights, and the next round begins where the first did.
    CHECK(std::abs(arm.losses[0] - reference.losses[3]) > 1e-6);
    CHECK(arm.loss_drift == 0);
    CHECK(arm.grad_norms[0] > 1e-3);
    CHECK(difference(arm, reference).loss_abs < 1e-9);
    CHECK(difference(arm, reference).grad_norm_rel < 1e-9);
    CHECK(arm.predicted_balance >= 1);
    CHECK(arm.measured_balance >= 1);
    CHECK(arm.measured_balance < 4);
    CHECK(arm.peak_bytes > 0);
  }
  // They are not one schedule under three names.
  CHECK(reference.total().groups_by_cp[1] == 0);
  CHECK(comparison.arms[2].total().groups_by_cp[1] > 0);
  CHECK(comparison.arms[2].total().groups_by_cp[2] > 0);
  CHECK(comparison.arms[2].total().padded_tokens < reference.total().padded_tokens);
  CHECK((comparison.arms[1].predicted_balance != reference.predicted_balance) == !tp);

  const auto json = nlohmann::json::parse(to_json(comparison, arms, options));
  CHECK(json["verdict"]["equal_tokens"] == true);
  CHECK(json["verdict"]["loss_tolerance"] == 1e-9);
  CHECK(json["verdict"]["loss_within_tolerance"] == true);
  CHECK(json["verdict"]["grad_norm_tolerance"] == 1e-9);
  CHECK(json["verdict"]["grad_norm_within_tolerance"] == true);
  CHECK(json["verdict"]["all_gradients_zero"] == false);
}

TEST_CASE("arms that differ in more than scheduling are a bug of ours, and the setting is named") {
  const TemporaryFolder folder;
  auto arms = compare_arms(test::configured(compare_overrides(folder)).tree);
  auto more =
      compare_arms(test::configured(compare_overrides(folder), {kA + "actor.ppo_epochs=3"}).tree);
  arms[2] = std::move(more[2]);
  CHECK_THROWS_WITH(run_compare(arms, {.steps = 1, .warmup = 0}),
                    ContainsSubstring("the arms of a comparison differ in more than scheduling: "
                                      "actor_rollout_ref.actor.ppo_epochs = 3 (override ") &&
                        ContainsSubstring(") in dcp, 2 (override ") &&
                        ContainsSubstring(") in static-balanced"));
}

TEST_CASE("arms that processed other tokens are a bug of ours, and the passes are named") {
  std::vector<ArmResult> results{compare_result("a", {1}, 0), compare_result("b", {1}, 0),
                                 compare_result("c", {1}, 0)};
  check_same_tokens(results);
  results[1].passes["update_actor"].tokens = 99;
  results[2].passes["ref"].tokens = 7;
  CHECK_THROWS_WITH(check_same_tokens(results),
                    ContainsSubstring("processed other tokens: update_actor 99 in b and 100 in a, "
                                      "ref 7 in c and 0 in a"));
}

TEST_CASE("a sample that only DCP can take ends the comparison with the limits") {
  const TemporaryFolder folder;
  const auto all = compare_overrides(folder, 90);
  const auto arms = compare_arms(test::configured(all).tree);
  std::string message;
  try {
    run_compare(arms, {.steps = 1, .warmup = 0});
  } catch (const ConfigError& e) {
    message = e.what();
  }
  CHECK(message ==
        "--compare-dcp: the arms would not process the same tokens: sample 0 (uid group0) has 90. "
        "What differs is the longest sequence: static-balanced and static-in-order up to 80 tokens "
        "(40 per rank x context_parallel_size 2); dcp up to 160 tokens (40 per rank x DPxCP 4); " +
            arms.front().limit +
            ". Raise it to at least 45, raise context_parallel_size, or cap the response length");
  CHECK_THAT(arms.front().limit, ContainsSubstring("max_seqlen_per_dp_cp_rank = 40 (override "));
}

TEST_CASE("the report: sums of passes, medians, differences") {
  const TemporaryFolder folder;
  const auto arms = compare_arms(test::configured(compare_overrides(folder)).tree);
  Comparison comparison;
  comparison.lengths = {60, 40};
  comparison.arms = {compare_result("static-balanced", {4, 1, 3, 2}, 0.5),
                     compare_result("static-in-order", {5, 4, 6}, 0.5),
                     compare_result("dcp", {1, 2, 1}, 0.5 + 1e-8)};
  const auto json = nlohmann::ordered_json::parse(to_json(comparison, arms, {.steps = 4}));
  CHECK(json["version"] == 1);
  CHECK(json["settings"]["limit_tokens_per_rank"] == 40);
  CHECK(json["settings"]["static_pack_tokens"] == 80);
  CHECK(json["settings"]["dpxcp_pool"] == 4);
  CHECK(json["settings"]["batch_tokens"] == 100);
  CHECK(json["arms"][0]["median_seconds"] == 2.5);
  CHECK(json["arms"][0]["min_seconds"] == 1);
  CHECK(json["arms"][0]["max_seconds"] == 4);
  CHECK(json["arms"][0]["real_tokens"] == 200);
  CHECK(json["arms"][0]["padded_tokens"] == 240);
  CHECK(json["arms"][0]["tokens_per_second"] == 80);
  CHECK(json["arms"][0]["groups_by_cp"] ==
        nlohmann::ordered_json::parse(R"({"1": 4, "2": 2, "3": 4})"));
  CHECK(json["differences"][2]["speedup"] == 2.5);
  CHECK(json["differences"][2]["loss_abs"].get<double>() == Approx(1e-8));
  CHECK(json["verdict"]["loss_within_tolerance"] == false);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json["arms"][1].items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"name",
                                         "step_seconds",
                                         "median_seconds",
                                         "min_seconds",
                                         "max_seconds",
                                         "real_tokens",
                                         "padded_tokens",
                                         "micro_batches",
                                         "groups_by_cp",
                                         "tokens_per_second",
                                         "passes",
                                         "loss",
                                         "grad_norm",
                                         "mini_batch_losses",
                                         "mini_batch_grad_norms",
                                         "loss_drift",
                                         "predicted_seconds",
                                         "predicted_balance",
                                         "measured_balance",
                                         "peak_bytes"});

  const std::string text = to_text(comparison, arms, {.steps = 4});
  CHECK_THAT(text, ContainsSubstring("static pack holds 40 x CP 2 = 80") &&
                       ContainsSubstring("4x cp1, 2x cp2, 4x cp3") &&
                       ContainsSubstring("equal tokens; losses of dcp DIFFER BY MORE THAN 1e-09, "
                                         "gradient norms agree within 1e-09 (float64)"));
}

TEST_CASE("a loss that is no number is not within any tolerance, and no gradient says little") {
  const TemporaryFolder folder;
  const auto arms = compare_arms(test::configured(compare_overrides(folder)).tree);
  Comparison comparison;
  comparison.lengths = {1};
  comparison.arms = {compare_result("a", {1}, 0.5), compare_result("b", {1}, std::nan(""))};
  using Names = std::vector<std::string>;
  CHECK(disagreement(comparison, DType::kFloat64).losses == Names{"b"});
  CHECK(disagreement({.lengths = {1}, .arms = {comparison.arms[1]}}, DType::kFloat64).losses ==
        Names{"b"});
  CHECK_FALSE(disagreement({.lengths = {1}, .arms = {comparison.arms[0]}}, DType::kFloat64).any());
  for (ArmResult& arm : comparison.arms) arm.grad_norms = {0.0};
  const auto json = nlohmann::json::parse(to_json(comparison, arms, {}));
  CHECK(json["verdict"]["loss_within_tolerance"] == false);
  CHECK(json["verdict"]["all_gradients_zero"] == true);
  CHECK_THAT(to_text(comparison, arms, {}), ContainsSubstring("every gradient is zero"));
}

TEST_CASE("gradient norms are judged relative to the first arm's, by dtype") {
  const TemporaryFolder folder;
  const auto arms = compare_arms(test::configured(compare_overrides(folder)).tree);
  Comparison comparison;
  comparison.lengths = {1};
  comparison.arms = {compare_result("a", {1}, 0.5), compare_result("b", {1}, 0.5),
                     compare_result("c", {1}, 0.5)};
  CHECK(what_differs(disagreement(comparison, DType::kFloat64)).empty());
  CHECK_THAT(
      to_text(comparison, arms, {}),
      ContainsSubstring("equal tokens; losses and gradient norms agree within 1e-09 (float64)"));

  comparison.arms[2].grad_norms = {2.0 * (1 + 1e-7)};
  CHECK(what_differs(disagreement(comparison, DType::kFloat64)) == "gradient norms");
  CHECK(disagreement(comparison, DType::kFloat64).grad_norms == std::vector<std::string>{"c"});
  CHECK_THAT(to_text(comparison, arms, {}),
             ContainsSubstring("losses agree within 1e-09, gradient norms of c DIFFER BY MORE THAN "
                               "1e-09 (float64)"));
  const auto json = nlohmann::json::parse(to_json(comparison, arms, {}));
  CHECK(json["verdict"]["loss_within_tolerance"] == true);
  CHECK(json["verdict"]["grad_norm_within_tolerance"] == false);

  CHECK_FALSE(disagreement(comparison, DType::kFloat32).any());
  comparison.arms[2].grad_norms = {2.0 * (1 + 1e-4)};
  CHECK(disagreement(comparison, DType::kFloat32).any());
  CHECK_FALSE(disagreement(comparison, DType::kBFloat16).any());
  comparison.arms[2].grad_norms = {std::nan("")};
  comparison.arms[2].losses = {0.7};
  CHECK(what_differs(disagreement(comparison, DType::kBFloat16)) == "losses and gradient norms");
}

TEST_CASE("every mini-batch is judged, in 16-bit dtypes the first alone; both are shown") {
  const TemporaryFolder folder;
  auto arms = compare_arms(test::configured(compare_overrides(folder)).tree);
  Comparison comparison;
  comparison.lengths = {1};
  comparison.arms = {compare_result("a", {1}, 0.5), compare_result("b", {1}, 0.5)};
  for (ArmResult& arm : comparison.arms) {
    arm.losses = {0.5, 0.25};
    arm.grad_norms = {2, 3};
  }
  comparison.arms[1].losses = {0.5, 0.26};
  comparison.arms[1].grad_norms = {2.001, 3.3};
  const std::vector<std::string> b{"b"};
  CHECK(disagreement(comparison, DType::kFloat64).losses == b);
  CHECK(disagreement(comparison, DType::kFloat32).grad_norms == b);
  CHECK_FALSE(disagreement(comparison, DType::kBFloat16).any());
  CHECK_FALSE(disagreement(comparison, DType::kFloat16).any());
  const auto shown = nlohmann::json::parse(to_json(comparison, arms, {}));
  CHECK(shown["verdict"]["judged_mini_batches"] == "all");
  CHECK(shown["differences"][1]["grad_norm_rel"].get<double>() == Approx(0.1));
  CHECK(shown["differences"][1]["first_mini_batch"]["grad_norm_rel"].get<double>() == Approx(5e-4));
  CHECK_THAT(to_text(comparison, arms, {}), ContainsSubstring("  in the first mini-batch") &&
                                                !ContainsSubstring("reported, not judged"));

  arms.front().config.actor_rollout_ref.actor.megatron.dtype = "bfloat16";
  CHECK_THAT(to_text(comparison, arms, {}),
             ContainsSubstring("equal tokens; losses of the first mini-batch agree within 5e-04, "
                               "gradient norms of the first mini-batch agree within 5e-03 "
                               "(bfloat16)\nlater mini-batches follow an optimizer step, which "
                               "makes a sign of every rounding: their\ndifferences are reported, "
                               "not judged, as long as they are finite\n"));
  const auto half = nlohmann::json::parse(to_json(comparison, arms, {}));
  CHECK(half["verdict"]["judged_mini_batches"] == "first");
  CHECK(half["verdict"]["loss_within_tolerance"] == true);

  comparison.arms[1].grad_norms = {2.02, 3};
  CHECK(what_differs(disagreement(comparison, DType::kBFloat16)) == "gradient norms");
  CHECK_THAT(to_text(comparison, arms, {}),
             ContainsSubstring("losses of the first mini-batch agree within 5e-04, gradient norms "
                               "of b DIFFER BY MORE THAN 5e-03 (bfloat16)"));
  comparison.arms[1].grad_norms = {2, HUGE_VAL};
  comparison.arms[1].losses[1] = std::nan("");
  CHECK(what_differs(disagreement(comparison, DType::kBFloat16)) == "losses and gradient norms");
}

TEST_CASE("the meter counts computing, not waiting") {
  std::vector<double> busy(2), sums(2);
  parallel::run_thread_ranks(
      {.world = 2}, [&](const parallel::Topology& me, parallel::RankCommunicators comm) {
        cpu::CpuBackend backend;
        BusyMeter meter(backend, comm, wall_seconds);
        const parallel::RankCommunicators metered = meter.communicators();
        metered.world.barrier();  // not running: goes through
        meter.start();
        if (me.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(400));
        const Tensor x = upload<double>(backend, std::vector<double>{1.0}, {1}, MemoryTag::kComm);
        metered.grad.all_reduce(x, parallel::ReduceOp::kSum).wait();
        sums[static_cast<size_t>(me.rank())] = x.as<double>()[0];
        busy[static_cast<size_t>(me.rank())] = meter.stop();
      });
  CHECK(sums == std::vector<double>{2, 2});
  CHECK(busy[0] >= 0.4);
  CHECK(busy[1] < 0.3);
}
