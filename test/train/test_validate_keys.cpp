#include "base/error.h"
#include "setup.h"
#include "support/catch.h"
#include "train/validate.h"
#include "validate_case.h"

using namespace verlcpp;
using Catch::Matchers::ContainsSubstring;
using test::configured;
using test::failure;
using test::valid_run;
using test::warnings;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";

}  // namespace

TEST_CASE("a name of the transformer's that would make another model is refused, but for ours") {
  const std::string overrides = "+" + kMegatron + "override_transformer_config.";
  for (const char* bad :
       {"attention_dropout=0.1", "num_layers=1", "normalization=LayerNorm", "softmax_scale=2",
        "window_size=[3,0]", "gated_linear_unit=False", "fp4=e2m1", "mtp_num_layers=1",
        "softmax_type=learnable", "position_embedding_type=none", "attention_output_gate=True"}) {
    CHECK_THAT(failure(valid_run(), {overrides + bad}),
               ContainsSubstring("has 1 problem") &&
                   ContainsSubstring("is not what this build computes; "));
  }
  for (const char* ours : {"attention_dropout=0.0", "normalization=RMSNorm", "swiglu=True",
                           "position_embedding_type=rope", "context_parallel_size=4"}) {
    CHECK(failure(valid_run(), {overrides + ours}) == "valid");
  }
  CHECK_THAT(failure(valid_run(), {overrides + "tensor_model_parallel_size=4"}),
             ContainsSubstring("override_transformer_config.tensor_model_parallel_size = 4 ") &&
                 ContainsSubstring("differs from " + kMegatron + "tensor_model_parallel_size = ") &&
                 ContainsSubstring(", which is the one that counts; set that and leave this out"));
}

TEST_CASE("a value that another setting makes idle is named") {
  using Lines = std::vector<std::string>;
  const std::string actor = kA + "actor.", program = "reward.custom_reward_function.";
  const auto first = [](const std::string& more) {
    const Lines lines = warnings({more});
    return lines.empty() ? "" : lines.front();
  };
  CHECK_THAT(first(actor + "clip_ratio=0.3"),
             ContainsSubstring("clip_ratio = 0.3 (override 20) has no effect: ") &&
                 ContainsSubstring("clip_ratio_low = 0.2 (") &&
                 ContainsSubstring("are read instead"));
  CHECK(warnings({actor + "clip_ratio=0.3", actor + "clip_ratio_low=null"}).empty());
  CHECK_THAT(first(kA + "rollout.replay_path=/x"),
             ContainsSubstring("has no effect unless " + kA + "rollout.name=replay"));
  CHECK_THAT(first(program + "name=score"), ContainsSubstring("has no effect unless " + program));
  CHECK_THAT(first(actor + "kl_loss_coef=0.01"),
             ContainsSubstring("has no effect unless " + actor + "use_kl_loss=True"));
  CHECK(warnings({actor + "kl_loss_coef=0.0"}).empty());
  CHECK_THAT(first("algorithm.kl_ctrl.kl_coef=0.1"),
             ContainsSubstring("has no effect unless algorithm.use_kl_in_reward=True"));
  CHECK_THAT(first(actor + "loss_scale_factor=7"),
             ContainsSubstring("has no effect unless " + actor + "loss_agg_mode="));
}

TEST_CASE("a dotted or an empty name in a file is not the key that it looks like") {
  const auto said = [](const std::string& key) {
    test::Configured c = configured(valid_run(), {});
    c.tree.items().emplace_back(
        key, config::Node(int64_t{3}, config::Origin{"run.yaml:2", config::Origin::Source::kFile}));
    try {
      train::validate(c.config, c.tree);
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string("valid");
  };
  CHECK_THAT(said("trainer.total_epochs"),
             ContainsSubstring("trainer.total_epochs (run.yaml:2) is not a known key: a name with "
                               "dots is one name here; a.b is written a: {b: VALUE}"));
  CHECK_THAT(said(""), ContainsSubstring("'' (run.yaml:2) is not a known key"));
}

TEST_CASE("a name in override_config that no model reads is named") {
  const std::string key = kA + "model.override_config.",
                    unread =
                        ": nothing here reads it, it only goes into the config.json of exports";
  using Lines = std::vector<std::string>;
  CHECK(warnings({"+" + key + "rope_theta=3", "+" + key + "eos_token_id=1"}).empty());
  CHECK(warnings({"+" + key + "rope_thet=3"}) ==
        Lines{key + "rope_thet = 3 (override 20)" + unread + "; did you mean rope_theta?"});
  CHECK(warnings({"+" + key + "use_cache=False"}) ==
        Lines{key + "use_cache = False (override 20)" + unread});
  CHECK(warnings({"+" + key + "rope_scaling={rope_type:linear,factor:2.0,facto:4}"}) ==
        Lines{key + "rope_scaling.facto = 4 (override 20)" + unread + "; did you mean factor?"});
  CHECK(warnings({"+" + key + "model_config.rope_thet=3", "+" + key + "rope_theta=3"}) ==
        Lines{key + "model_config.rope_thet = 3 (override 20)" + unread +
                  "; did you mean rope_theta?",
              key + "rope_theta = 3 (override 21) has no effect: model_config stands beside it"});
}

TEST_CASE("a shared token budget that every pass's own one beats is named") {
  const std::string shared = "data.max_token_len_per_gpu=300";
  const std::string actor = kA + "actor.ppo_max_token_len_per_gpu";
  const std::string rollout = kA + "rollout.log_prob_max_token_len_per_gpu";
  using Lines = std::vector<std::string>;
  CHECK(warnings({shared}).empty());
  CHECK(warnings({shared, rollout + "=400"}).empty());
  CHECK(warnings({shared, actor + "=300"}).empty());
  CHECK(warnings({shared, actor + "=${data.max_token_len_per_gpu}"}).empty());
  CHECK(warnings({shared, actor + "=400"}) ==
        Lines{"data.max_token_len_per_gpu = 300 (override 20) has no effect: " + actor +
              " = 400 (override 21) is set too"});
  CHECK(warnings({shared, actor + "=400", rollout + "=500"}) ==
        Lines{"data.max_token_len_per_gpu = 300 (override 20) has no effect: " + actor +
              " = 400 (override 21), " + rollout + " = 500 (override 22) are set too"});
}

TEST_CASE("what is set for a reference that does not run is named") {
  const auto lines = warnings({kA + "ref.megatron.tensor_model_parallel_size=7"});
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], ContainsSubstring("no effect: no reference runs"));
}

TEST_CASE("what is only a warning") {
  const auto one = [](const std::vector<std::string>& more) {
    const std::vector<std::string> lines = warnings(more);
    REQUIRE(lines.size() == 1);
    return lines[0];
  };
  CHECK_THAT(one({kA + "model.use_remove_padding=False"}),
             ContainsSubstring("has no effect here") &&
                 ContainsSubstring(kA + "model.use_remove_padding (override 20)"));
  CHECK_THAT(one({kA + "rollout.n=1"}), ContainsSubstring("GRPO with"));
  CHECK_THAT(
      one({"trainer.logger=[console,wandb]"}),
      ContainsSubstring("wandb is not implemented; console, file are the loggers that write"));
  CHECK_THAT(one({"+" + kMegatron + "override_transformer_config.apply_rope_fusion=True"}),
             ContainsSubstring("override_transformer_config.apply_rope_fusion = ") &&
                 ContainsSubstring("has no effect"));
  CHECK_THAT(one({"algorithm.use_kl_in_reward=True", kA + "actor.use_kl_loss=True"}),
             ContainsSubstring("You have both enabled in-reward kl and kl loss"));
  CHECK_THAT(one({"trainer.save_freq=-1", kA + "actor.checkpoint.save_contents=[]"}),
             ContainsSubstring("actor.checkpoint.save_contents = []") &&
                 ContainsSubstring("so a run that is stopped cannot go on"));
}
