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

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";

std::vector<std::string> warnings(const std::vector<std::string>& more) {
  const test::Configured c = configured(valid_run(), more);
  return train::validate(c.config, c.tree);
}

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
       {{actor + "loss_agg_mode=mean"}, actor + "loss_agg_mode", "Invalid loss_agg_mode: mean"},
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
