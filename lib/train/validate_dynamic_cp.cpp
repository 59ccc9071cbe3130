#include <string>
#include <vector>

#include "train/engine.h"
#include "train/recompute.h"
#include "train/validate_checks.h"

// verl: McoreEngineConfig and _check_dcp_unsupported_features.

namespace verlcpp::train {
namespace {

constexpr const char* kOverride = "override_transformer_config";
constexpr const char* kValidCpCommType =
    "must be p2p (a ring) or all_gather; a2a, a2a+p2p and one type for each layer are not "
    "implemented";

/// Anything but null and false.
bool switched_on(const config::Node* node) {
  if (node == nullptr) return false;
  const bool* value = node->get_if<bool>();
  return value == nullptr || *value;
}

void check_router_replay(const Role& role, Findings& findings) {
  const MegatronConfig& m = *role.megatron;
  const std::string key = role.key + ".router_replay.mode";
  const std::string& mode = m.router_replay.mode;
  if (mode == "disabled" || inherited(findings, role, "router_replay.mode")) return;
  if (mode != "R2" && mode != "R3") {
    findings.add(key, "Invalid router_replay mode: " + mode + "; must be disabled, R2 or R3");
    return;
  }
  if (m.dynamic_context_parallel && switched_on(transformer_override(m, "moe_router_fusion"))) {
    findings.add(role.key + "." + kOverride + ".moe_router_fusion",
                 "Dynamic CP router replay requires moe_router_fusion=False");
  }
  findings.add(key,
               "router replay needs a mixture-of-experts model, which is not implemented; "
               "must be disabled");
}

/// verl: dynamic CP requires it. Static CP packs in any case, to the same numbers: no effect.
void check_packing(bool packs, bool dynamic, const std::string& key, Findings& findings) {
  findings.require(packs || !dynamic, key,
                   "Dynamic CP requires use_remove_padding=True; must be True");
}

/// What neither static nor dynamic CP runs here.
void check_megatron_features(const Role& role, Findings& findings) {
  const MegatronConfig& m = *role.megatron;
  const bool dynamic = m.dynamic_context_parallel;
  const auto require = [&](bool ok, const std::string& field, const std::string& text) {
    if (!ok && !inherited(findings, role, field)) findings.add(role.key + "." + field, text);
  };
  if (!inherited(findings, role, "use_remove_padding")) {
    check_packing(m.use_remove_padding, dynamic, role.key + ".use_remove_padding", findings);
  }
  require(!m.pad_to_length, "pad_to_length",
          unsupported(dynamic, "pad_to_length") + "; must be False");
  require(m.virtual_pipeline_model_parallel_size.value_or(1) == 1,
          "virtual_pipeline_model_parallel_size",
          unsupported(dynamic, "virtual pipeline parallelism") + "; must be null or 1");
  require(!switched_on(transformer_override(m, "fp8")), std::string(kOverride) + ".fp8",
          unsupported(dynamic, "FP8") + "; must be null or False");
  const config::Node* mode = transformer_override(m, "deterministic_mode");
  require(mode == nullptr || mode->get_if<bool>() != nullptr,
          std::string(kOverride) + ".deterministic_mode", "must be True, False or null");
  const config::Node& overrides = m.override_transformer_config;
  require(overrides.is_map() || overrides.is_null(), kOverride, "must be a group of keys");
  check_router_replay(role, findings);
  const std::string comm_type = std::string(kOverride) + ".cp_comm_type";
  require(cp_comm_type(m).has_value(), comm_type, kValidCpCommType);
  if (const std::string problem = recompute_problem(m); !problem.empty() && role.name == "actor") {
    const size_t colon = problem.find(": ");
    findings.add(role.key + "." + kOverride + "." + problem.substr(0, colon),
                 problem.substr(colon + 2));
  }
  check_unread_overrides(role, findings);
}

}  // namespace

std::string unsupported(bool dynamic, const std::string& what) {
  return dynamic ? "Dynamic CP does not support " + what + ", nor does static CP here"
                 : what + " is not implemented";
}

std::string language_models_only(bool dynamic, const std::string& what) {
  return (dynamic ? "Dynamic CP currently supports language models only, and without it, too, "
                  : "") +
         what + " is not implemented";
}

void check_dcp_limit(Findings& findings, const std::string& megatron_key,
                     const config::Node& limit) {
  if (is_positive_int(limit)) return;
  const auto* text = limit.get_if<std::string>();
  const bool quoted = text != nullptr && !text->empty() &&
                      text->find_first_not_of("0123456789") == std::string::npos;
  findings.add(megatron_key + ".max_seqlen_per_dp_cp_rank",
               std::string("max_seqlen_per_dp_cp_rank must be a positive integer when "
                           "dynamic_context_parallel is enabled") +
                   (quoted ? ", without quotes" : ""));
}

void check_dcp_pool(Findings& findings, const std::string& megatron_key, const LayoutRule& rule) {
  const int64_t pool = rule.sizes.pool();
  if (pool >= 2 && pool % 2 == 0) return;
  const std::string sizes = nearest_sizes(rule);
  findings.add(
      megatron_key + ".dynamic_context_parallel",
      "Dynamic CP requires the DPxCP world size to be an even integer of at least two, got "
      "DPxCP=" +
          std::to_string(pool) + ". n_gpus is " + world_text(rule.sizes.world, findings) + sizes +
          (sizes.empty() ? "; must be False" : ""),
      layout_keys());
}

void check_dcp_scheduler(Findings& findings, const std::string& megatron_key,
                         const std::string& scheduler) {
  if (scheduler == kDefaultScheduler || scheduler == kBalancedScheduler) return;
  findings.add(megatron_key + ".dynamic_cp_scheduler",
               "must be default (Megatron-Core's) or balanced (by the cost model)");
}

std::string scheduler_warning(const Findings& findings, const std::string& megatron_key,
                              const std::string& scheduler, bool dynamic, bool measured) {
  if (scheduler != kBalancedScheduler) return "";
  const std::string about = findings.about(megatron_key + ".dynamic_cp_scheduler");
  if (!dynamic) return about + " has no effect: dynamic_context_parallel is off";
  if (measured) return "";
  return about +
         " without dynamic_cp_cost_model balances by verl's workload, which charges "
         "nothing for a micro-batch or a group; --calibrate measures what they cost";
}

void check_min_cp(Findings& findings, const std::string& megatron_key, const config::Node& min_cp,
                  int64_t pool) {
  if (min_cp.is_null()) return;
  if (is_positive_int(min_cp) && *min_cp.get_if<int64_t>() <= pool) return;
  findings.add(megatron_key + "." + kOverride + ".min_dynamic_context_parallel_size",
               "min_dynamic_context_parallel_size must be a positive integer of at most the DPxCP "
               "world size " +
                   std::to_string(pool),
               layout_keys());
}

void check_dynamic_cp(const TrainConfig& config, Findings& findings) {
  const std::optional<parallel::AxisSizes> sizes = axis_sizes(config);
  const LayoutRule layout = layout_rule(config);
  for (const Role& role : roles(config)) {
    const MegatronConfig& m = *role.megatron;
    if (!m.costs_problem.empty() && !inherited(findings, role, "dynamic_cp_cost_model")) {
      findings.add_text(m.costs_problem);
    }
    if (!inherited(findings, role, "dynamic_cp_scheduler")) {
      check_dcp_scheduler(findings, role.key, m.dynamic_cp_scheduler);
    }
    if (!m.dynamic_context_parallel) continue;
    if (!inherited(findings, role, "max_seqlen_per_dp_cp_rank") ||
        !config.actor_rollout_ref.actor.megatron.dynamic_context_parallel) {
      check_dcp_limit(findings, role.key, m.max_seqlen_per_dp_cp_rank);
      const int64_t* limit = m.max_seqlen_per_dp_cp_rank.get_if<int64_t>();
      findings.require(limit == nullptr || *limit <= kMaxCount,
                       role.key + ".max_seqlen_per_dp_cp_rank", kValidCount);
    }
    if (!sizes) continue;
    if (!inherited(findings, role, "dynamic_context_parallel")) {
      check_dcp_pool(findings, role.key, layout);
    }
    const config::Node* min_cp = transformer_override(m, "min_dynamic_context_parallel_size");
    if (min_cp != nullptr &&
        !inherited(findings, role, std::string(kOverride) + ".min_dynamic_context_parallel_size")) {
      check_min_cp(findings, role.key, *min_cp, sizes->pool());
    }
  }
}

void check_features(const TrainConfig& config, Findings& findings) {
  const bool dynamic = config.actor_rollout_ref.actor.megatron.dynamic_context_parallel;
  for (const Role& role : roles(config)) check_megatron_features(role, findings);
  check_packing(config.actor_rollout_ref.model.use_remove_padding, dynamic,
                "actor_rollout_ref.model.use_remove_padding", findings);
  const config::Node& of_model = config.actor_rollout_ref.model.override_config;
  findings.require(of_model.is_map() || of_model.is_null(),
                   "actor_rollout_ref.model.override_config", "must be a group of keys");
  findings.require(!config.distillation.enabled, "distillation.enabled",
                   unsupported(dynamic, "distillation") + "; must be False");
  findings.require(
      !config.critic.enable.value_or(false), "critic.enable",
      language_models_only(dynamic, "a value model (critic)") + "; must be null or False");
}

}  // namespace verlcpp::train
