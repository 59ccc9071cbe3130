#include <algorithm>
#include <numeric>
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
  findings.require(known_device, "trainer.device",
                   std::string(device == "npu" ? "Ascend NPUs are not supported; " : "") +
                       "must be cuda, cpu, auto (cuda where there is a GPU) or check (cuda, with "
                       "every operation compared with the CPU's)");
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
    findings.add(role.key + "." + field, value < 1 ? "must be a positive integer"
                                                   : what + " is not implemented; must be 1");
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

void check_world(const TrainConfig& config, Findings& findings) {
  if (config.world_size() > kMaxWorld) {
    findings.add_text("the world, " + world_text(config.world_size(), findings) +
                          ", must be at most " + std::to_string(kMaxWorld) + " ranks",
                      world_keys());
    return;
  }
  if (config.trainer.device != "cpu" || config.world_size() <= kMaxThreadRanks) return;
  findings.limit(findings.about("trainer.device") + " runs at most " +
                     std::to_string(kMaxThreadRanks) + " ranks, each a thread, but the world is " +
                     world_text(config.world_size(), findings),
                 world_keys());
}

/// What somebody set for a reference that does not run.
void warn_without_reference(Findings& findings) {
  std::vector<std::string> names;
  for (const char* field : {"tensor_model_parallel_size", "context_parallel_size",
                            "dynamic_context_parallel", "dtype"}) {
    const std::string key = std::string("actor_rollout_ref.ref.megatron.") + field;
    const config::Node* own = findings.tree().find(key);
    const config::Node* actor =
        findings.tree().find(std::string("actor_rollout_ref.actor.megatron.") + field);
    if (own == nullptr || actor == nullptr || config::same_values(*own, *actor)) continue;
    if (!is_shipped(own->origin())) names.push_back(findings.about(key));
  }
  if (names.empty()) return;
  findings.warn(join(names) + (names.size() == 1 ? " has" : " have") +
                " no effect: no reference runs (no KL asks for one)");
}

/// One engine runs both roles, so they share one layout.
void check_reference_layout(const TrainConfig& config, Findings& findings) {
  if (!config.uses_reference()) return warn_without_reference(findings);
  const MegatronConfig& actor = config.actor_rollout_ref.actor.megatron;
  const MegatronConfig& ref = config.actor_rollout_ref.ref.megatron;
  const auto same = [&](bool equal, const std::string& field, const std::string& why) {
    if (equal) return;
    const std::string key = "actor_rollout_ref.actor.megatron." + field;
    const bool set = findings.tree().find(key) != nullptr;
    findings.add(
        "actor_rollout_ref.ref.megatron." + field,
        "must equal the actor's (" + (set ? findings.about(key) : key + ", not set") + "): " + why);
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
                   "only megatron is implemented; must be megatron");
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
  if (trainer.device != "cpu" && trainer.nnodes > 1) {
    findings.limit(
        findings.about("trainer.nnodes") +
        ": GPUs of several machines are not implemented; must be 1 unless trainer.device=cpu");
  }
  size(trainer.n_gpus_per_node, "trainer.n_gpus_per_node");
  size(trainer.ranks_per_gpu, "trainer.ranks_per_gpu");
  for (const Role& role : roles(config)) check_model_parallel(role, findings);
  check_reference_layout(config, findings);

  check_world(config, findings);

  const LayoutRule rule = layout_rule(config);
  const parallel::AxisSizes& sizes = rule.sizes;
  const bool axes_ok = std::max({sizes.tp, sizes.pp, sizes.cp}) <= kMaxAxis &&
                       std::min({sizes.world, sizes.tp, sizes.pp, sizes.cp}) >= 1 &&
                       sizes.world <= kMaxCount;
  if (axes_ok) check_divisible(rule, findings);
}

Findings::Keys world_keys() {
  return {"trainer.nnodes", "trainer.n_gpus_per_node", "trainer.ranks_per_gpu"};
}

Findings::Keys layout_keys() {
  Findings::Keys keys = world_keys();
  for (const char* axis : {"tensor_model", "pipeline_model", "context"}) {
    keys.push_back("actor_rollout_ref.actor.megatron." + std::string(axis) + "_parallel_size");
  }
  return keys;
}

LayoutRule layout_rule(const TrainConfig& config) {
  const MegatronConfig& m = config.actor_rollout_ref.actor.megatron;
  return {.sizes = {.world = config.world_size(),
                    .tp = m.tensor_model_parallel_size,
                    .pp = m.pipeline_model_parallel_size,
                    .cp = m.context_parallel_size},
          .ranks_beside_gpus = config.trainer.nnodes * config.trainer.ranks_per_gpu,
          .dynamic = m.dynamic_context_parallel,
          .tp_sizes = tp_sizes(config)};
}

namespace {

/// "6 = a = 2 (override 1) x b = 3 (override 2)": of the factors, those that somebody may have
/// meant.
std::string product_text(int64_t product, const std::vector<std::string>& keys,
                         const Findings& findings) {
  std::string text;
  for (const std::string& key : keys) {
    const config::Node* node = findings.tree().find(key);
    const int64_t* value = node == nullptr ? nullptr : node->get_if<int64_t>();
    if (value != nullptr && *value == 1 && keys.size() > 1) continue;
    text += (text.empty() ? " = " : " x ") + findings.about(key);
  }
  return std::to_string(product) + text;
}

bool takes(const LayoutRule& rule, const parallel::AxisSizes& sizes) {
  const bool tp_ok = rule.tp_sizes.empty() || std::find(rule.tp_sizes.begin(), rule.tp_sizes.end(),
                                                        sizes.tp) != rule.tp_sizes.end();
  return tp_ok && sizes.world % (sizes.tp * sizes.pp * sizes.cp) == 0 &&
         (!rule.dynamic || (sizes.world / (sizes.tp * sizes.pp)) % 2 == 0);
}

}  // namespace

std::string world_text(int64_t world, const Findings& findings) {
  const std::vector<std::string> keys = world_keys();
  return product_text(world, world == 1 ? std::vector{keys[1]} : keys, findings);
}

std::string nearest_sizes(const LayoutRule& rule) {
  std::vector<std::string> ways;
  const auto way = [&](const std::string& name, const std::string& sizes) {
    if (!sizes.empty()) ways.push_back(name + " " + sizes);
  };
  const int64_t model = rule.sizes.tp * rule.sizes.pp;
  const int64_t step =
      rule.dynamic ? std::lcm(model * rule.sizes.cp, 2 * model) : model * rule.sizes.cp;
  parallel::AxisSizes whole = rule.sizes;
  whole.world = step;
  if (takes(rule, whole)) {
    const int64_t gpus = rule.sizes.world / rule.ranks_beside_gpus;
    way("trainer.n_gpus_per_node",
        nearest_multiples(gpus, step / std::gcd(step, rule.ranks_beside_gpus)));
  }
  const auto axis = [&](const std::string& name, int64_t parallel::AxisSizes::*size) {
    const auto fits = [&](int64_t value) {
      parallel::AxisSizes sizes = rule.sizes;
      sizes.*size = value;
      return takes(rule, sizes);
    };
    way(name, nearest_divisors(rule.sizes.*size, rule.sizes.world, fits));
  };
  axis("context_parallel_size", &parallel::AxisSizes::cp);
  axis("tensor_model_parallel_size", &parallel::AxisSizes::tp);
  std::string text;
  for (const std::string& one : ways) text += (text.empty() ? "; nearest valid: " : ", or ") + one;
  return text;
}

void check_divisible(const LayoutRule& rule, Findings& findings) {
  const std::string key = "actor_rollout_ref.actor.megatron.";
  const parallel::AxisSizes& sizes = rule.sizes;
  const int64_t model = sizes.tp * sizes.pp;
  if (sizes.world % (model * sizes.cp) == 0) return;
  findings.add_text(
      "n_gpus (" + world_text(sizes.world, findings) +
          ") must be divisible by model_parallel_size times context_parallel_size (" +
          product_text(model * sizes.cp,
                       {key + "tensor_model_parallel_size", key + "pipeline_model_parallel_size",
                        key + "context_parallel_size"},
                       findings) +
          ")" + nearest_sizes(rule),
      layout_keys());
}

}  // namespace verlcpp::train
