#include <map>
#include <set>
#include <string>
#include <vector>

#include "train/validate_checks.h"

// Names below Megatron's override_transformer_config and the model's override_config that nothing
// reads: the maps are free-form.

namespace verlcpp::train {
namespace {

constexpr const char* kOverride = "override_transformer_config";

/// Fields of Megatron's TransformerConfig that make another model, with the values that make ours.
const std::map<std::string, std::vector<std::string>>& of_the_model() {
  static const std::map<std::string, std::vector<std::string>> names = {
      {"activation_func", {}},
      {"activation_func_clamp_value", {"null"}},
      {"add_bias_linear", {"False"}},
      {"add_qkv_bias", {}},
      {"apply_query_key_layer_scaling", {"False"}},
      {"apply_residual_connection_post_layernorm", {"False"}},
      {"attention_dropout", {"0", "0.0"}},
      {"attention_output_gate", {"False"}},
      {"experimental_attention_variant", {"null"}},
      {"ffn_hidden_size", {}},
      {"fp4", {"null"}},
      {"fp32_residual_connection", {"False"}},
      {"gated_linear_unit", {"True"}},
      {"glu_linear_offset", {"0", "0.0"}},
      {"hidden_dropout", {"0", "0.0"}},
      {"hidden_size", {}},
      {"kv_channels", {}},
      {"layernorm_epsilon", {}},
      {"layernorm_zero_centered_gamma", {"False"}},
      {"mtp_num_layers", {"null", "0"}},
      {"multi_latent_attention", {"False"}},
      {"no_rope_freq", {"null"}},
      {"normalization", {"'RMSNorm'"}},
      {"num_attention_heads", {}},
      {"num_layers", {}},
      {"num_moe_experts", {"null"}},
      {"num_query_groups", {}},
      {"position_embedding_type", {"'rope'"}},
      {"qk_clip", {"False"}},
      {"qk_l2_norm", {"False"}},
      {"qk_layernorm", {}},
      {"rotary_base", {}},
      {"rotary_interleaved", {"False"}},
      {"rotary_percent", {"1.0", "1"}},
      {"rotary_scaling_factor", {}},
      {"softmax_scale", {"null"}},
      {"softmax_type", {"'vanilla'"}},
      {"swiglu", {"True"}},
      {"window_attn_skip_freq", {"null"}},
      {"window_size", {"null"}}};
  return names;
}

/// "; did you mean rope_theta?"; "" when no candidate is near.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string near = config::nearest_name(name, candidates);
  return near.empty() ? "" : "; did you mean " + near + "?";
}

/// The names of `read` right below `prefix` ("" or "rope_scaling.").
std::vector<std::string> names_below(const std::string& prefix, const std::set<std::string>& read) {
  std::vector<std::string> names;
  for (const std::string& name : read) {
    if (!name.starts_with(prefix)) continue;
    const std::string rest = name.substr(prefix.size());
    if (rest.find('.') == std::string::npos) names.push_back(rest);
  }
  return names;
}

/// `key`: of `map`, in the tree; `prefix`: of its names in `read`.
void warn_of_unread(const config::Node& map, const std::string& key, const std::string& prefix,
                    const std::set<std::string>& read, Findings& findings) {
  const std::vector<std::string> known = names_below(prefix, read);
  for (const auto& [name, value] : map.items()) {
    if (!contains(known, name)) {
      findings.warn(findings.about(key + "." + name) +
                    ": nothing here reads it, it only goes into the config.json of exports" +
                    did_you_mean(name, known));
    } else if (value.is_map()) {
      warn_of_unread(value, key + "." + name, prefix + name + ".", read, findings);
    }
  }
}

}  // namespace

void check_unread_model_overrides(const ModelSection& model, const std::set<std::string>& read,
                                  Findings& findings) {
  const std::string key = "actor_rollout_ref.model.override_config";
  const config::Node& all = model.override_config;
  if (!all.is_map()) return;
  const config::Node* group = all.find("model_config");
  if (group == nullptr) return warn_of_unread(all, key, "", read, findings);
  if (group->is_map()) warn_of_unread(*group, key + ".model_config", "", read, findings);
  for (const auto& [name, value] : all.items()) {
    if (name == "model_config") continue;
    findings.warn(findings.about(key + "." + name) +
                  " has no effect: model_config stands beside it");
  }
}

void check_unread_overrides(const Role& role, Findings& findings) {
  const std::vector<std::string>& read = read_transformer_overrides();
  const config::Node& overrides = role.megatron->override_transformer_config;
  if (!overrides.is_map()) return;
  for (const auto& [name, value] : overrides.items()) {
    const std::string field = std::string(kOverride) + "." + name;
    const std::string key = role.key + "." + field;
    if (contains(read, name) || inherited(findings, role, field)) continue;
    const auto model = of_the_model().find(name);
    if (model != of_the_model().end()) {
      if (contains(model->second, config::to_inline(value))) continue;
      const std::string valid = model->second.empty()
                                    ? ""
                                    : (model->second.size() > 1 ? "must be one of " : "must be ") +
                                          join(model->second) + "; or ";
      findings.add(key, "is not what this build computes; " + valid +
                            "leave it out (what config.json says of the model counts, with "
                            "actor_rollout_ref.model.override_config on top)");
      continue;
    }
    const bool is_plain = config::is_plain_name(name);
    const config::Node* own = is_plain ? findings.tree().find(role.key + "." + name) : nullptr;
    if (own != nullptr && !own->is_map()) {
      if (!config::same_values(*own, value)) {
        findings.add(key, "differs from " + findings.about(role.key + "." + name) +
                              ", which is the one that counts; set that and leave this out");
      }
      continue;
    }
    findings.warn(findings.about(key) + " has no effect" +
                  (name.starts_with("moe_") ? ": it is of mixture-of-experts models"
                                            : did_you_mean(name, read)));
  }
}

}  // namespace verlcpp::train
