#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "setup.h"
#include "support/catch.h"
#include "train/validate.h"
#include "validate_case.h"

using namespace verlcpp;
using Catch::Matchers::ContainsSubstring;
using test::check_table;
using test::configured;
using test::failure;
using test::valid_dynamic_run;
using test::valid_run;
using test::warnings;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";

/// A model folder with the text of a config.json, and something for a tokenizer, removed at the
/// end.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& json)
      : path_(std::filesystem::temp_directory_path() /
              ("verlcpp_validate_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
    std::ofstream(path_ / "config.json") << json;
    write("tokenizer.json");
  }
  ~ModelFolder() { std::filesystem::remove_all(path_); }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  void write(const std::string& name) const { std::ofstream(path_ / name) << "x\n"; }
  void remove(const std::string& name) const { std::filesystem::remove(path_ / name); }
  std::string override_text() const { return kA + "model.path='" + path_.string() + "'"; }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("valid configurations pass without a warning") {
  CHECK(warnings({}).empty());
  CHECK(failure(valid_dynamic_run(), {}) == "valid");
  CHECK(failure(valid_dynamic_run(), {kA + "actor.use_kl_loss=True"}) == "valid");
  CHECK(failure(valid_run(), {kA + "actor.use_dynamic_bsz=True"}) == "valid");
  CHECK(failure(valid_run(), {kMegatron + "dtype=float64", kA + "ref.megatron.dtype=float64"}) ==
        "valid");
}

TEST_CASE("algorithm and optimizer") {
  const std::string actor = kA + "actor.";
  check_table(
      valid_run(),
      {{{"algorithm.adv_estimator=gae"},
        "algorithm.adv_estimator",
        "the value model (critic) that gae needs is not implemented; must be grpo"},
       {{"algorithm.adv_estimator=rloo"},
        "algorithm.adv_estimator",
        "advantage estimator rloo is not implemented; must be grpo"},
       {{"algorithm.adv_estimator=grop"},
        "algorithm.adv_estimator",
        "Unknown advantage estimator: grop"},
       {{actor + "policy_loss.loss_mode=clip-cov"},
        actor + "policy_loss.loss_mode",
        "Unsupported loss mode: clip-cov; must be vanilla"},
       {{actor + "policy_loss.loss_mode=gspo"},
        actor + "policy_loss.loss_mode",
        "loss mode gspo is not implemented; must be vanilla"},
       {{actor + "loss_agg_mode=mean"},
        actor + "loss_agg_mode",
        "Invalid loss_agg_mode; must be one of"},
       {{actor + "kl_loss_type=k9"}, actor + "kl_loss_type", "k9"},
       {{"algorithm.kl_penalty=full"}, "algorithm.kl_penalty", "full"},
       {{"algorithm.kl_ctrl.type=pid"}, "algorithm.kl_ctrl.type", "must be fixed or adaptive"},
       {{"algorithm.kl_ctrl.type=adaptive", "algorithm.kl_ctrl.horizon=0"},
        "algorithm.kl_ctrl.horizon",
        "horizon must be larger than 0"},
       {{actor + "clip_ratio_c=1"}, actor + "clip_ratio_c", "should be greater than 1.0"},
       {{actor + "clip_ratio_low=0"}, actor + "clip_ratio_low", "must be finite and > 0"},
       {{actor + "ppo_epochs=0"}, actor + "ppo_epochs", "must be a positive integer"},
       {{actor + "optim.optimizer=muon"}, actor + "optim.optimizer", "must be adam"},
       {{actor + "optim.lr=-1e-6"}, actor + "optim.lr", "must be finite and >= 0"},
       {{actor + "optim.lr=inf"}, actor + "optim.lr", "must be finite and >= 0"},
       {{actor + "optim.lr_decay_style=WSD"},
        actor + "optim.lr_decay_style",
        "must be one of constant, linear, cosine, inverse-square-root"},
       {{actor + "optim.betas=[0.9,1.0]"}, actor + "optim.betas", "must be two numbers in [0, 1)"},
       {{actor + "optim.min_lr=1"},
        actor + "optim.min_lr",
        "must be between 0 and " + actor + "optim.lr = 1e-06 ("}});
}

TEST_CASE("rollout and trainer") {
  const std::string rollout = kA + "rollout.";
  check_table(
      valid_run(),
      {{{rollout + "name=tgi"},
        rollout + "name",
        "must be one of native, vllm, sglang, hf, trtllm"},
       {{rollout + "name=replay"},
        rollout + "replay_path",
        "needs a file of recorded trajectories"},
       {{rollout + "name=replay", rollout + "replay_path=/none.jsonl"},
        rollout + "replay_path",
        "no such file"},
       {{rollout + "mode=sync"}, rollout + "mode", "sync has been removed"},
       {{rollout + "temperature=0"}, rollout + "temperature", "must be > 0"},
       {{rollout + "top_p=1.5"}, rollout + "top_p", "must be in (0, 1]"},
       {{rollout + "top_k=0"}, rollout + "top_k", "must be -1 (all tokens) or a positive integer"},
       {{rollout + "n=0"}, rollout + "n = 0", "must be a positive integer"},
       {{"trainer.total_epochs=0"}, "trainer.total_epochs", "must be a positive integer"},
       {{"trainer.resume_mode=always"}, "trainer.resume_mode", "must be one of auto, disable"},
       {{"trainer.resume_mode=resume_path", "trainer.resume_from_path=checkpoints/x"},
        "trainer.resume_from_path",
        "whose name ends in global_step_N"},
       {{"trainer.logger=[telegraph,telegraph]"}, "trainer.logger", "telegraph is not a logger"},
       {{"trainer.logger=[console,telegraph]"}, "trainer.logger", "telegraph is not a logger"},
       {{"data.truncation=up"}, "data.truncation", "must be one of error, left, right, middle"},
       {{kA + "actor.checkpoint.save_contents=[model,soul]",
         kA + "actor.checkpoint.load_contents=[model]"},
        kA + "actor.checkpoint.save_contents",
        "soul is not a part of a checkpoint"}});
}

TEST_CASE("model folder and data files") {
  check_table(
      valid_run(),
      {{{kA + "model.path=Qwen/Qwen3-8B"},
        kA + "model.path = ",
        "no such folder, and nothing is downloaded; "},
       {{"data.train_files=[/none/a.jsonl]"}, "data.train_files", "/none/a.jsonl: no such file"},
       {{"data.train_files=[/tmp]"}, "data.train_files", "/tmp: is a folder, not a file"},
       {{"data.train_files=[]"}, "data.train_files", "must name at least one file"}});
  SECTION("vision models") {
    const ModelFolder folder(R"({"architectures": ["Qwen3ForCausalLM"], "vision_config": {}})");
    CHECK_THAT(failure(valid_dynamic_run(), {folder.override_text()}),
               ContainsSubstring("Dynamic CP currently supports language models only") &&
                   ContainsSubstring("vision_config"));
  }
  SECTION("a model we do not run") {
    const ModelFolder folder(R"({"architectures": ["BertModel"]})");
    CHECK_THAT(failure(valid_run(), {folder.override_text()}),
               ContainsSubstring(kA + "model.path") && ContainsSubstring("BertModel"));
  }
}

TEST_CASE("a folder without weights needs random_init") {
  std::ifstream in(std::string(VERLCPP_TEST_DATA) + "/qwen3/config.json");
  const ModelFolder folder({std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()});
  CHECK_THAT(failure(valid_run(), {folder.override_text()}),
             ContainsSubstring(kA + "model.path = ") &&
                 ContainsSubstring("neither model.safetensors nor"));
  CHECK(failure(valid_run(), {folder.override_text(), kA + "model.random_init=True"}) == "valid");
}

TEST_CASE("a model folder needs a tokenizer where prompts are read") {
  std::ifstream in(std::string(VERLCPP_TEST_DATA) + "/qwen3/config.json");
  const ModelFolder folder({std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()});
  folder.remove("tokenizer.json");
  folder.write("recorded.jsonl");
  const std::vector<std::string> random = {folder.override_text(), kA + "model.random_init=True"};
  check_table(valid_run(), {{random, kA + "model.path = ", "tokenizer.json does not exist"}});
  check_table(valid_run(), {{{kA + "model.path=/none"}, kA + "model.path = ", "no such folder"}});
  CHECK(failure(valid_run(), {random[0], random[1], kA + "rollout.name=replay",
                              kA + "rollout.replay_path=" + folder.file("recorded.jsonl")}) ==
        "valid");
}

TEST_CASE("random_init does not stand in for weights of another format") {
  std::ifstream in(std::string(VERLCPP_TEST_DATA) + "/qwen3/config.json");
  const ModelFolder folder({std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()});
  const std::vector<std::string> random = {folder.override_text(), kA + "model.random_init=True"};
  folder.write("vocab.json");
  CHECK(failure(valid_run(), random) == "valid");
  folder.write("pytorch_model-00001-of-00002.bin");
  folder.write("adapter.gguf");
  CHECK_THAT(failure(valid_run(), random),
             ContainsSubstring("weights in a format this build does not read: adapter.gguf, "
                               "pytorch_model-00001-of-00002.bin; safetensors are"));
}

TEST_CASE("what a run writes is nothing that it reads") {
  const ModelFolder folder("{}");
  folder.write("a.jsonl");
  const std::string record = kA + "rollout.record_path=";
  const std::string roundabout = folder.file("x/../a.jsonl");
  std::filesystem::create_directories(folder.file("x"));
  check_table(valid_run(),
              {{{"data.train_files=[" + folder.file("a.jsonl") + "]", record + roundabout},
                kA + "rollout.record_path = ",
                "is the same file as data.train_files = "},
               {{kA + "rollout.name=replay", kA + "rollout.replay_path=" + folder.file("a.jsonl"),
                 record + roundabout},
                kA + "rollout.record_path = ",
                "is the same file as " + kA + "rollout.replay_path = "},
               {{"trainer.logger=[file]", "trainer.project_name='" + folder.file("x") + "'",
                 "trainer.experiment_name=r", record + folder.file("x/r.jsonl")},
                kA + "rollout.record_path = ",
                "is the same file as the metrics file"},
               {{"trainer.logger=[file]", "trainer.project_name='" + folder.file("") + "'",
                 "trainer.experiment_name=a", "data.train_files=[" + folder.file("a.jsonl") + "]"},
                "trainer.experiment_name = ",
                "is the same file as data.train_files = "}});
  CHECK(failure(valid_run(), {record + folder.file("b.jsonl")}) == "valid");
}

TEST_CASE("checkpoints need a folder and something to save") {
  const ModelFolder folder("{}");
  folder.write("file");
  const auto at = [&](const std::string& name) {
    return "trainer.default_local_dir='" + folder.file(name) + "'";
  };
  const std::string contents = kA + "actor.checkpoint.save_contents=";
  check_table(valid_run(), {{{"trainer.save_freq=1", at("file")},
                             "trainer.default_local_dir = ",
                             "exists but is not a folder"},
                            {{"trainer.save_freq=1", at("file/a/b")},
                             "trainer.default_local_dir = ",
                             folder.file("file") + " is not a folder"},
                            {{"trainer.save_freq=1", at("new"), contents + "[extra]",
                              kA + "actor.checkpoint.load_contents=[model]"},
                             kA + "actor.checkpoint.save_contents",
                             "must contain model or optimizer when trainer.save_freq > 0"}});
  CHECK(failure(valid_run(), {"trainer.save_freq=1", at("new/a")}) == "valid");
  CHECK(failure(valid_run(), {"trainer.save_freq=-1", at("file")}) == "valid");
}

TEST_CASE("deterministic_mode is True, False or null") {
  const std::string key = kMegatron + "override_transformer_config.deterministic_mode";
  CHECK(failure(valid_run(), {"+" + key + "=True"}) == "valid");
  CHECK(failure(valid_run(), {"+" + key + "=null"}) == "valid");
  check_table(valid_run(), {{{"+" + key + "=1"}, key, "must be True, False or null"}});
}

TEST_CASE("sizes no machine has are refused by name, not multiplied") {
  const std::string huge = "4611686018427387904";
  check_table(
      valid_run(),
      {{{"trainer.n_gpus_per_node=512", "data.train_batch_size=512",
         kA + "actor.ppo_mini_batch_size=512"},
        "trainer.device = ",
        "at most 256 ranks, each a thread, but the world is 512 = trainer.n_gpus_per_node = 512"},
       {{"trainer.nnodes=" + huge}, "trainer.nnodes", "must be a positive integer"},
       {{kA + "rollout.n=" + huge}, kA + "rollout.n", "must be a positive integer"}});
  CHECK_THAT(failure(valid_run(), {kA + "rollout.prompt_length=" + huge}),
             ContainsSubstring("rollout.prompt_length = ") &&
                 ContainsSubstring("must be a positive integer of"));
  CHECK_THAT(failure(valid_dynamic_run(), {kMegatron + "max_seqlen_per_dp_cp_rank=" + huge}),
             ContainsSubstring("must be a positive integer of at most 1073741824"));
}

TEST_CASE("what only keeps this build from running a world is no problem of a dry run") {
  const auto limits = [](const std::vector<std::string>& more) {
    const test::Configured c = configured(valid_run(), more);
    return train::validate_dry_run(c.config, c.tree).limits;
  };
  CHECK(limits({}).empty());
  const std::vector<std::string> bf16 = {"trainer.device=cuda", kMegatron + "dtype=bfloat16",
                                         kA + "ref.megatron.dtype=bfloat16"};
  std::vector<std::string> machines = bf16;
  machines.push_back("trainer.nnodes=2");
  CHECK(limits(bf16).empty());
  REQUIRE(limits(machines).size() == 1);
  CHECK_THAT(failure(valid_run(), machines),
             ContainsSubstring("has 1 problem") && ContainsSubstring(limits(machines).front()));
  machines.push_back("trainer.total_epochs=0");
  CHECK_THROWS_WITH(limits(machines), ContainsSubstring("has 2 problems") &&
                                          ContainsSubstring("2. trainer.nnodes = 2 (override "));
  CHECK_THAT(failure(valid_run(), {"trainer.n_gpus_per_node=65536", "trainer.nnodes=2"}),
             ContainsSubstring("the world, 131072 = ") &&
                 ContainsSubstring(", must be at most 65536 ranks"));
}

TEST_CASE("a folder to resume from that nobody reads is named") {
  const std::string key = "trainer.resume_from_path";
  for (const char* mode : {"auto", "disable"}) {
    CHECK(
        warnings({key + "=/nope", std::string("trainer.resume_mode=") + mode}) ==
        std::vector<std::string>{
            key + " = '/nope' (override 20) has no effect unless trainer.resume_mode=resume_path"});
  }
}

TEST_CASE("all failures come in one numbered report") {
  const std::string message =
      failure(valid_run(),
              {"trainer.total_epochs=0", kA + "actor.ppo_epochs=0", "algorithm.adv_estimator=gae"});
  CHECK_THAT(message, ContainsSubstring("the configuration has 3 problems:"));
  CHECK_THAT(message, ContainsSubstring("\n  1. algorithm.adv_estimator") &&
                          ContainsSubstring("\n  2. ") &&
                          ContainsSubstring("\n  3. trainer.total_epochs = 0 (override 20): "));
}
