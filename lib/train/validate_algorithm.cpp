#include <cmath>
#include <string>
#include <vector>

#include "algo/aggregate.h"
#include "algo/kl.h"
#include "base/error.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

const std::vector<std::string> kEstimators = {"gae",
                                              "grpo",
                                              "grpo_passk",
                                              "grpo_vectorized",
                                              "gdpo",
                                              "gpg",
                                              "opo",
                                              "optimal_token_baseline",
                                              "reinforce_plus_plus",
                                              "reinforce_plus_plus_baseline",
                                              "remax",
                                              "rloo",
                                              "rloo_vectorized",
                                              "tir_optimal_token_baseline"};
const std::vector<std::string> kLossModes = {"vanilla",  "gspo",    "sapo",     "gpg",
                                             "clip_cov", "kl_cov",  "geo_mean", "cispo",
                                             "dppo_tv",  "dppo_kl", "dro",      "bypass_mode"};

void check_estimator(const AlgorithmConfig& algorithm, bool dynamic, Findings& findings) {
  const std::string& name = algorithm.adv_estimator;
  const std::string key = "algorithm.adv_estimator";
  if (name == "grpo") return;
  if (!contains(kEstimators, name)) {
    findings.add(key, "Unknown advantage estimator: " + name +
                          "; must be grpo, the one of verl's that is implemented");
  } else if (name == "gae") {
    findings.add(key, language_models_only(dynamic, "the value model (critic) that gae needs") +
                          "; must be grpo");
  } else {
    findings.add(key, "advantage estimator " + name + " is not implemented; must be grpo");
  }
}

void check_kl(const TrainConfig& config, Findings& findings) {
  const auto type = [&](const std::string& name, const std::string& key) {
    try {
      algo::check_kl_type(name, key);
    } catch (const ConfigError& e) {
      const std::string text = e.what();  // "KEY is 'VALUE'; valid are ...", of which we have half
      findings.add(key, text.substr(text.find("valid are ")));
    }
  };
  const AlgorithmConfig& algorithm = config.algorithm;
  const ActorConfig& actor = config.actor_rollout_ref.actor;
  type(actor.kl_loss_type, "actor_rollout_ref.actor.kl_loss_type");
  type(algorithm.kl_penalty, "algorithm.kl_penalty");
  const auto finite = [&](double value, const std::string& key) {
    findings.require(std::isfinite(value) && value >= 0, key, "must be finite and >= 0");
  };
  finite(actor.kl_loss_coef, "actor_rollout_ref.actor.kl_loss_coef");
  const KlCtrlConfig& ctrl = algorithm.kl_ctrl;
  findings.require(ctrl.type == "fixed" || ctrl.type == "adaptive", "algorithm.kl_ctrl.type",
                   "must be fixed or adaptive");
  finite(ctrl.kl_coef, "algorithm.kl_ctrl.kl_coef");
  if (ctrl.type == "adaptive") {
    findings.require(ctrl.horizon > 0, "algorithm.kl_ctrl.horizon",
                     "horizon must be larger than 0");
    findings.require(ctrl.target_kl > 0, "algorithm.kl_ctrl.target_kl", "must be > 0");
  }
  if (algorithm.use_kl_in_reward && actor.use_kl_loss) {
    findings.warn("NOTICE: You have both enabled in-reward kl and kl loss.");
  }
}

void check_policy_loss(const ActorConfig& actor, Findings& findings) {
  const std::string key = "actor_rollout_ref.actor.";
  const std::string& mode = actor.policy_loss.loss_mode;
  if (!contains(kLossModes, mode)) {
    findings.add(key + "policy_loss.loss_mode",
                 "Unsupported loss mode: " + mode +
                     "; must be vanilla, the one of verl's that is implemented");
  } else if (mode != "vanilla") {
    findings.add(key + "policy_loss.loss_mode",
                 "loss mode " + mode + " is not implemented; must be vanilla");
  }
  try {
    algo::parse_loss_agg_mode(actor.loss_agg_mode);
  } catch (const ConfigError& e) {
    findings.add(key + "loss_agg_mode",
                 "Invalid loss_agg_mode; must be one of token-mean, token-sum, seq-mean-token-sum, "
                 "seq-mean-token-mean, seq-mean-token-sum-norm");
  }
  const double scale = actor.loss_scale_factor.value_or(1);
  findings.require(std::isfinite(scale) && scale > 0, key + "loss_scale_factor",
                   "must be finite and > 0, or null");
  const auto clip = [&](double value, const std::string& name, const std::string& valid) {
    findings.require(std::isfinite(value) && value > 0, key + name, valid);
  };
  clip(actor.clip_ratio, "clip_ratio", "must be finite and > 0");
  clip(actor.clip_ratio_low.value_or(1), "clip_ratio_low", "must be finite and > 0, or null");
  clip(actor.clip_ratio_high.value_or(1), "clip_ratio_high", "must be finite and > 0, or null");
  findings.require(!std::isinf(actor.clip_ratio_c), key + "clip_ratio_c", "must be finite");
  findings.require(actor.clip_ratio_c > 1, key + "clip_ratio_c",
                   "The lower bound of the clip_ratio_c for dual-clip PPO should be greater than "
                   "1.0");
  findings.require(std::isfinite(actor.entropy_coeff), key + "entropy_coeff", "must be finite");
  findings.require(actor.ppo_epochs >= 1, key + "ppo_epochs", "must be a positive integer");
}

void check_optimizer(const OptimConfig& optim, Findings& findings) {
  const std::string key = "actor_rollout_ref.actor.optim.";
  const std::vector<std::string> styles = {"constant", "linear", "cosine", "inverse-square-root"};
  findings.require(optim.optimizer == "adam", key + "optimizer",
                   "optimizer " + optim.optimizer + " is not implemented; must be adam");
  findings.require(contains(styles, optim.lr_decay_style), key + "lr_decay_style",
                   "must be one of " + join(styles));
  findings.require(optim.total_training_steps == -1 || optim.total_training_steps >= 1,
                   key + "total_training_steps", "must be -1 (the run's) or a positive integer");
  const bool lr_ok = std::isfinite(optim.lr) && optim.lr >= 0;
  findings.require(lr_ok, key + "lr", "must be finite and >= 0");
  const auto below_lr = [&](double value, const std::string& name) {
    const bool ok = value >= 0 && (!lr_ok || value <= optim.lr);
    findings.require(ok, key + name, "must be between 0 and " + findings.about(key + "lr"));
  };
  below_lr(optim.min_lr, "min_lr");
  below_lr(optim.lr_warmup_init, "lr_warmup_init");
  findings.require(optim.lr_warmup_steps_ratio >= 0 && optim.lr_warmup_steps_ratio < 1,
                   key + "lr_warmup_steps_ratio", "must be at least 0 and below 1");
  findings.require(optim.lr_decay_steps.value_or(1) >= 1, key + "lr_decay_steps",
                   "must be a positive integer or null");
  findings.require(std::isfinite(optim.weight_decay) && optim.weight_decay >= 0,
                   key + "weight_decay", "must be finite and >= 0");
  findings.require(std::isfinite(optim.clip_grad) && optim.clip_grad >= 0, key + "clip_grad",
                   "must be finite and >= 0 (0 switches clipping off)");
  const auto beta_ok = [](double beta) { return beta >= 0 && beta < 1; };
  findings.require(optim.betas.size() == 2 && beta_ok(optim.betas[0]) && beta_ok(optim.betas[1]),
                   key + "betas", "must be two numbers in [0, 1)");
}

}  // namespace

void check_algorithm(const TrainConfig& config, Findings& findings) {
  const ActorConfig& actor = config.actor_rollout_ref.actor;
  const auto discount = [&](double value, const std::string& key) {
    findings.require(value >= 0 && value <= 1, key, "must be between 0 and 1");
  };
  discount(config.algorithm.gamma, "algorithm.gamma");
  discount(config.algorithm.lam, "algorithm.lam");
  check_estimator(config.algorithm, actor.megatron.dynamic_context_parallel, findings);
  check_kl(config, findings);
  check_policy_loss(actor, findings);
  check_optimizer(actor.optim, findings);
  if (config.algorithm.adv_estimator == "grpo" && config.actor_rollout_ref.rollout.n == 1) {
    findings.warn(
        "GRPO with actor_rollout_ref.rollout.n = 1: a group of one has no baseline, so the "
        "advantage is the reward itself");
  }
}

}  // namespace verlcpp::train
