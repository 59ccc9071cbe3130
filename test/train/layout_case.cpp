#include "layout_case.h"

#include <algorithm>

#include "base/rng.h"
#include "config/compose.h"
#include "config/embedded.h"
#include "cpu/cpu_backend.h"

namespace verlcpp::test {

using namespace train;

Planner shuffled(Planner inner) {
  return [inner = std::move(inner)](std::span<const int64_t> lengths) {
    schedule::Plan plan = inner(lengths);
    const PhiloxKey key{5, 6};
    for (schedule::MicroBatch& m : plan.micro_batches) {
      for (schedule::PlanGroup& g : m.groups) {
        std::vector<int> mixed;
        for (int64_t i : random_permutation(static_cast<int64_t>(g.samples.size()), key, 1)) {
          mixed.push_back(g.samples[static_cast<size_t>(i)]);
        }
        g.samples = mixed;
      }
    }
    std::reverse(plan.micro_batches.begin(), plan.micro_batches.end());
    return plan;
  };
}

model::ModelConfig tiny_model() {
  model::ModelConfig c;
  c.architecture = "Qwen3ForCausalLM";
  c.vocab = 29;
  c.hidden = 16;
  c.ffn = 24;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 4;
  c.qkv_bias = true;
  c.qk_norm = true;
  c.tied_embeddings = true;
  return c;
}

std::string actor(const std::string& key) { return "actor_rollout_ref.actor." + key; }
std::string megatron(const std::string& key) { return actor("megatron." + key); }

TrainConfig make_config(const std::vector<std::string>& layout,
                        const std::vector<std::string>& more) {
  std::vector<std::string> overrides{
      "trainer.device=cpu",
      megatron("dtype=float64"),
      "algorithm.adv_estimator=grpo",
      "algorithm.use_kl_in_reward=True",
      "algorithm.kl_ctrl.kl_coef=0.05",
      "data.train_batch_size=4",
      "data.max_prompt_length=24",
      "data.max_response_length=24",
      "actor_rollout_ref.rollout.n=3",
      "actor_rollout_ref.rollout.name=replay",
      actor("ppo_mini_batch_size=2"),  // two mini-batches of six responses
      actor("ppo_epochs=2"),
      actor("shuffle=True"),
      actor("use_kl_loss=True"),
      actor("kl_loss_coef=0.1"),
      actor("entropy_coeff=0.01"),
      actor("clip_ratio=0.02"),
      actor("clip_ratio_low=0.02"),
      actor("clip_ratio_high=0.02"),
      actor("optim.lr=2e-3"),
      actor("optim.clip_grad=0.5"),
      "trainer.n_gpus_per_node=1",
      actor("use_dynamic_bsz=True"),
      "data.max_token_len_per_gpu=4096",
  };
  overrides.insert(overrides.end(), more.begin(), more.end());
  overrides.insert(overrides.end(), layout.begin(), layout.end());
  config::Node tree =
      config::resolve(config::compose({{config::embedded()}, "ppo_trainer", overrides}).tree);
  return bind_train_config(tree);
}

std::vector<data::Trajectory> recorded(int64_t vocab) {
  const PhiloxKey key{11, 12};
  const std::pair<int, int> lengths[] = {{1, 1},  {24, 24}, {1, 2},  {7, 13}, {5, 1},  {3, 3},
                                         {10, 9}, {1, 23},  {24, 1}, {2, 5},  {11, 6}, {4, 19}};
  std::vector<data::Trajectory> batch;
  for (uint32_t s = 0; s < 12; ++s) {
    data::Trajectory& t = batch.emplace_back();
    t.uid = "group" + std::to_string(s / 3);
    for (int i = 0; i < lengths[s].first + lengths[s].second; ++i) {
      const auto id =
          static_cast<int32_t>(philox4x32({s, static_cast<uint32_t>(i)}, key)[0] % vocab);
      (i < lengths[s].first ? t.prompt_ids : t.response_ids).push_back(id);
    }
    t.response_mask.assign(t.response_ids.size(), s == 9 ? 0 : 1);
    if (s == 3) t.response_mask[4] = t.response_mask[5] = 0;  // a tool's output
    t.reward = uniform_open(philox4x32({s, 1000}, key)[0]);
    t.temperature = s % 2 == 0 ? 1.0 : 0.8;
  }
  return batch;
}

LayoutResult updates_of(const TrainConfig& config, DType dtype, int updates, bool shuffle_packing,
                        const parallel::MakeDevice& make_device, const model::ModelConfig& model) {
  const auto batch = recorded(model.vocab);
  LayoutRun run{
      .config = config, .model = model, .batch = batch, .updates = updates, .dtype = dtype};
  run.make_device = make_device;
  if (!make_device) {
    run.make_device = [](const auto&, const auto& host) {
      return parallel::host_device(std::make_unique<cpu::CpuBackend>(), host);
    };
  }
  run.load_weights = [](Backend& backend, const model::ParameterBuffer& weights, bool reference) {
    initialize(backend, weights, reference ? 2 : 1);
  };
  if (shuffle_packing) run.change_planner = shuffled;
  return run_layout(run);
}

Layout static_cp(int world, int cp, std::vector<std::string> more) {
  Layout l{std::to_string(world) + (world == 1 ? " rank" : " ranks") + ", CP " + std::to_string(cp),
           {"trainer.n_gpus_per_node=" + std::to_string(world),
            megatron("context_parallel_size=" + std::to_string(cp))}};
  for (const std::string& o : more) l.name += ", " + o.substr(o.rfind('.') + 1);
  l.overrides.insert(l.overrides.end(), more.begin(), more.end());
  return l;
}

Layout dynamic_cp(int pool, int cp, int64_t limit) {
  return {"DCP on " + std::to_string(pool) + " ranks, limit " + std::to_string(limit),
          {"trainer.n_gpus_per_node=" + std::to_string(pool),
           megatron("context_parallel_size=" + std::to_string(cp)),
           megatron("dynamic_context_parallel=True"),
           megatron("max_seqlen_per_dp_cp_rank=" + std::to_string(limit))}};
}

Layout with_tp(Layout layout, int tp, bool sequence_parallel) {
  const std::string ranks = "trainer.n_gpus_per_node=";
  for (std::string& o : layout.overrides) {
    if (o.starts_with(ranks)) o = ranks + std::to_string(tp * std::stoi(o.substr(ranks.size())));
  }
  layout.name += ", times TP " + std::to_string(tp) + (sequence_parallel ? " with" : " without") +
                 " sequence parallel";
  layout.overrides.push_back(megatron("tensor_model_parallel_size=" + std::to_string(tp)));
  layout.overrides.push_back(
      megatron(std::string("sequence_parallel=") + (sequence_parallel ? "True" : "False")));
  return layout;
}

Layout without_zero1(Layout layout) {
  layout.name += ", optimizer not distributed";
  layout.overrides.push_back(megatron("use_distributed_optimizer=False"));
  return layout;
}

Layout with_fused_head(Layout layout) {
  layout.name += ", fused head";
  layout.overrides.push_back("actor_rollout_ref.model.use_fused_kernels=True");
  return layout;
}

Layout with_all_gather(Layout layout) {
  layout.name += ", all-gather";
  layout.overrides.push_back("+" + megatron("override_transformer_config.cp_comm_type=all_gather"));
  return layout;
}

Layout with_balanced(Layout layout) {
  layout.name += ", balanced";
  layout.overrides.push_back(megatron("dynamic_cp_scheduler=balanced"));
  return layout;
}

std::vector<std::string> micro_batches_of(int size) {
  const std::string n = std::to_string(size);
  return {actor("use_dynamic_bsz=False"), actor("ppo_micro_batch_size_per_gpu=" + n),
          "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=" + n,
          "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=" + n};
}

std::vector<Layout> all_layouts() {
  std::vector<Layout> all{
      static_cp(2, 1, {}),
      static_cp(2, 2, {}),
      static_cp(3, 3, {}),
      static_cp(4, 4, {}),
      static_cp(4, 1, {}),
      static_cp(4, 2, {}),
      static_cp(1, 1, micro_batches_of(1)),
      static_cp(1, 1, micro_batches_of(3)),
      static_cp(4, 2, micro_batches_of(1)),
      static_cp(1, 1, {"data.max_token_len_per_gpu=48"}),
      static_cp(2, 2, {"data.max_token_len_per_gpu=40"}),
      dynamic_cp(2, 1, kLongest / 2),
      dynamic_cp(4, 2, kLongest / 4),
      dynamic_cp(6, 3, kLongest / 6),
      dynamic_cp(8, 2, kLongest / 8),
      dynamic_cp(8, 8, 30),
  };
  for (const bool sequence_parallel : {false, true}) {
    all.push_back(with_tp(static_cp(1, 1, {}), 2, sequence_parallel));
    all.push_back(with_tp(static_cp(1, 1, {}), 4, sequence_parallel));  // shares kv heads
    all.push_back(with_tp(static_cp(2, 2, {}), 2, sequence_parallel));
    all.push_back(with_tp(dynamic_cp(4, 2, kLongest / 4), 2, sequence_parallel));
    all.push_back(with_tp(dynamic_cp(4, 4, kLongest / 4), 4, sequence_parallel));
    all.push_back(
        without_zero1(with_tp(static_cp(2, 1, micro_batches_of(2)), 4, sequence_parallel)));
  }
  all.push_back(without_zero1(static_cp(2, 1, {})));
  all.push_back(without_zero1(static_cp(4, 2, {})));
  all.push_back(without_zero1(dynamic_cp(6, 3, kLongest / 6)));
  all.push_back(with_fused_head(static_cp(1, 1, {})));
  all.push_back(with_fused_head(with_tp(static_cp(2, 2, micro_batches_of(2)), 4, false)));
  all.push_back(with_fused_head(with_tp(dynamic_cp(4, 2, kLongest / 4), 2, true)));
  all.push_back(with_balanced(dynamic_cp(4, 2, kLongest / 4)));
  all.push_back(with_balanced(with_tp(dynamic_cp(6, 3, 16), 2, true)));
  all.push_back(with_all_gather(static_cp(3, 3, {})));
  all.push_back(with_all_gather(static_cp(4, 2, micro_batches_of(1))));
  all.push_back(with_all_gather(dynamic_cp(6, 3, kLongest / 6)));
  all.push_back(with_all_gather(with_tp(dynamic_cp(4, 2, kLongest / 4), 2, true)));
  const std::string overrides = megatron("override_transformer_config.recompute_");
  Layout recompute = dynamic_cp(4, 2, kLongest / 4);
  recompute.name += ", full recompute";
  recompute.overrides.insert(
      recompute.overrides.end(),
      {overrides + "granularity=full", overrides + "method=uniform", overrides + "num_layers=1"});
  all.push_back(recompute);
  all.push_back(with_tp(recompute, 2, true));
  recompute.name += " of the first layer";
  recompute.overrides.push_back(overrides + "method=block");
  all.push_back(recompute);
  recompute = static_cp(2, 2, {});
  recompute.name += ", selective recompute";
  recompute.overrides.push_back(overrides + "granularity=selective");
  all.push_back(recompute);
  Layout mixed = static_cp(1, 1, {"data.max_token_len_per_gpu=60"});
  mixed.name += ", shuffled packing";
  mixed.shuffle_packing = true;
  all.push_back(mixed);
  mixed = dynamic_cp(6, 3, 16);
  mixed.name += ", shuffled packing";
  mixed.shuffle_packing = true;
  all.push_back(mixed);
  return all;
}

}  // namespace verlcpp::test
