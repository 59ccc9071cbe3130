#include "memory_case.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "layout_case.h"
#include "parallel/thread_ranks.h"
#include "train/optimizer.h"
#include "train/pipeline.h"
#include "train/recompute.h"

namespace verlcpp::test {
namespace {

using namespace train;

constexpr int64_t kPrompt = 4;  // responses are all of one length

model::ModelConfig model_of(const std::string& architecture, int64_t vocab, int64_t hidden,
                            int64_t ffn, int64_t layers, int64_t heads, int64_t kv_heads) {
  model::ModelConfig c;
  c.architecture = architecture;
  c.vocab = vocab;
  c.hidden = hidden;
  c.ffn = ffn;
  c.layers = layers;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = 32;
  c.qkv_bias = c.tied_embeddings = architecture == "Qwen2ForCausalLM";
  c.qk_norm = architecture == "Qwen3ForCausalLM";
  return c;
}

}  // namespace

Inputs memory_inputs(const MemoryCase& c, const TrainConfig& config) {
  Inputs inputs;
  inputs.model = c.model;
  inputs.steps_per_epoch = inputs.total_steps = 1;
  for (int64_t row = 0; row < config.data.train_batch_size; ++row) {
    inputs.rows.push_back({.row = row,
                           .data_source = "",
                           .prompt = {},
                           .ground_truth = "",
                           .ground_truth_json = "",
                           .extra_json = "",
                           .origin = ""});
    inputs.prompt_ids.emplace_back(static_cast<size_t>(kPrompt), static_cast<int32_t>(row));
  }
  return inputs;
}

namespace {

void one_step(const Engine& engine, const TrainConfig& config, const Inputs& inputs, DType dtype) {
  const model::ParameterLayout layout(inputs.model, engine.topology.sizes().pool(),
                                      engine.transformer.tp_place());
  const model::ParameterBuffer weights(engine.backend, layout, dtype, MemoryTag::kWeights);
  const model::ParameterBuffer grad(engine.backend, layout, model::statistics_dtype(dtype),
                                    MemoryTag::kMainGrad);
  const model::ParameterBuffer reference(engine.backend, layout, dtype, MemoryTag::kWeights);
  Optimizer optimizer(engine, layout, dtype, optimizer_options(config.actor_rollout_ref.actor));
  initialize(engine.backend, weights, 1);
  optimizer.take_master(weights);
  engine.backend.copy(reference.flat(), weights.flat());

  auto batch = rollout_batch(engine, weights, config, inputs, 0).value();
  for (size_t i = 0; i < batch.size(); ++i) batch[i].reward = static_cast<double>(i % 2);
  const KlCtrlConfig& k = config.algorithm.kl_ctrl;
  algo::KlController kl(k.type, k.kl_coef, k.target_kl, k.horizon);
  PhaseTimer timer;
  const auto step =
      make_experience(engine, weights, &reference, config, std::move(batch), kl, timer);
  ScheduleStats stats;
  update_pass(engine, {weights, grad, optimizer}, step.value().experience, update_options(config),
              make_planner(batching_rule(config, Pass::kActorUpdate)), 0, 1e-3, stats);
}

}  // namespace

std::vector<MemoryCase> memory_cases() {
  const auto qwen2 = model_of("Qwen2ForCausalLM", 2000, 128, 512, 3, 4, 1);
  const auto qwen3 = model_of("Qwen3ForCausalLM", 3000, 96, 256, 4, 6, 2);
  const auto llama = model_of("LlamaForCausalLM", 1500, 192, 384, 3, 6, 6);
  const std::string override = megatron("override_transformer_config.recompute_");
  const std::vector<std::string> full{override + "granularity=full", override + "method=uniform",
                                      override + "num_layers=1"};
  const std::vector<std::string> selective{override + "granularity=selective"};
  const auto with = [](Layout layout, const std::vector<std::string>& more) {
    layout.overrides.insert(layout.overrides.end(), more.begin(), more.end());
    return layout.overrides;
  };
  const auto one = static_cp(1, 1, {}), cp2 = static_cp(2, 2, {}), dcp = dynamic_cp(4, 2, 256);
  constexpr int64_t kOverThePool = 4 * 256;  // what only a group of all four ranks can take
  return {
      {"Qwen2, one rank", qwen2, with(one, {})},
      {"Qwen2, one rank, full recompute", qwen2, with(one, full)},
      {"Qwen2, one rank, selective recompute", qwen2, with(one, selective)},
      {"Qwen2, one rank, fused head", qwen2,
       with(one, {"actor_rollout_ref.model.use_fused_kernels=True"})},
      {"Qwen2, four data-parallel ranks", qwen2, with(static_cp(4, 1, {}), {}), 256, 4},
      {"Qwen2, micro-batches of 2", qwen2, with(static_cp(1, 1, micro_batches_of(2)), {})},
      {"Qwen3, one rank", qwen3, with(one, {})},
      {"Qwen3, CP 2", qwen3, with(cp2, {}), 256, 2},
      {"Qwen3, CP 2 by all-gather", qwen3,
       with(cp2, {"+" + megatron("override_transformer_config.cp_comm_type=all_gather")}), 256, 2},
      {"Qwen3, CP 4, full recompute", qwen3, with(static_cp(4, 4, {}), full), 256, 4},
      {"Qwen3, DCP on 4 ranks", qwen3, with(dcp, {}), kOverThePool, 1},
      {"Qwen3, TP 2 with sequence parallel", qwen3, with(with_tp(one, 2, true), {})},
      {"Llama, one rank", llama, with(one, {})},
      {"Llama, TP 2 without sequence parallel", llama, with(with_tp(one, 2, false), {})},
      {"Llama, TP 2 with sequence parallel, CP 2, full recompute", llama,
       with(with_tp(cp2, 2, true), full), 256, 2},
      {"Llama, TP 2 with sequence parallel, DCP on 4 coordinates", llama,
       with(with_tp(dcp, 2, true), {}), kOverThePool, 1}};
}

std::vector<MemoryCase> full_size_memory_cases() {
  auto small = model_of("Qwen2ForCausalLM", 151936, 896, 4864, 24, 14, 2);
  small.head_dim = 64;
  auto large = model_of("Qwen2ForCausalLM", 151936, 1536, 8960, 28, 12, 2);
  large.head_dim = 128;
  auto qwen3 = model_of("Qwen3ForCausalLM", 151936, 1024, 3072, 28, 16, 8);
  qwen3.head_dim = 128;
  qwen3.tied_embeddings = true;
  const std::string recompute = megatron("override_transformer_config.recompute_");
  constexpr int64_t kLength = 1024, kBudget = 8192;
  return {{"Qwen2.5 0.5B", small, static_cp(1, 1, {}).overrides, kLength, 4, kBudget},
          {"Qwen2.5 1.5B, full recompute", large,
           static_cp(1, 1,
                     {recompute + "granularity=full", recompute + "method=uniform",
                      recompute + "num_layers=1"})
               .overrides,
           kLength, 4, kBudget},
          {"Qwen3 0.6B, CP 2, fused head", qwen3, with_fused_head(static_cp(2, 2, {})).overrides,
           kLength, 8, kBudget}};
}

TrainConfig memory_config(const MemoryCase& c, const std::string& device, DType dtype) {
  std::vector<std::string> overrides = c.overrides;
  overrides.insert(
      overrides.end(),
      {"trainer.device=" + device, megatron("dtype=" + std::string(name_of(dtype))),
       "actor_rollout_ref.rollout.name=native", "actor_rollout_ref.rollout.n=2",
       "actor_rollout_ref.rollout.ignore_eos=True",
       "data.train_batch_size=" + std::to_string(c.prompts),
       "data.max_prompt_length=" + std::to_string(kPrompt),
       "data.max_response_length=" + std::to_string(c.length - kPrompt),
       "data.max_token_len_per_gpu=" + std::to_string(c.budget),
       actor("ppo_mini_batch_size=" + std::to_string(c.prompts)), actor("ppo_epochs=1")});
  if (device == "cpu") return make_config(overrides, {});
  const int64_t world = make_config(overrides, {}).world_size();  // all on one card
  overrides.insert(overrides.end(),
                   {"trainer.n_gpus_per_node=1", "trainer.ranks_per_gpu=" + std::to_string(world)});
  return make_config(overrides, {});
}

MeasuredStep measured_step(const MemoryCase& c, const TrainConfig& config,
                           const parallel::MakeDevice& make_device) {
  const MegatronConfig& megatron = config.actor_rollout_ref.actor.megatron;
  const DType dtype = dtype_named(megatron.dtype).value();
  const Inputs inputs = memory_inputs(c, config);
  const parallel::AxisSizes sizes = batching_rule(config, Pass::kActorUpdate).sizes;
  std::vector<MeasuredStep> steps(static_cast<size_t>(sizes.world));
  parallel::run_thread_ranks(
      sizes, [&](const parallel::Topology& topology, parallel::RankCommunicators comm) {
        const parallel::RankDevice device = make_device(topology, comm);
        Backend& backend = *device.backend;
        const int64_t reserved = backend.reserved_bytes();
        const model::Transformer transformer =
            make_transformer(backend, c.model, dtype, config.actor_rollout_ref, device.comm);
        const Engine engine{backend, transformer, topology, device.comm,
                            recompute_policy(megatron, c.model.layers)};
        one_step(engine, config, inputs, dtype);
        steps[static_cast<size_t>(topology.rank())] = {backend.peak_bytes(),
                                                       backend.reserved_bytes() - reserved};
      });
  MeasuredStep largest;
  for (const MeasuredStep& step : steps) {
    largest.peak.raise_to(step.peak);
    largest.grown = std::max(largest.grown, step.grown);
  }
  return largest;
}

std::string beyond_a_tenth(const MemoryBytes& planned, const MemoryBytes& measured) {
  constexpr int64_t kSmall = int64_t{1} << 20;
  std::string text;
  const auto compare = [&](std::string_view name, int64_t plan, int64_t peak) {
    if (std::max(plan, peak) < kSmall) return;
    if (std::abs(static_cast<double>(plan - peak)) <= 0.1 * static_cast<double>(plan)) return;
    text += std::string(name) + ": planned " + std::to_string(plan) + ", measured " +
            std::to_string(peak) + "; ";
  };
  for (const MemoryTag tag : kMemoryTags) compare(name_of(tag), planned[tag], measured[tag]);
  compare("total", planned.total, measured.total);
  return text;
}

}  // namespace verlcpp::test
