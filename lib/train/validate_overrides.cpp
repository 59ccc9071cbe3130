#include <map>
#include <string>
#include <vector>

#include "train/validate_checks.h"

// Names below Megatron's override_transformer_config that nothing reads: the map is free-form.

namespace verlcpp::train {
namespace {

constexpr const char* kOverride = "override_transformer_config";

/// Fields of Megatron's TransformerConfig that make another model, with the values that make ours.
const std::map<std::string, std::vector<std::string>>& of_the_model() {
  static const std::map<std::string, std::vector<std::string>> names = {
      {"activation_func", {}},
      {"add_bias_linear", {"False"}},
      {"add_qkv_bias", {}},
      {"apply_query_key_layer_scaling", {"False"}},
      {"apply_residual_connection_post_layernorm", {"False"}},
      {"attention_dropout", {"0", "0.0"}},
      {"ffn_hidden_size", {}},
      {"fp32_residual_connection", {"False"}},
      {"gated_linear_unit", {"True"}},
      {"hidden_dropout", {"0", "0.0"}},
      {"hidden_size", {}},
      {"kv_channels", {}},
      {"layernorm_epsilon", {}},
      {"layernorm_zero_centered_gamma", {"False"}},
      {"multi_latent_attention", {"False"}},
      {"normalization", {"'RMSNorm'"}},
      {"num_attention_heads", {}},
      {"num_layers", {}},
      {"num_moe_experts", {"null"}},
      {"num_query_groups", {}},
      {"qk_layernorm", {}},
      {"rotary_base", {}},
      {"rotary_interleaved", {"False"}},
      {"rotary_percent", {"1.0", "1"}},
      {"softmax_scale", {"null"}},
      {"swiglu", {"True"}},
      {"window_size", {"null"}}};
  return names;
}

}  // namespace

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
      findings.add(key,
                   "would make another model and is not read; leave it out "
                   "(actor_rollout_ref.model.override_config changes config.json)");
      continue;
    }
    const bool of_experts = name.starts_with("moe_");
    const std::string near = of_experts ? "" : config::nearest_name(name, read);
    findings.warn(findings.about(key) + " has no effect" +
                  (of_experts     ? ": it is of mixture-of-experts models"
                   : near.empty() ? ""
                                  : "; did you mean " + near + "?"));
  }
}

}  // namespace verlcpp::train
