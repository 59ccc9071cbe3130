#include <fmt/format.h>

#include <algorithm>

#include "config/override.h"
#include "model/tp_shard.h"
#include "train/selftest_layout.h"

// The layouts that --selftest-layout runs, as overrides of the user's configuration.

namespace verlcpp::train {
namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kActor = kA + "actor.";
const std::string kMegatron = kActor + "megatron.";
const std::string kSmallestGroup = "override_transformer_config.min_dynamic_context_parallel_size";
constexpr int64_t kUsualRanks = 8;

/// A layout by its sizes.
struct Sizes {
  int64_t tp = 1, cp = 1, dp = 1;
  int64_t dcp_limit = 0;          // tokens a rank; 0: static
  int64_t micro_batch_size = 0;   // samples; 0: by tokens
  int64_t token_budget = 1;       // a GPU
  bool sequence_parallel = true;  // with tp > 1
  bool zero1 = true;
};

std::string on_off(bool value) { return value ? "True" : "False"; }

/// "TP 2 (no SP), DCP on 4, limit 22".
std::string name_of(const Sizes& s) {
  std::string name =
      s.tp > 1 ? fmt::format("TP {}{}, ", s.tp, s.sequence_parallel ? "" : " (no SP)") : "";
  if (s.dcp_limit > 0) {
    name += fmt::format("DCP on {}, limit {}", s.dp, s.dcp_limit);
  } else {
    name += fmt::format("DP {} CP {}", s.dp, s.cp);
  }
  if (s.micro_batch_size > 0) name += fmt::format(", micro-batches of {}", s.micro_batch_size);
  return name + (s.zero1 ? "" : ", no ZeRO-1");
}

std::vector<std::string> overrides_of(const Sizes& s) {
  std::vector<std::string> out{"trainer.nnodes=1",
                               fmt::format("trainer.n_gpus_per_node={}", s.tp * s.cp * s.dp),
                               "trainer.ranks_per_gpu=1",
                               fmt::format("{}tensor_model_parallel_size={}", kMegatron, s.tp),
                               fmt::format("{}context_parallel_size={}", kMegatron, s.cp),
                               kMegatron + "dynamic_context_parallel=" + on_off(s.dcp_limit > 0),
                               kMegatron + "use_distributed_optimizer=" + on_off(s.zero1)};
  if (s.tp > 1) out.push_back(kMegatron + "sequence_parallel=" + on_off(s.sequence_parallel));
  if (s.dcp_limit > 0) {
    out.push_back(fmt::format("{}max_seqlen_per_dp_cp_rank={}", kMegatron, s.dcp_limit));
    out.push_back(kMegatron + kSmallestGroup + "=null");
  } else if (s.micro_batch_size > 0) {
    out.push_back(kActor + "use_dynamic_bsz=False");
    out.push_back(fmt::format("{}ppo_micro_batch_size_per_gpu={}", kActor, s.micro_batch_size));
  } else {
    out.push_back(kActor + "use_dynamic_bsz=True");
    out.push_back(fmt::format("{}ppo_max_token_len_per_gpu={}", kActor, s.token_budget));
  }
  return out;
}

/// verl's interpolations: what else follows an actor's key where the user has not set it. Here
/// everything follows, since all passes share the layout.
std::vector<std::string> followers(const std::string& key) {
  if (key.starts_with(kMegatron)) {
    return {kA + "ref.megatron." + key.substr(kMegatron.size())};
  }
  const std::string field = key.substr(key.rfind('.') + 1);
  const std::string log_prob = field == "use_dynamic_bsz"  ? "log_prob_use_dynamic_bsz"
                               : field.starts_with("ppo_") ? "log_prob_" + field.substr(4)
                                                           : "";
  if (!key.starts_with(kActor) || log_prob.empty()) return {};
  return {kA + "rollout." + log_prob, kA + "ref." + log_prob};
}

bool has_value(const config::Node& tree, const std::string& key, const config::Node& value) {
  const config::Node* node = tree.find(key);
  if (node == nullptr) return value.is_null();
  return config::same_values(*node, value);
}

/// The user's configuration in that layout, with the overrides that change it.
SelftestLayout make_layout(config::Node tree, const Sizes& sizes) {
  SelftestLayout layout{.name = name_of(sizes), .overrides = {}, .config = {}};
  int number = 0;
  for (const std::string& text : overrides_of(sizes)) {
    const config::Override o = config::parse_override(text, ++number);
    if (!has_value(tree, o.key, *o.value)) {
      layout.overrides.push_back(text);
      tree.set(o.key, *o.value);
    }
    for (const std::string& key : followers(o.key)) tree.set(key, *o.value);
  }
  layout.config = bind_train_config(tree);
  return layout;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::vector<Sizes> static_sizes(int64_t ranks, int64_t longest) {
  std::vector<Sizes> all{{.micro_batch_size = 1}};
  const auto add = [&](Sizes s) {
    s.token_budget = longest;
    if (s.tp * s.cp * s.dp <= ranks) all.push_back(s);
  };
  for (int64_t n = 2; n <= std::min(ranks, kUsualRanks); n *= 2) {
    add({.tp = n});
    add({.cp = n});
    add({.dp = n});
  }
  add({.cp = 3});
  add({.tp = 2, .sequence_parallel = false});
  add({.dp = 2, .zero1 = false});
  add({.cp = 2, .dp = 2});
  add({.tp = 2, .cp = 2});
  add({.tp = 2, .cp = 2, .dp = 2});
  add({.tp = 4, .dp = 2, .sequence_parallel = false, .zero1 = false});
  return all;
}

std::vector<Sizes> dynamic_sizes(int64_t ranks, int64_t longest) {
  std::vector<Sizes> all;
  const auto add = [&](int64_t tp, int64_t pool, int64_t longest_group, bool zero1) {
    if (tp * pool > ranks) return;
    all.push_back(
        {.tp = tp, .dp = pool, .dcp_limit = ceil_div(longest, longest_group), .zero1 = zero1});
  };
  for (int64_t pool = 2; pool <= std::min(ranks, kUsualRanks); pool += 2) {
    add(1, pool, pool, true);
  }
  add(1, 4, 2, true);
  add(1, 4, 4, false);
  add(2, 2, 2, true);
  add(2, 4, 4, true);
  if (ranks > kUsualRanks) add(1, ranks / 2 * 2, ranks / 2 * 2, true);
  return all;
}

}  // namespace

TrainConfig selftest_one_rank(const config::Node& resolved_tree, int64_t tokens) {
  return make_layout(resolved_tree, {.token_budget = tokens}).config;
}

std::vector<SelftestLayout> selftest_layouts(const config::Node& resolved_tree,
                                             const model::ModelConfig& model, int64_t longest,
                                             std::vector<std::string>& skipped) {
  config::Node own = resolved_tree;
  std::vector<SelftestLayout> layouts{
      {.name = "your own", .overrides = {}, .config = bind_train_config(own)}};
  const int64_t ranks = std::max(kUsualRanks, layouts.front().config.world_size());
  std::vector<Sizes> all = static_sizes(ranks, longest);
  for (const Sizes& s : dynamic_sizes(ranks, longest)) all.push_back(s);
  for (const Sizes& s : all) {
    const std::string complaint = model::tp_complaint(model, s.tp);
    if (complaint.empty()) {
      layouts.push_back(make_layout(resolved_tree, s));
      continue;
    }
    const std::string line =
        fmt::format("{}tensor_model_parallel_size={}: {}", kMegatron, s.tp, complaint);
    if (std::find(skipped.begin(), skipped.end(), line) == skipped.end()) skipped.push_back(line);
  }
  return layouts;
}

}  // namespace verlcpp::train
