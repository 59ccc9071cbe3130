#include <cstdlib>

#include "base/error.h"
#include "config/compose.h"
#include "config/embedded.h"
#include "setup.h"
#include "support/catch.h"
#include "train/checked_config.h"
#include "train/key_kinds.h"

using namespace verlcpp;
using test::valid_run;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";
using Texts = std::vector<std::string>;

/// What is wrong with the valid run and `more` on top, an element a problem; none when it is valid.
Texts problems(const Texts& more) {
  Texts overrides = valid_run();
  overrides.insert(overrides.end(), more.begin(), more.end());
  train::CheckOptions options;
  const config::Composed composed = config::compose({.search_path = {config::embedded()},
                                                     .config_name = "ppo_trainer",
                                                     .overrides = overrides,
                                                     .old_keys = train::old_keys(),
                                                     .is_read = train::is_read},
                                                    options.overrides);
  options.history = composed.history;
  const config::RunFacts facts{.now = 0, .hydra = composed.hydra, .history = composed.history};
  config::Node tree = config::resolve(composed.tree, facts, options.interpolations);
  std::string text;
  try {
    train::checked_config(tree, options);
    return {};
  } catch (const ConfigError& error) {
    text = error.what();
  }
  if (!text.starts_with("the configuration has ")) return {text};
  Texts found;
  for (int number = 1;; ++number) {
    const size_t at = text.find("\n  " + std::to_string(number) + ". ");
    if (at == std::string::npos) return found;
    const size_t begin = text.find(". ", at) + 2;
    found.push_back(text.substr(begin, text.find('\n', begin) - begin));
  }
}

/// Whether there is a problem for each of `begins`, in their order, which begins so, and no other.
bool are(const Texts& found, const Texts& begins) {
  UNSCOPED_INFO("found: " << config::numbered(found));
  return std::equal(found.begin(), found.end(), begins.begin(), begins.end(),
                    [](const auto& text, const auto& begin) { return text.starts_with(begin); });
}

}  // namespace

TEST_CASE("what cannot be read hides nothing of keys that share its last name") {
  CHECK(problems({}).empty());
  CHECK(are(problems({kA + "model.path=null", "reward.custom_reward_function.path=/nope.py"}),
            {kA + "model.path=null", "reward.custom_reward_function.path = '/nope.py'"}));
  CHECK(are(
      problems({"critic.enable=5", "reward.reward_model.enable=True", "skip.rollout.enable=True"}),
      {"critic.enable=5", "reward.reward_model.enable = True", "skip.rollout.enable = True"}));
  CHECK(are(problems({kA + "rollout.val_kwargs.top_k=x", kA + "rollout.top_k=-5"}),
            {kA + "rollout.val_kwargs.top_k='x'", kA + "rollout.top_k = -5"}));
}

TEST_CASE("what only follows from a value that cannot be read is not said") {
  // The shipped 1024 prompts, 256 a mini-batch, one rank to the context, no dynamic CP and no
  // dynamic_bsz, which stand in for what cannot be read, would all be wrong here.
  CHECK(are(problems({"data.train_batch_size=x", kA + "actor.ppo_mini_batch_size=3000"}),
            {"data.train_batch_size='x'"}));
  CHECK(are(problems({kMegatron + "context_parallel_size=x", kA + "actor.use_dynamic_bsz=True",
                      kA + "rollout.log_prob_use_dynamic_bsz=True",
                      kA + "actor.ppo_max_token_len_per_gpu=100"}),
            {kMegatron + "context_parallel_size='x'"}));
  CHECK(are(problems({"trainer.nnodes=x", "trainer.n_gpus_per_node=3"}), {"trainer.nnodes='x'"}));
  CHECK(are(problems({kMegatron + "dynamic_context_parallel=x",
                      kMegatron + "max_seqlen_per_dp_cp_rank=128",
                      kA + "actor.ppo_micro_batch_size_per_gpu=null",
                      kA + "rollout.log_prob_micro_batch_size_per_gpu=null"}),
            {kMegatron + "dynamic_context_parallel='x'"}));
  CHECK(are(problems({kA + "actor.use_dynamic_bsz=x", kA + "rollout.log_prob_use_dynamic_bsz=x",
                      kA + "actor.ppo_micro_batch_size_per_gpu=null",
                      kA + "rollout.log_prob_micro_batch_size_per_gpu=null"}),
            {kA + "actor.use_dynamic_bsz='x'", kA + "rollout.log_prob_use_dynamic_bsz='x'"}));
  CHECK(are(problems({kA + "rollout.name=null", "data.train_files=/nope.jsonl"}),
            {kA + "rollout.name=null"}));
}

TEST_CASE("nor is what follows from a key that follows one that cannot be read") {
  // By a shipped interpolation: ref.megatron of actor.megatron, rollout.prompt_length of data.
  CHECK(are(problems({"data.max_prompt_length=null", "data.max_response_length=0"}),
            {"data.max_prompt_length=null", "data.max_response_length = 0"}));
  CHECK(are(
      problems({kMegatron + "dtype=null", kA + "actor.use_kl_loss=True", "trainer.total_epochs=0"}),
      {kMegatron + "dtype=null", "trainer.total_epochs = 0"}));
  // By one of the user's: a text where any is read, and one where null is valid.
  CHECK(are(problems({"trainer.n_gpus_per_node=[2]",
                      kMegatron + "max_seqlen_per_dp_cp_rank=${trainer.n_gpus_per_node}",
                      kMegatron + "dynamic_context_parallel=True", "trainer.total_epochs=0"}),
            {"trainer.n_gpus_per_node=[2]", "trainer.total_epochs = 0"}));
}

TEST_CASE("overrides that cannot be applied are said with all the rest") {
  CHECK(are(problems({"trainer.foo=1", "+trainer.bar=1", "trainer.total_epochs=x",
                      "data.train_files=/nope.jsonl"}),
            {"trainer.foo=1", "trainer.total_epochs='x'", "trainer.bar (override",
             "data.train_files = '/nope.jsonl'"}));
  CHECK(are(problems({"trainer.npu_profile=1", kA + "actor.load_weight=True", "trainer.device=cuda",
                      "trainer.nnodes=4"}),
            {"trainer.npu_profile=1", kA + "actor.load_weight=True", "trainer.nnodes = 4"}));
  // The old name of what is now missing, and a name that is near to one whose value does not fit.
  CHECK(are(problems({kA + "rollout.micro_batch_size=4",
                      kA + "rollout.log_prob_micro_batch_size_per_gpu=null"}),
            {kA + "rollout.micro_batch_size=4"}));
  CHECK(are(problems({"data.train_batch_sise=3000", kA + "actor.ppo_mini_batch_size=3000"}),
            {"data.train_batch_sise=3000"}));
}

TEST_CASE("interpolations that lead nowhere are said with all the rest") {
  CHECK(are(problems({"trainer.n_gpus_per_node=${nope}", "trainer.total_epochs=0"}),
            {"trainer.n_gpus_per_node=${nope}", "trainer.total_epochs = 0"}));
  CHECK(are(problems({"trainer.logger=[console,'${nope}']", "trainer.total_epochs=x"}),
            {"trainer.logger.1=${nope}", "trainer.total_epochs='x'"}));
  CHECK(are(problems({"mine.n=3", "trainer.n_gpus_per_node=${mine.n}", "trainer.total_epochs=0"}),
            {"mine.n=3", "trainer.total_epochs = 0"}));
}

TEST_CASE("an interpolation that leads to a missing key is not said besides") {
  CHECK(are(problems({"~trainer.project_name"}), {"trainer.project_name is missing"}));
  CHECK(are(problems({"~" + kA + "actor.checkpoint.save_contents", "trainer.total_epochs=0"}),
            {kA + "actor.checkpoint.save_contents is missing", "trainer.total_epochs = 0"}));
  // Through oc.select it becomes null, which does not fit there.
  CHECK(are(problems({kMegatron + "dynamic_context_parallel=True",
                      "~" + kMegatron + "max_seqlen_per_dp_cp_rank"}),
            {kMegatron + "max_seqlen_per_dp_cp_rank is missing"}));
  // Nothing else says that this one is not there: nobody reads it.
  CHECK(are(problems({"~ray_kwargs.timeline_json_file",
                      "trainer.experiment_name=${ray_kwargs.timeline_json_file}"}),
            {"trainer.experiment_name=${ray_kwargs.timeline_json_file}"}));
}

TEST_CASE("an override of what one before it deleted is said once, with both") {
  const std::string lr = kA + "actor.optim.lr";
  CHECK(are(problems({"~" + lr, lr + "=1e-6", "trainer.total_epochs=0"}),
            {lr + "=1e-6 (override 21): there is no key " + lr + ": ~" + lr +
                 " (override 20) deletes it; leave that out, or write ++" + lr + "=1e-6",
             "trainer.total_epochs = 0"}));
  CHECK(problems({"~" + lr, "++" + lr + "=1e-6"}).empty());
  CHECK(are(problems({"~trainer", "trainer.nnodes=3"}),
            {"trainer.nnodes=3 (override 21): there is no key trainer.nnodes: ~trainer "
             "(override 20) deletes trainer; leave that out"}));
  CHECK(are(problems({"~critic", "critic.optim.lr=3"}),
            {"critic.optim.lr=3 (override 21): there is no key critic.optim.lr: ~critic "
             "(override 20) deletes critic; leave that out"}));
  // Set again, it is there.
  CHECK(are(problems({"~trainer.device", "++trainer.device=cpu", "trainer.device.x=1"}),
            {"trainer.device.x=1 (override 22): there is no key trainer.device.x; "}));
}

TEST_CASE("an override below a value that took the place of a group") {
  for (const std::string value : {"foo", "null", "${data.truncation}"}) {
    INFO(value);
    const std::string shown = value == "null" ? value : value == "foo" ? "'foo'" : "'error'";
    const Texts found = problems({"trainer=" + value, "trainer.save_freq=3"});
    REQUIRE(found.size() == 2);
    CHECK(found[0].starts_with("trainer.save_freq=3 (override 21): there is no key "));
    CHECK(found[1].starts_with("trainer ("));
    CHECK(found[1].find(") must be a group of keys, got " + shown) != std::string::npos);
  }
}

TEST_CASE("a value that cannot be read is said once, by whatever way it comes to other keys") {
  const std::string gpus = "trainer.n_gpus_per_node", cp = kMegatron + "context_parallel_size";
  CHECK(are(problems({gpus + "=abc", cp + "=${" + gpus + "}"}), {gpus + "='abc'"}));
  CHECK(are(problems({gpus + "=abc", cp + "=abc"}), {cp + "='abc'", gpus + "='abc'"}));
  // What is right where it stands, and wrong where it is wanted, is wrong in each of those places.
  const std::string link = "=${data.truncation}", epochs = "trainer.total_epochs";
  CHECK(
      are(problems({epochs + link, "trainer.nnodes" + link}),
          {epochs + "='error' (conf/data/legacy_data.yaml:26): must be an integer; it is there by "
                    "${data.truncation} (override 20)",
           "trainer.nnodes='error' ("}));
  // Two mistakes of one override are two.
  CHECK(are(problems({"actor_rollout_ref={actor: {ppo_max_token_len_per_gpu: x}, rollout: "
                      "{log_prob_max_token_len_per_gpu: x}}"}),
            {kA + "actor.ppo_max_token_len_per_gpu='x'",
             kA + "rollout.log_prob_max_token_len_per_gpu='x'"}));
}

TEST_CASE("a token budget that cannot be read is said once") {
  CHECK(are(problems({"data.max_token_len_per_gpu=x"}), {"data.max_token_len_per_gpu='x'"}));
  CHECK(are(problems({"data.max_token_len_per_gpu=x", kA + "actor.ppo_max_token_len_per_gpu=y"}),
            {"data.max_token_len_per_gpu='x'", kA + "actor.ppo_max_token_len_per_gpu='y'"}));
}

TEST_CASE("an interpolation inside a list that leads to that list is said") {
  CHECK(are(problems({"+mine=[1,\"${mine.3}\"]"}), {"mine.1=${mine.3} (override 20)"}));
  CHECK(are(problems({kA + "actor.optim.betas=[\"${.7}\",0.9]", "trainer.total_epochs=0"}),
            {kA + "actor.optim.betas.0=${.7} (override 20)", "trainer.total_epochs = 0"}));
}

TEST_CASE("an interpolation that leads to a deleted key names the deletion") {
  CHECK(are(problems({"~critic.optim", "trainer.save_freq=${critic.optim.lr}"}),
            {"trainer.save_freq=${critic.optim.lr} (override 21): there is no key "
             "critic.optim.lr: ~critic.optim (override 20) deletes critic.optim"}));
}

TEST_CASE("keys and groups that are missing hide nothing") {
  CHECK(
      are(problems({"~critic", "trainer.total_epochs=0"}),
          {"critic.enable is missing: ~critic (override 20) deletes it; leave that out, or set it "
           "behind it with ++critic.enable=VALUE",
           "trainer.total_epochs = 0"}));
  CHECK(are(problems({"critic=null"}), {"critic.enable is missing: critic=null (override 20) "}));
  CHECK(are(problems({"~trainer.device", "trainer.total_epochs=0"}),
            {"trainer.device is missing: ~trainer.device (override 20) deletes it; leave that out, "
             "or set it behind it with ++trainer.device=VALUE",
             "trainer.total_epochs = 0"}));
  CHECK(are(problems({"~" + kA + "actor.megatron"}),
            {kA + "actor.megatron is missing: ~" + kA +
             "actor.megatron (override 20) deletes it; leave that out"}));
  CHECK(are(problems({"~trainer", "+trainer.nnodes=1"}),
            {"trainer lacks total_epochs, total_training_steps and 16 more: ~trainer (override 20) "
             "deletes them; leave that out"}));
  CHECK(are(problems({"algorithm.kl_ctrl=3", "trainer.total_epochs=0"}),
            {"algorithm.kl_ctrl (override", "trainer.total_epochs = 0"}));
}
