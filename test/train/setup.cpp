#include "setup.h"

#include "config/compose.h"
#include "config/embedded.h"

namespace verlcpp::test {
namespace {

const std::string kData = VERLCPP_TEST_DATA;

}  // namespace

std::vector<std::string> valid_run() {
  return {"trainer.device=cpu",
          "trainer.logger=[console,file]",
          "trainer.nnodes=1",
          "trainer.n_gpus_per_node=8",
          "algorithm.adv_estimator=grpo",
          "data.train_files='" + kData + "/qwen3/config.json'",
          "data.train_batch_size=8",
          "data.max_prompt_length=64",
          "data.max_response_length=192",
          "actor_rollout_ref.model.path='" + kData + "/qwen3'",
          "actor_rollout_ref.actor.ppo_mini_batch_size=4",
          "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
          "actor_rollout_ref.actor.megatron.dtype=float32",
          "actor_rollout_ref.actor.megatron.context_parallel_size=4",
          "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1",
          "actor_rollout_ref.ref.megatron.dtype=float32",
          "actor_rollout_ref.rollout.name=native",
          "actor_rollout_ref.rollout.n=4",
          "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1"};
}

std::vector<std::string> valid_dynamic_run() {
  std::vector<std::string> overrides = valid_run();
  overrides.emplace_back("actor_rollout_ref.actor.megatron.dynamic_context_parallel=True");
  overrides.emplace_back("actor_rollout_ref.actor.megatron.max_seqlen_per_dp_cp_rank=128");
  return overrides;
}

Configured configured(std::vector<std::string> base, const std::vector<std::string>& more) {
  base.insert(base.end(), more.begin(), more.end());
  Configured out;
  out.tree = config::resolve(config::compose({.search_path = {config::embedded()},
                                              .config_name = "ppo_trainer",
                                              .overrides = std::move(base)})
                                 .tree);
  out.config = train::bind_train_config(out.tree);
  return out;
}

}  // namespace verlcpp::test
