#include <string>

#include "train/validate_checks.h"

// Values that somebody set and that another setting makes idle: a line each.

namespace verlcpp::train {
namespace {

class Unused {
 public:
  explicit Unused(Findings& findings) : findings_(findings) {}

  /// `why`: after "has no effect".
  void unless(bool used, const std::string& key, const std::string& why) {
    const config::Node* node = findings_.tree().find(key);
    if (used || node == nullptr || is_shipped(node->origin())) return;
    findings_.warn(findings_.about(key) + " has no effect" + why);
  }

 private:
  Findings& findings_;
};

void check_losses(const TrainConfig& config, Unused& unused, const Findings& findings) {
  const ActorConfig& actor = config.actor_rollout_ref.actor;
  const std::string key = "actor_rollout_ref.actor.";
  unused.unless(!actor.clip_ratio_low || !actor.clip_ratio_high, key + "clip_ratio",
                ": " + findings.about(key + "clip_ratio_low") + " and " +
                    findings.about(key + "clip_ratio_high") + " are read instead");
  const std::string loss = " unless actor_rollout_ref.actor.use_kl_loss=True";
  unused.unless(actor.use_kl_loss || actor.kl_loss_coef == 0, key + "kl_loss_coef", loss);
  const AlgorithmConfig& algorithm = config.algorithm;
  const std::string in_reward = " unless algorithm.use_kl_in_reward=True";
  unused.unless(algorithm.use_kl_in_reward || algorithm.kl_ctrl.kl_coef == 0,
                "algorithm.kl_ctrl.kl_coef", in_reward);
  for (const char* field : {"type", "horizon", "target_kl"}) {
    unused.unless(algorithm.use_kl_in_reward, std::string("algorithm.kl_ctrl.") + field, in_reward);
  }
  unused.unless(actor.loss_agg_mode == "seq-mean-token-sum-norm" || !actor.loss_scale_factor,
                key + "loss_scale_factor",
                " unless " + key + "loss_agg_mode=seq-mean-token-sum-norm");
}

}  // namespace

void check_unused(const TrainConfig& config, Findings& findings) {
  Unused unused(findings);
  check_losses(config, unused, findings);
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  unused.unless(rollout.name == "replay" || !rollout.replay_path,
                "actor_rollout_ref.rollout.replay_path",
                " unless actor_rollout_ref.rollout.name=replay");
  const std::string program = "reward.custom_reward_function.";
  for (const char* field : {"name", "timeout_s", "on_failure"}) {
    unused.unless(config.reward.custom_reward_function.path.has_value(), program + field,
                  " unless " + program + "path names a file (.py) or program");
  }
  const TrainerConfig& trainer = config.trainer;
  unused.unless(trainer.test_freq > 0 || trainer.val_before_train || trainer.val_only ||
                    !trainer.validation_data_dir,
                "trainer.validation_data_dir",
                ": no validation runs; trainer.test_freq=N (N > 0) or "
                "trainer.val_before_train=True runs one");
}

}  // namespace verlcpp::train
