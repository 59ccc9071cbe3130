// The balanced arm of a comparison, and the times that a cost model predicts for its steps.

#include <nlohmann/json.hpp>
#include <numeric>

#include "compare_case.h"
#include "setup.h"
#include "support/catch.h"
#include "train/compare_report.h"
#include "train/compare_table.h"

using namespace verlcpp;
using namespace verlcpp::train;
using Catch::Matchers::ContainsSubstring;
using test::compare_overrides;
using test::run_compare;
using test::TemporaryFolder;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";

/// A file of --calibrate with costs that only rows have: 3 in an update, 1 in a log-prob pass, and
/// 10 a mini-batch.
std::string cost_file(const TemporaryFolder& folder) {
  Calibration made;
  made.costs = {.update = {.linear = 3, .quadratic = 0},
                .log_prob = {.linear = 1, .quadratic = 0},
                .mini_batch = 10,
                .subject = "a model"};
  return folder.write("cost.json", to_json(made));
}

std::vector<std::string> balanced() { return {kMegatron + "dynamic_cp_scheduler=balanced"}; }

std::vector<std::string> with_costs(const TemporaryFolder& folder) {
  return {kMegatron + "dynamic_cp_cost_model='" + cost_file(folder) + "'"};
}

std::vector<CompareArm> arms_of(const TemporaryFolder& folder,
                                const std::vector<std::string>& more) {
  return compare_arms(test::configured(compare_overrides(folder), more).tree);
}

std::vector<int64_t> gpus(const std::vector<PredictedStep>& steps) {
  std::vector<int64_t> out;
  for (const PredictedStep& step : steps) out.push_back(step.gpus);
  return out;
}

}  // namespace

TEST_CASE("the balanced scheduler is an arm beside the default one") {
  const TemporaryFolder folder;
  const auto arms = arms_of(folder, balanced());
  REQUIRE(arms.size() == 4);
  CHECK(arms[2].name == "dcp");
  CHECK(arms[3].name == "dcp-balanced");
  for (const Pass pass : {Pass::kActorUpdate, Pass::kOldLogProb, Pass::kRefLogProb}) {
    CHECK_FALSE(batching_rule(arms[0].config, pass).dcp);
    CHECK_FALSE(batching_rule(arms[2].config, pass).dcp->balanced);
    CHECK(batching_rule(arms[3].config, pass).dcp->balanced);
  }
  CHECK(arms[2].tree.find(kMegatron + "dynamic_cp_scheduler")->origin().text ==
        "--compare-dcp, dcp");
  for (const CompareArm& arm : arms) CHECK(differing_settings(arms[0], arm).empty());
}

TEST_CASE("what the balanced arm is refused for names it") {
  const TemporaryFolder folder;
  auto more = balanced();
  more.insert(more.end(), {"trainer.n_gpus_per_node=3", kMegatron + "context_parallel_size=1"});
  CHECK_THROWS_WITH(arms_of(folder, more), ContainsSubstring("--compare-dcp, arm dcp-balanced: "));
}

TEST_CASE("the balanced arm computes the same, and its own plan") {
  const TemporaryFolder folder;
  auto more = balanced();
  more.emplace_back("data.max_response_length=52");
  const auto arms = arms_of(folder, more);
  const CompareOptions options{.steps = 1, .warmup = 0};
  const Comparison comparison = run_compare(arms, options);
  REQUIRE(comparison.arms.size() == 4);
  CHECK_FALSE(disagreement(comparison, DType::kFloat64).any());
  // Nothing was measured: speeds, not seconds.
  CHECK(comparison.predicted_from.empty());
  CHECK_FALSE(comparison.exchanges_cost);
  for (const ArmResult& arm : comparison.arms) CHECK_FALSE(arm.predicted_seconds.has_value());
  CHECK(gpus(comparison.predicted) == std::vector<int64_t>{2, 4, 8});
  const auto json = nlohmann::json::parse(to_json(comparison, arms, options));
  CHECK(json["arms"][3]["predicted_seconds"].is_null());
  CHECK(json["predicted"]["measured_for"] == "");
  CHECK(json["predicted"]["between_micro_batches"] == "nothing");
  REQUIRE(json["predicted"]["steps"].size() == 3);
  CHECK(json["predicted"]["steps"][0]["arms"][0]["speedup"] == 1.0);
  CHECK(json["predicted"]["steps"][0]["arms"][3]["name"] == "dcp-balanced");
  CHECK(json["predicted"]["steps"][0]["arms"][3]["seconds"].is_null());
  CHECK_THAT(
      to_text(comparison, arms, options),
      ContainsSubstring("predicted speed by the operations of the layers alone, exchanges of "
                        "K and V for nothing:\n"));
}

TEST_CASE("a measured file gives seconds for every arm") {
  const TemporaryFolder folder;
  auto more = with_costs(folder);
  more.emplace_back("data.max_response_length=52");
  const auto arms = arms_of(folder, more);
  const CompareOptions options{.steps = 1, .warmup = 0};
  const Comparison comparison = run_compare(arms, options);
  REQUIRE(comparison.arms.size() == 3);
  CHECK(comparison.predicted_from == "a model");
  const PassCosts costs = arms.front().config.actor_rollout_ref.actor.megatron.costs;
  for (size_t i = 0; i < arms.size(); ++i) {
    REQUIRE(comparison.arms[i].predicted_seconds.has_value());
    CHECK(*comparison.arms[i].predicted_seconds ==
          predicted_step(arms[i], comparison.lengths, costs));
  }
  const auto json = nlohmann::json::parse(to_json(comparison, arms, options));
  CHECK(json["arms"][1]["predicted_seconds"] == *comparison.arms[1].predicted_seconds);
  CHECK(json["predicted"]["measured_for"] == "a model");
  CHECK(json["predicted"]["exchanges_cost"] == false);
  CHECK(json["predicted"]["between_micro_batches"] == "as measured");
  CHECK(json["predicted"]["steps"][2]["arms"][2]["seconds"] == comparison.predicted[2].seconds[2]);
  CHECK_THAT(predicted_table(comparison),
             ContainsSubstring("predicted step by times measured for a model, exchanges of K and V "
                               "for nothing; gradient reduction and optimizer as measured on the "
                               "file's ranks:\n"));
  Comparison with_exchanges = comparison;
  with_exchanges.exchanges_cost = true;
  CHECK_THAT(predicted_table(with_exchanges),
             ContainsSubstring("times measured for a model; gradient "));
}

TEST_CASE(
    "predicted steps by hand: log-probs of actor and reference, mini-batches, what is between") {
  const TemporaryFolder folder;
  auto more = balanced();
  for (const std::string& o : with_costs(folder)) more.push_back(o);
  const auto arms = arms_of(folder, more);
  const PassCosts costs = arms.front().config.actor_rollout_ref.actor.megatron.costs;
  // 16 tokens need no padding in any group of up to eight.
  const std::vector<int64_t> lengths(12, 16);
  const auto steps = predict_steps(arms, lengths, costs);
  REQUIRE(gpus(steps) == std::vector<int64_t>{2, 4, 8});
  for (const PredictedStep& step : steps) {
    INFO(step.gpus);
    CHECK(step.cp == step.gpus);
    CHECK(step.limit == 80 / step.gpus);  // the static pack stays 40 x CP 2
    REQUIRE(step.seconds.size() == arms.size());
    // Two log-prob passes and two epochs of updates over 192 tokens, six mini-batches.
    const double want = (2 + 2 * 3) * 192.0 / static_cast<double>(step.gpus) + 6 * 10;
    for (const double seconds : step.seconds) CHECK(seconds == Approx(want));
  }
  // The run's own layout is four ranks with CP 2: two replicas side by side.
  CHECK(predicted_step(arms[0], lengths, costs) == Approx(8 * 192.0 / 4 + 60));
}

TEST_CASE("sizes that tensor parallelism or the smallest group do not allow are left out") {
  const TemporaryFolder folder;
  const std::vector<int64_t> lengths(12, 16);
  const std::string model = kA + "model.path='" + test::even_model(folder) + "'";
  const auto sizes = [&](const std::string& key) {
    const auto arms =
        arms_of(folder, {model, kA + "model.random_init=True", key, "data.max_response_length=52"});
    return predict_steps(arms, lengths, compare_costs(arms.front().config, {}));
  };
  const auto tp = sizes(kMegatron + "tensor_model_parallel_size=2");
  CHECK(gpus(tp) == std::vector<int64_t>{4, 8});
  CHECK(tp.front().cp == 2);
  CHECK(gpus(sizes("+" + kMegatron +
                   "override_transformer_config.min_dynamic_context_parallel_size=4")) ==
        std::vector<int64_t>{4, 8});
}

TEST_CASE("without a measured file, the operations of the layers") {
  model::ModelConfig model;
  model.hidden = 2;
  model.head_dim = 3;
  model.heads = 4;
  model.kv_heads = 2;
  model.ffn = 5;
  // q, k, v: 2 x 8 x 3; o: 12 x 2; gate, up, down: 3 x 2 x 5. Two operations each.
  CHECK(layer_cost(model) == schedule::CostModel{.linear = 2 * (48 + 24 + 30), .quadratic = 24});
  const TemporaryFolder folder;
  const PassCosts costs = compare_costs(arms_of(folder, {}).front().config, model);
  CHECK_FALSE(costs.measured);
  CHECK(costs.log_prob == layer_cost(model));
  CHECK(costs.update.linear == 3 * costs.log_prob.linear);
  CHECK(costs.update.quadratic == 3 * costs.log_prob.quadratic);
}
