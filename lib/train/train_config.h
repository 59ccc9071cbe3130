#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/key_history.h"
#include "config/tree.h"
#include "train/actor_rollout_ref_config.h"
#include "train/data_config.h"
#include "train/megatron_config.h"
#include "train/reward_config.h"
#include "train/trainer_config.h"

// The typed configuration: one struct per block of verl's tree, with verl's keys, the larger blocks
// in headers of their own. Each struct lists its fields once, in `fields`. Defaults live in conf/,
// not here.

namespace verlcpp::train {

/// The largest parallel size, above any cluster: keeps a product of three inside 64 bits.
inline constexpr int64_t kMaxAxis = 1 << 20;
/// The largest world: a plan of it has room in memory.
inline constexpr int64_t kMaxWorld = 1 << 16;
/// The largest batch, length or token budget: keeps a product of two inside 64 bits.
inline constexpr int64_t kMaxCount = 1 << 30;

struct KlCtrlConfig {
  std::string type;
  double kl_coef = 0, horizon = 0, target_kl = 0;
  template <class V>
  void fields(V& v) {
    v("type", type);
    v("kl_coef", kl_coef);
    v("horizon", horizon);
    v("target_kl", target_kl);
  }
};

struct AlgorithmConfig {
  std::string adv_estimator;
  double gamma = 1, lam = 1;
  bool norm_adv_by_std_in_grpo = true;
  bool use_kl_in_reward = false;
  std::string kl_penalty;
  KlCtrlConfig kl_ctrl;
  template <class V>
  void fields(V& v) {
    v("adv_estimator", adv_estimator);
    v("gamma", gamma);
    v("lam", lam);
    v("norm_adv_by_std_in_grpo", norm_adv_by_std_in_grpo);
    v("use_kl_in_reward", use_kl_in_reward);
    v("kl_penalty", kl_penalty);
    v("kl_ctrl", kl_ctrl);
  }
};

struct CriticConfig {
  std::optional<bool> enable;
  template <class V>
  void fields(V& v) {
    v("enable", enable);
  }
};

struct DistillationConfig {
  bool enabled = false;
  template <class V>
  void fields(V& v) {
    v("enabled", enabled);
  }
};

struct TrainConfig {
  std::string model_engine;
  DataConfig data;
  ActorRolloutRefConfig actor_rollout_ref;
  AlgorithmConfig algorithm;
  CriticConfig critic;
  RewardConfig reward;
  DistillationConfig distillation;
  TrainerConfig trainer;
  std::string run_folder = "";  // of place_outputs(): no key of its own
  template <class V>
  void fields(V& v) {
    v("model_engine", model_engine);
    v("data", data);
    v("actor_rollout_ref", actor_rollout_ref);
    v("algorithm", algorithm);
    v("critic", critic);
    v("reward", reward);
    v("distillation", distillation);
    v("trainer", trainer);
  }

  /// 0 when a factor is not between 1 and kMaxAxis.
  int64_t world_size() const {
    const auto valid = [](int64_t factor) { return factor >= 1 && factor <= kMaxAxis; };
    if (!valid(trainer.nnodes) || !valid(trainer.n_gpus_per_node) || !valid(trainer.ranks_per_gpu))
      return 0;
    return trainer.nnodes * trainer.n_gpus_per_node * trainer.ranks_per_gpu;
  }
  /// verl: the reference model exists iff one of the two KL terms is on.
  bool uses_reference() const {
    return algorithm.use_kl_in_reward || actor_rollout_ref.actor.use_kl_loss;
  }
};

/// True for a value that no user touched.
bool is_shipped(const config::Origin& origin);

/// data.max_token_len_per_gpu feeds the actor's, the reference's and the rollout's log-prob budget
/// where nobody set them. Changes the tree, so that it prints what is used. The tree may still hold
/// interpolations: those that lead to a budget somebody set stay as they are.
void apply_token_budget(config::Node& tree);

/// What is said of keys of `tree` that neither we nor verl know.
std::vector<std::string> unknown_keys(const config::Node& tree);
/// Keys that are missing or whose values are of another type.
class UnreadableValues : public ConfigError {
 public:
  UnreadableValues(std::vector<std::string> problems, std::vector<std::string> keys);
  const std::vector<std::string>& problems() const { return problems_; }
  /// They, those that follow them included.
  const std::vector<std::string>& keys() const { return keys_; }

 private:
  std::vector<std::string> problems_, keys_;
};

/// Binds a resolved tree; applies data.max_token_len_per_gpu to the budgets nobody set (their
/// origin is still a shipped file). Throws UnreadableValues with every unknown key, missing key and
/// wrong type. A cost file that cannot be used is left to validate()
/// (MegatronConfig::costs_problem).
/// `history` of the tree's composition tells more about what is wrong.
TrainConfig bind_train_config(config::Node& resolved_tree, const config::KeyHistory& history = {});

/// The names below override_transformer_config that something reads.
const std::vector<std::string>& read_transformer_overrides();
/// The value of a key of override_transformer_config; null when absent or null there.
const config::Node* transformer_override(const MegatronConfig& megatron, const std::string& name);

inline constexpr const char* kDefaultScheduler = "default";    // Megatron-Core's
inline constexpr const char* kBalancedScheduler = "balanced";  // by the cost model

/// Where sequences may go: max_seqlen_per_dp_cp_rank and the smallest group, typed (after
/// validate).
struct DcpSettings {
  int64_t max_seqlen_per_rank = 0;
  int64_t min_cp = 1;
  bool balanced = false;
};
/// Empty when dynamic_context_parallel is off.
std::optional<DcpSettings> dcp_settings(const MegatronConfig& megatron);

/// Whether a run is to repeat bit for bit: verl's rollout.full_determinism, or Megatron's
/// deterministic_mode among the actor's or the reference's transformer overrides (after validate).
bool deterministic(const TrainConfig& config);

}  // namespace verlcpp::train
