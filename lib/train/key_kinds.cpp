#include "train/key_kinds.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "config/compose.h"
#include "config/embedded.h"
#include "train/train_config.h"

namespace verlcpp::train {
namespace {

constexpr std::string_view kAnyGroup = "**.", kAllBelow = ".**";

std::string_view take_name(std::string_view& path) {
  const size_t dot = std::min(path.find('.'), path.size());
  const std::string_view name = path.substr(0, dot);
  path.remove_prefix(std::min(dot + 1, path.size()));
  return name;
}

bool name_matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t skipped = star; skipped <= name.size(); ++skipped) {
    if (name_matches(rest, name.substr(skipped))) return true;
  }
  return false;
}

/// `below`: also the keys below what `pattern` names.
bool path_matches(std::string_view pattern, std::string_view key, bool below) {
  while (!pattern.empty()) {
    if (key.empty() || !name_matches(take_name(pattern), take_name(key))) return false;
  }
  return below || key.empty();
}

enum class Rank { kEnding, kExact, kSubtree };

Rank rank_of(std::string_view pattern) {
  if (pattern.starts_with(kAnyGroup)) return Rank::kEnding;
  return pattern.ends_with(kAllBelow) ? Rank::kSubtree : Rank::kExact;
}

bool matches(std::string_view pattern, std::string_view key) {
  switch (rank_of(pattern)) {
    case Rank::kEnding:
      return key.ends_with(pattern.substr(kAnyGroup.size() - 1));
    case Rank::kExact:
      return path_matches(pattern, key, false);
    case Rank::kSubtree:
      pattern.remove_suffix(kAllBelow.size());
      return path_matches(pattern, key, true);
  }
  return false;
}

std::vector<KeyAnswer> answers_of_rank(Rank rank, const std::string& key) {
  std::vector<KeyAnswer> answers;
  for (const KeyRule& rule : key_rules()) {
    if (rank_of(rule.pattern) != rank || !matches(rule.pattern, key)) continue;
    answers.push_back({rule.kind, rule.reason});
  }
  return answers;
}

/// Whether a shipped key is where it belongs: whole groups can be put elsewhere.
bool is_in_place(const std::string& key) {
  static const std::set<std::string_view> plain = [] {
    std::set<std::string_view> patterns;  // most keys are here, which saves the search for a match
    for (const KeyRule& rule : key_rules()) {
      if (std::string_view(rule.pattern).find('*') == std::string_view::npos) {
        patterns.insert(rule.pattern);
      }
    }
    return patterns;
  }();
  return plain.contains(key) || !answers_about(key).empty();
}

/// Whether somebody set a key that no struct reads, or put a group where it is not read.
bool sets_unread(const config::Node& node, const std::string& key) {
  if (!node.is_map() || node.items().empty()) {
    const bool read = is_bound(key);
    return !read && (!is_shipped(node.origin()) || !is_in_place(key));
  }
  return std::any_of(node.items().begin(), node.items().end(), [&](const auto& item) {
    if (item.first.empty() || item.first.find('.') != std::string::npos) return true;
    return sets_unread(item.second, key.empty() ? item.first : key + "." + item.first);
  });
}

/// Nobody set it, nor a key below it.
bool is_untouched(const config::Node& node) {
  if (!is_shipped(node.origin())) return false;
  if (!node.is_map()) return true;
  return std::all_of(node.items().begin(), node.items().end(),
                     [](const auto& item) { return is_untouched(item.second); });
}

}  // namespace

bool is_member(const std::string& key) {
  static const std::vector<std::string> list = config::key_list<TrainConfig>();
  static const std::set<std::string> members(list.begin(), list.end());
  return members.contains(key);
}

bool is_bound(const std::string& key) {
  for (size_t end = key.size(); end != std::string::npos && end > 0;
       end = key.rfind('.', end - 1)) {
    if (is_member(key.substr(0, end))) return true;
  }
  return false;
}

std::vector<KeyAnswer> answers_about(const std::string& key) {
  for (const Rank rank : {Rank::kEnding, Rank::kExact}) {
    if (const auto answers = answers_of_rank(rank, key); !answers.empty()) return answers;
  }
  if (is_bound(key)) return {{KeyKind::kHonoured, ""}};
  return answers_of_rank(Rank::kSubtree, key);
}

const config::Node& shipped_tree() {
  static const config::Node tree =
      config::compose(
          {.search_path = {config::embedded()}, .config_name = "ppo_trainer", .overrides = {}})
          .tree;
  return tree;
}

const config::Node& shipped_values() {
  static const config::Node values = config::resolve(shipped_tree());
  return values;
}

config::KnownKeys known_keys(const config::Node& tree) {
  // Composing the shipped tree takes as long as composing the run's: only where it can matter.
  return {.tree = sets_unread(tree, "") ? &shipped_tree() : &tree,
          .free = {"actor_rollout_ref.rollout.engine_kwargs",
                   "critic.megatron.override_transformer_config", "distillation.teacher_models",
                   "ray_kwargs.ray_init", "ray_kwargs.ray_init.runtime_env",
                   "global_profiler.global_tool_config.nsys.controller_nsight_options",
                   "global_profiler.global_tool_config.nsys.worker_nsight_options",
                   "transfer_queue.backend"},
          // Fields of verl's structs that its files do not list.
          .more = {"actor_rollout_ref.rollout.moe_tensor_parallel_size",
                   "actor_rollout_ref.rollout.limit_images",
                   "actor_rollout_ref.rollout.enable_sleep_mode",
                   "actor_rollout_ref.rollout.repetition_penalty",
                   "actor_rollout_ref.model.lora.fully_sharded_loras"},
          .old_keys = old_keys(),
          .own_roots = true,
          .is_read = is_read,
          .follows = follows_another};
}

bool is_read(const std::string& key) {
  const std::vector<KeyAnswer> answers = answers_about(key);
  if (answers.empty() || answers[0].kind != KeyKind::kHonoured) return false;
  constexpr std::string_view kRewards = "reward.reward_kwargs.";
  if (key.starts_with(kRewards)) {
    const std::string name = key.substr(kRewards.size());
    return name == "max_resp_len" || name.starts_with("overlong_buffer_cfg");
  }
  constexpr std::string_view kGroup = ".override_transformer_config.";
  const size_t at = key.find(kGroup);
  if (at == std::string::npos) return true;
  const auto& read = read_transformer_overrides();
  return std::find(read.begin(), read.end(), key.substr(at + kGroup.size())) != read.end();
}

bool follows_another(const std::string& key) {
  for (size_t end = key.size(); end != std::string::npos && end > 0;
       end = key.rfind('.', end - 1)) {
    const config::Node* node = shipped_tree().find(std::string_view(key).substr(0, end));
    if (node != nullptr) return node->get_if<config::Interpolation>() != nullptr;
  }
  return false;
}

void apply_moved_keys(config::Node& tree) {
  for (const KeyRule& rule : key_rules()) {
    if (rule.kind != KeyKind::kMoved) continue;
    const config::Node* from = tree.find(rule.pattern);
    const config::Node* to = tree.find(rule.reason);
    if (from == nullptr || from->is_null() || to == nullptr || !is_untouched(*to)) continue;
    tree.set(rule.reason, config::Node(*from));
  }
}

}  // namespace verlcpp::train
