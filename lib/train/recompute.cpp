#include "train/recompute.h"

#include <algorithm>

namespace verlcpp::train {
namespace {

/// The override's value as it prints; "null" when absent.
std::string value_of(const MegatronConfig& megatron, const std::string& name) {
  const config::Node* node = transformer_override(megatron, name);
  if (node == nullptr) return "null";
  const auto* text = node->get_if<std::string>();
  return text != nullptr ? *text : config::to_inline(*node);
}

int64_t num_layers(const MegatronConfig& megatron) {
  const config::Node* node = transformer_override(megatron, "recompute_num_layers");
  const int64_t* value = node == nullptr ? nullptr : node->get_if<int64_t>();
  return value == nullptr ? 0 : *value;
}

}  // namespace

std::vector<model::Recompute> recompute_policy(const MegatronConfig& megatron, int64_t layers) {
  const auto n = static_cast<size_t>(layers);
  const std::string granularity = value_of(megatron, "recompute_granularity");
  if (granularity == "null") return {};
  if (granularity == "selective") return std::vector(n, model::Recompute::kSelective);
  std::vector policy(n, model::Recompute::kFull);
  if (value_of(megatron, "recompute_method") == "block") {
    const auto first = std::min(n, static_cast<size_t>(num_layers(megatron)));
    std::fill(policy.begin() + static_cast<std::ptrdiff_t>(first), policy.end(),
              model::Recompute::kNone);
  }
  return policy;
}

std::string recompute_problem(const MegatronConfig& megatron) {
  const std::string granularity = value_of(megatron, "recompute_granularity");
  if (granularity == "null") return "";
  if (granularity == "selective") {
    const std::string modules = value_of(megatron, "recompute_modules");
    if (modules == "null" || modules == "[core_attn]") return "";
    return "recompute_modules: selective recompute of " + modules +
           " is not implemented; must be [core_attn]";
  }
  if (granularity != "full")
    return "recompute_granularity: must be null, selective or full (which needs recompute_method, "
           "uniform or block, and recompute_num_layers)";
  const std::string method = value_of(megatron, "recompute_method");
  if (method != "uniform" && method != "block") {
    return std::string(
               "recompute_method: must be uniform or block when recompute_granularity is "
               "full") +
           (num_layers(megatron) >= 1 ? "" : ", and recompute_num_layers a positive integer");
  }
  if (num_layers(megatron) >= 1) return "";
  return "recompute_num_layers: must be a positive integer when recompute_granularity is full";
}

}  // namespace verlcpp::train
