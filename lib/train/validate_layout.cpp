#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "train/engine.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

// Each is a thread with its own parameters; more than this only exhausts the machine.
constexpr int64_t kMaxThreadRanks = 256;
constexpr const char* kValidAxis = "must be a positive integer of at most 1048576";

/// What a device runs; auto, before it is resolved, may become either.
std::vector<std::string> dtypes_of(const std::string& device) {
  if (device == "cpu") return {"float32", "float64"};
  if (device == "auto") return {"bfloat16", "float32", "float64"};
  return {"bfloat16", "float32"};
}

void check_device_and_dtype(const TrainConfig& config, Findings& findings) {
  const std::string& device = config.trainer.device;
  const std::vector<std::string> devices{"cuda", "cpu", "auto", "check"};
  const bool known_device = contains(devices, device);
  findings.require(known_device, "trainer.device", "must be one of " + join(devices));
  const std::vector<std::string> wanted = dtypes_of(device);
  for (const Role& role : roles(config)) {
    if (role.name == "ref" && !config.uses_reference()) continue;
    const std::string& dtype = role.megatron->dtype;
    if (!known_device || contains(wanted, dtype)) continue;
    std::string why;
    for (const char* other : {"cuda", "cpu"}) {
      if (!contains(dtypes_of(other), dtype)) continue;
      why = " by " + findings.about("trainer.device") + ", it needs trainer.device=" + other;
    }
    findings.add(role.key + ".dtype",
                 "dtype " + dtype + " not supported" + why + "; must be one of " + join(wanted));
  }
}

void check_model_parallel(const Role& role, Findings& findings) {
  const MegatronConfig& m = *role.megatron;
  const auto only_one = [&](const std::string& field, int64_t value, const std::string& what) {
    if (value == 1 || inherited(findings, role, field)) return;
    findings.add(role.key + "." + field, value < 1
                                             ? "must be a positive integer"
                                             : field + "=" + std::to_string(value) + ": " + what +
                                                   " is not built; 1 is what this build runs");
  };
  only_one("pipeline_model_parallel_size", m.pipeline_model_parallel_size, "pipeline parallelism");
  const auto axis = [&](const std::string& field, int64_t value) {
    if ((value >= 1 && value <= kMaxAxis) || inherited(findings, role, field)) return;
    findings.add(role.key + "." + field, kValidAxis);
  };
  axis("tensor_model_parallel_size", m.tensor_model_parallel_size);
  axis("context_parallel_size", m.context_parallel_size);
  const config::Node* sequence_parallel = findings.tree().find(role.key + ".sequence_parallel");
  if (role.name == "actor" && m.tensor_model_parallel_size == 1 && m.sequence_parallel &&
      sequence_parallel != nullptr && !is_shipped(sequence_parallel->origin())) {
    findings.warn(findings.about(role.key + ".sequence_parallel") +
                  " has no effect with tensor_model_parallel_size 1");
  }
}

std::string world_text(int64_t world, const Findings& findings) {
  return std::to_string(world) + " = " + findings.about("trainer.nnodes") + " x " +
         findings.about("trainer.n_gpus_per_node") + " x " +
         findings.about("trainer.ranks_per_gpu");
}

void check_world(const TrainConfig& config, Findings& findings) {
  if (config.world_size() > kMaxCount) {
    findings.add_text("the world, " + world_text(config.world_size(), findings) + ", " +
                      kValidCount);
    return;
  }
  if (config.trainer.device != "cpu" || config.world_size() <= kMaxThreadRanks) return;
  findings.add_text(findings.about("trainer.device") + " runs at most " +
                    std::to_string(kMaxThreadRanks) + " ranks, each a thread, but the world is " +
                    world_text(config.world_size(), findings));
}

/// One engine runs both roles, so they share one layout.
void check_reference_layout(const TrainConfig& config, Findings& findings) {
  if (!config.uses_reference()) return;
  const MegatronConfig& actor = config.actor_rollout_ref.actor.megatron;
  const MegatronConfig& ref = config.actor_rollout_ref.ref.megatron;
  const auto same = [&](bool equal, const std::string& field, const std::string& why) {
    if (equal) return;
    findings.add("actor_rollout_ref.ref.megatron." + field,
                 "must equal the actor's (" +
                     findings.about("actor_rollout_ref.actor.megatron." + field) + "): " + why);
  };
  same(actor.tensor_model_parallel_size == ref.tensor_model_parallel_size,
       "tensor_model_parallel_size", "the reference runs in the actor's layout");
  same(actor.context_parallel_size == ref.context_parallel_size, "context_parallel_size",
       "the reference runs in the actor's layout");
  same(actor.dynamic_context_parallel == ref.dynamic_context_parallel, "dynamic_context_parallel",
       "enable dynamic_context_parallel consistently on every colocated engine");
  same(actor.dtype == ref.dtype, "dtype", "the reference runs in the actor's dtype");
  same(cp_comm_type(actor) == cp_comm_type(ref), "override_transformer_config.cp_comm_type",
       "the reference runs in the actor's layout");
}

}  // namespace

void check_layout(const TrainConfig& config, Findings& findings) {
  findings.require(config.model_engine == "megatron", "model_engine",
                   "only megatron is built; must be megatron");
  findings.require(config.actor_rollout_ref.actor.strategy == "megatron",
                   "actor_rollout_ref.actor.strategy", "must be megatron");
  findings.require(config.actor_rollout_ref.ref.strategy == "megatron",
                   "actor_rollout_ref.ref.strategy", "must be megatron");
  check_device_and_dtype(config, findings);

  const TrainerConfig& trainer = config.trainer;
  const auto size = [&](int64_t value, const std::string& key) {
    findings.require(value >= 1 && value <= kMaxAxis, key, kValidAxis);
  };
  size(trainer.nnodes, "trainer.nnodes");
  findings.require(
      trainer.device == "cpu" || trainer.nnodes <= 1, "trainer.nnodes",
      "this build runs on the GPUs of one machine; must be 1 unless trainer.device=cpu");
  size(trainer.n_gpus_per_node, "trainer.n_gpus_per_node");
  size(trainer.ranks_per_gpu, "trainer.ranks_per_gpu");
  for (const Role& role : roles(config)) check_model_parallel(role, findings);
  check_reference_layout(config, findings);

  check_world(config, findings);

  const MegatronConfig& m = config.actor_rollout_ref.actor.megatron;
  const parallel::AxisSizes sizes{.world = config.world_size(),
                                  .tp = m.tensor_model_parallel_size,
                                  .pp = m.pipeline_model_parallel_size,
                                  .cp = m.context_parallel_size};
  const bool axes_ok = std::max({sizes.tp, sizes.pp, sizes.cp}) <= kMaxAxis &&
                       std::min({sizes.world, sizes.tp, sizes.pp, sizes.cp}) >= 1;
  if (axes_ok) check_divisible(sizes, findings);
}

namespace {

/// The nearest size of one axis that leaves world and other axes as they are.
std::string nearest_axes(const parallel::AxisSizes& sizes) {
  const auto other = [&](const std::string& name, int64_t size, int64_t rest) {
    if (sizes.world % rest != 0) return std::string();
    return ", or " + name + " " + nearest_divisors(size, sizes.world / rest);
  };
  return other("context_parallel_size", sizes.cp, sizes.tp * sizes.pp) +
         other("tensor_model_parallel_size", sizes.tp, sizes.cp * sizes.pp);
}

}  // namespace

void check_divisible(const parallel::AxisSizes& sizes, Findings& findings) {
  const std::string key = "actor_rollout_ref.actor.megatron.";
  const int64_t model = sizes.tp * sizes.pp;
  if (sizes.world % (model * sizes.cp) == 0) return;
  findings.add_text("n_gpus (" + world_text(sizes.world, findings) +
                    ") must be divisible by model_parallel_size (" + std::to_string(model) + " = " +
                    findings.about(key + "tensor_model_parallel_size") + " x " +
                    findings.about(key + "pipeline_model_parallel_size") +
                    ") times context_parallel_size (" + std::to_string(sizes.cp) + ": " +
                    findings.about(key + "context_parallel_size") +
                    "); nearest valid: a world of " +
                    nearest_multiples(sizes.world, model * sizes.cp) + nearest_axes(sizes));
}

}  // namespace verlcpp::train
