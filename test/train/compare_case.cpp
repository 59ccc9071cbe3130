#include "compare_case.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "cpu/cpu_backend.h"
#include "parallel/thread_ranks.h"
#include "setup.h"
#include "train/recompute.h"

namespace verlcpp::test {

using namespace train;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";

/// Three groups of four of very uneven length: up to `longest` tokens.
std::string recorded(int longest) {
  const std::pair<int, int> lengths[] = {
      {20, longest - 20}, {3, 4}, {1, 1},  {8, 30}, {2, 9},  {5, 2},
      {24, 21},           {7, 7}, {1, 40}, {4, 3},  {6, 11}, {12, 1}};
  std::string rows;
  for (int s = 0; s < 12; ++s) {
    nlohmann::json row;
    row["uid"] = "group" + std::to_string(s / 4);
    for (int i = 0; i < lengths[s].first; ++i) row["prompt_ids"].push_back((3 * s + i) % 29);
    for (int i = 0; i < lengths[s].second; ++i) row["response_ids"].push_back((5 * s + 2 * i) % 29);
    row["reward"] = 0.1 * ((7 * s) % 12);
    rows += row.dump() + "\n";
  }
  return rows;
}

}  // namespace

std::vector<std::string> compare_overrides(const TemporaryFolder& folder, int longest) {
  std::vector<std::string> all = test::valid_run();
  for (const std::string& more :
       {std::string("trainer.n_gpus_per_node=4"), kMegatron + "context_parallel_size=2",
        kMegatron + "dtype=float64", kA + "ref.megatron.dtype=float64",
        kMegatron + "max_seqlen_per_dp_cp_rank=40", std::string("data.train_batch_size=3"),
        kA + "actor.ppo_mini_batch_size=1", kA + "actor.ppo_epochs=2", kA + "actor.shuffle=True",
        kA + "actor.use_kl_loss=True", kA + "actor.entropy_coeff=0.01", kA + "actor.optim.lr=1e-3",
        std::string("data.max_prompt_length=24"), std::string("data.max_response_length=100"),
        std::string("trainer.total_training_steps=1"), kA + "rollout.name=replay",
        kA + "rollout.replay_path='" + folder.write("rows.jsonl", recorded(longest)) + "'"}) {
    all.push_back(more);
  }
  return all;
}

std::string even_model(const TemporaryFolder& folder) {
  std::ifstream in(VERLCPP_TEST_DATA "/qwen3/config.json");
  nlohmann::json config = nlohmann::json::parse(in);
  config["intermediate_size"] = 28;
  folder.write("model/config.json", config.dump());
  return folder.path() + "/model";
}

Comparison run_compare(const std::vector<CompareArm>& arms, const CompareOptions& options) {
  const TrainConfig& config = arms.front().config;
  const Inputs inputs = load_inputs(config, arms.front().tree, {}, 1);
  const MegatronConfig& megatron = config.actor_rollout_ref.actor.megatron;
  Comparison out;
  parallel::run_thread_ranks(
      batching_rule(config, Pass::kActorUpdate).sizes,
      [&](const parallel::Topology& topology, parallel::RankCommunicators comm) {
        cpu::CpuBackend backend;
        BusyMeter meter(backend, comm, thread_cpu_seconds);
        const parallel::RankCommunicators metered = meter.communicators();
        const model::Transformer transformer =
            make_transformer(backend, inputs.model, dtype_named(megatron.dtype).value(),
                             config.actor_rollout_ref, metered);
        const Engine engine{backend, transformer, topology, metered,
                            recompute_policy(megatron, inputs.model.layers)};
        Comparison mine = compare_dcp(engine, meter, arms, inputs, options);
        if (topology.rank() == 0) out = std::move(mine);
      });
  return out;
}

ArmResult compare_result(const std::string& name, std::vector<double> seconds, double loss) {
  ArmResult arm;
  arm.name = name;
  arm.step_seconds = std::move(seconds);
  arm.losses = {loss};
  arm.grad_norms = {2.0};
  arm.passes["old_log_prob"] = {
      .groups_by_cp = {0, 3, 2}, .tokens = 100, .padded_tokens = 110, .micro_batches = 2};
  arm.passes["update_actor"] = {
      .groups_by_cp = {0, 1, 0, 4}, .tokens = 100, .padded_tokens = 130, .micro_batches = 3};
  return arm;
}

}  // namespace verlcpp::test
