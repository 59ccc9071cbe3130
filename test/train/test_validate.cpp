#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "setup.h"
#include "support/catch.h"
#include "train/validate.h"

using namespace verlcpp;
using Catch::Matchers::ContainsSubstring;
using test::configured;
using test::valid_dynamic_run;
using test::valid_run;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";
const std::string kLimitMessage =
    "max_seqlen_per_dp_cp_rank must be a positive integer when dynamic_context_parallel is enabled";

std::string failure(const std::vector<std::string>& base, const std::vector<std::string>& more) {
  const test::Configured c = configured(base, more);
  try {
    train::validate(c.config, c.tree);
  } catch (const ConfigError& e) {
    CHECK(e.exit_code() == 2);
    return e.what();
  }
  return "valid";
}

std::vector<std::string> warnings(const std::vector<std::string>& more) {
  const test::Configured c = configured(valid_run(), more);
  return train::validate(c.config, c.tree);
}

struct Bad {
  std::vector<std::string> overrides;
  std::string key, message;  // both must be in the report, and it is the only problem
};

void check_table(const std::vector<std::string>& base, const std::vector<Bad>& table) {
  for (const Bad& bad : table) {
    INFO(bad.overrides.front() << " ... " << bad.overrides.back());
    const std::string message = failure(base, bad.overrides);
    CHECK_THAT(message, ContainsSubstring(bad.key) && ContainsSubstring(bad.message));
    CHECK_THAT(message, ContainsSubstring("the configuration has 1 problem:"));
  }
}

/// A model folder with the text of a config.json, removed at the end.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& json)
      : path_(std::filesystem::temp_directory_path() /
              ("verlcpp_validate_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
    std::ofstream(path_ / "config.json") << json;
  }
  ~ModelFolder() { std::filesystem::remove_all(path_); }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  void write(const std::string& name) const { std::ofstream(path_ / name) << "x\n"; }
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

TEST_CASE("max_seqlen_per_dp_cp_rank must be a positive int, actor and reference alike") {
  for (const std::string value : {"null", "0", "-1", "True", "'4096'", "4096.0"}) {
    INFO(value);
    const std::string actor =
        failure(valid_dynamic_run(), {kMegatron + "max_seqlen_per_dp_cp_rank=" + value});
    CHECK_THAT(actor, ContainsSubstring(kMegatron + "max_seqlen_per_dp_cp_rank = "));
    CHECK_THAT(actor, ContainsSubstring("(override 22): " + kLimitMessage));
    // The reference inherits the value; one line says it.
    CHECK_THAT(actor, ContainsSubstring("the configuration has 1 problem:"));
    const std::string ref =
        failure(valid_dynamic_run(), {kA + "ref.megatron.max_seqlen_per_dp_cp_rank=" + value});
    CHECK_THAT(ref, ContainsSubstring(kA + "ref.megatron.max_seqlen_per_dp_cp_rank = "));
    CHECK_THAT(ref, ContainsSubstring(kLimitMessage) &&
                        ContainsSubstring("the configuration has 1 problem:"));
  }
  SECTION("without dynamic CP the value is not looked at") {
    CHECK(failure(valid_run(), {kMegatron + "max_seqlen_per_dp_cp_rank='x'"}) == "valid");
  }
  SECTION("a reference of its own with dynamic CP") {
    CHECK_THAT(failure(valid_run(), {kA + "ref.megatron.dynamic_context_parallel=True"}),
               ContainsSubstring(kA + "ref.megatron.max_seqlen_per_dp_cp_rank") &&
                   ContainsSubstring(kLimitMessage));
  }
}

TEST_CASE("the DPxCP world must be even and at least two") {
  const auto world = [](int gpus) {
    return failure(
        valid_dynamic_run(),
        {"trainer.n_gpus_per_node=" + std::to_string(gpus), kMegatron + "context_parallel_size=1",
         "data.train_batch_size=42", kA + "actor.ppo_mini_batch_size=42", kA + "rollout.n=3",
         kMegatron + "max_seqlen_per_dp_cp_rank=256"});
  };
  for (const int good : {2, 6, 14}) CHECK(world(good) == "valid");
  for (const int bad : {1, 3, 7}) {
    CHECK_THAT(
        world(bad),
        ContainsSubstring("Dynamic CP requires the DPxCP world size to be an even integer of at "
                          "least two, got DPxCP=" +
                          std::to_string(bad) + ". n_gpus is " + std::to_string(bad) +
                          " = trainer.n_gpus_per_node"));
  }
}

TEST_CASE("sizes that are offered pass every check of the layout") {
  const auto offered = [](const std::vector<std::string>& more) {
    const std::string message = failure(valid_run(), more);
    const size_t at = message.find("nearest valid: ");
    return at == std::string::npos ? "none"
                                   : message.substr(at + 15, message.find('\n', at) - at - 15);
  };
  const std::string gpus = "trainer.n_gpus_per_node=", cp = kMegatron + "context_parallel_size=",
                    tp = kMegatron + "tensor_model_parallel_size=",
                    dynamic = kMegatron + "dynamic_context_parallel=True",
                    limit = kMegatron + "max_seqlen_per_dp_cp_rank=4096";
  CHECK(offered({gpus + "6", cp + "4"}) ==
        "trainer.n_gpus_per_node 4 or 8, or context_parallel_size 3 or 6");
  // An odd pool is none for dynamic CP: 3, 5 and 9 ranks are not offered, nor any CP size of 9.
  CHECK(offered({gpus + "4", cp + "3", dynamic, limit}) ==
        "trainer.n_gpus_per_node 6, or context_parallel_size 2 or 4");
  CHECK(offered({gpus + "9", cp + "2", dynamic, limit}) == "trainer.n_gpus_per_node 8 or 10");
  // The model has four heads and a feed-forward of 29: no TP but 1, and no world for TP 3.
  CHECK(offered({gpus + "4", cp + "2", tp + "3"}) == "tensor_model_parallel_size 1");
  // Ranks of a GPU and machines multiply.
  CHECK(offered({gpus + "3", cp + "8", "trainer.ranks_per_gpu=2"}) ==
        "trainer.n_gpus_per_node 4, or context_parallel_size 6");
}

TEST_CASE("dynamic CP preconditions, one message each") {
  const std::string overrides = "+" + kMegatron + "override_transformer_config.";
  check_table(valid_dynamic_run(),
              {{{kA + "model.use_remove_padding=False"},
                kA + "model.use_remove_padding = False",
                "Dynamic CP requires use_remove_padding=True"},
               {{kMegatron + "use_remove_padding=False"},
                kMegatron + "use_remove_padding = False",
                "Dynamic CP requires use_remove_padding=True"},
               {{kMegatron + "pad_to_length=True"},
                kMegatron + "pad_to_length",
                "Dynamic CP does not support pad_to_length"},
               {{"critic.enable=True"},
                "critic.enable",
                "Dynamic CP currently supports language models only"},
               {{"algorithm.adv_estimator=gae"},
                "algorithm.adv_estimator",
                "Dynamic CP currently supports language models only"},
               {{overrides + "fp8=hybrid"},
                kMegatron + "override_transformer_config.fp8",
                "Dynamic CP does not support FP8"},
               {{kMegatron + "virtual_pipeline_model_parallel_size=2"},
                kMegatron + "virtual_pipeline_model_parallel_size",
                "Dynamic CP does not support virtual pipeline parallelism"},
               {{"distillation.enabled=True"},
                "distillation.enabled",
                "Dynamic CP does not support distillation"},
               {{kMegatron + "router_replay.mode=R4"},
                kMegatron + "router_replay.mode",
                "Invalid router_replay mode: R4"},
               {{kMegatron + "router_replay.mode=R2"},
                kMegatron + "router_replay.mode",
                "router replay needs a mixture-of-experts model"},
               {{overrides + "min_dynamic_context_parallel_size=16"},
                "min_dynamic_context_parallel_size = 16",
                "of at most the DPxCP world size 8"},
               {{overrides + "min_dynamic_context_parallel_size=0"},
                "min_dynamic_context_parallel_size = 0",
                "must be a positive integer"},
               {{kMegatron + "dynamic_cp_scheduler=optimal"},
                kMegatron + "dynamic_cp_scheduler = 'optimal'",
                "must be default (Megatron-Core's) or balanced (by the cost model)"},
               {{kA + "actor.use_kl_loss=True", kA + "ref.megatron.dynamic_cp_scheduler=Default"},
                kA + "ref.megatron.dynamic_cp_scheduler = 'Default'",
                "must be default (Megatron-Core's) or balanced (by the cost model)"},
               {{kA + "actor.use_kl_loss=True", kA + "ref.megatron.dynamic_context_parallel=False"},
                kA + "ref.megatron.dynamic_context_parallel",
                "consistently on every colocated engine"}});
  SECTION("fp8 false or null is no fp8") {
    CHECK(failure(valid_dynamic_run(), {overrides + "fp8=False"}) == "valid");
    CHECK(failure(valid_dynamic_run(), {overrides + "fp8=null"}) == "valid");
  }
  SECTION("router replay with router fusion") {
    CHECK_THAT(failure(valid_dynamic_run(),
                       {kMegatron + "router_replay.mode=R3", overrides + "moe_router_fusion=True"}),
               ContainsSubstring("Dynamic CP router replay requires moe_router_fusion=False"));
  }
}

TEST_CASE("a sequence the pool cannot hold is refused with the longest response that fits") {
  const std::string message = failure(valid_dynamic_run(), {"data.max_response_length=2000"});
  CHECK_THAT(message,
             ContainsSubstring("data.max_prompt_length = 64 (override 8) + "
                               "data.max_response_length = 2000 (override 22) = 2064 tokens"));
  CHECK_THAT(message,
             ContainsSubstring("needs at least 17 ranks") && ContainsSubstring("only has 8 ranks"));
  CHECK_THAT(message, ContainsSubstring("the longest response that fits is 960"));
  CHECK_THAT(message, ContainsSubstring("Increase max_seqlen_per_dp_cp_rank"));
  SECTION("the exact limit fits the pool") {
    CHECK_THAT(
        failure(valid_dynamic_run(), {"data.max_response_length=960"}),
        ContainsSubstring("1 problem:") && ContainsSubstring("max_position_embeddings = 512"));
    for (const std::string group : {"", "model_config."}) {
      CHECK(failure(valid_dynamic_run(), {"data.max_response_length=960",
                                          "+" + kA + "model.override_config." + group +
                                              "max_position_embeddings=1024"}) == "valid");
    }
    CHECK(failure(valid_dynamic_run(), {kMegatron + "max_seqlen_per_dp_cp_rank=32"}) == "valid");
    CHECK_THAT(failure(valid_dynamic_run(), {kMegatron + "max_seqlen_per_dp_cp_rank=31"}),
               ContainsSubstring("the longest response that fits is 184"));
    CHECK_THAT(failure(valid_dynamic_run(), {kMegatron + "max_seqlen_per_dp_cp_rank=8"}),
               ContainsSubstring("no response fits after a prompt of 64"));
  }
  SECTION("static CP: the packed budget") {
    const std::vector<std::string> budget = {kA + "actor.use_dynamic_bsz=True",
                                             "data.max_token_len_per_gpu=63"};
    CHECK_THAT(failure(valid_run(), budget),
               ContainsSubstring("max_token_len must be greater than the sequence length") &&
                   ContainsSubstring("= 252") &&
                   ContainsSubstring("the longest response that fits is 188"));
    CHECK(failure(valid_run(), {budget[0], "data.max_token_len_per_gpu=64"}) == "valid");
  }
}

TEST_CASE("layout, devices and dtypes") {
  check_table(valid_run(),
              {{{"trainer.device=tpu"}, "trainer.device = ", "must be cuda, cpu, auto"},
               {{kMegatron + "dtype=bfloat16"},
                kMegatron + "dtype",
                "dtype bfloat16 not supported by trainer.device = 'cpu' (override 1), it needs "
                "trainer.device=cuda; must be one of float32, float64"},
               {{"trainer.device=check", kMegatron + "dtype=float64"},
                kMegatron + "dtype",
                "dtype float64 not supported by trainer.device = 'check' (override 20), it needs "
                "trainer.device=cpu; must be one of bfloat16, float32"},
               {{kMegatron + "dtype=int8"},
                kMegatron + "dtype",
                "dtype int8 not supported; must be one of"},
               {{kA + "actor.use_kl_loss=True", kA + "ref.megatron.dtype=float64"},
                kA + "ref.megatron.dtype",
                "the reference runs in the actor's dtype"},
               {{kA + "actor.use_kl_loss=True", kA + "ref.megatron.context_parallel_size=2"},
                kA + "ref.megatron.context_parallel_size",
                "the reference runs in the actor's layout"},
               {{kMegatron + "tensor_model_parallel_size=0"},
                kMegatron + "tensor_model_parallel_size",
                "must be a positive integer of at most 1048576"},
               {{kA + "actor.use_kl_loss=True", kA + "ref.megatron.tensor_model_parallel_size=2"},
                kA + "ref.megatron.tensor_model_parallel_size",
                "the reference runs in the actor's layout"},
               {{kMegatron + "pipeline_model_parallel_size=2"},
                kMegatron + "pipeline_model_parallel_size",
                "pipeline parallelism is not implemented; must be 1"},
               {{kMegatron + "context_parallel_size=0"},
                kMegatron + "context_parallel_size",
                "must be a positive integer"},
               {{"trainer.nnodes=0"}, "trainer.nnodes = 0", "must be a positive integer"},
               {{kMegatron + "context_parallel_size=3"},
                "n_gpus (8",
                "actor_rollout_ref.actor.megatron.context_parallel_size = 3 (override "},
               {{kA + "actor.strategy=fsdp"}, kA + "actor.strategy", "must be megatron"}});
}

TEST_CASE("batch arithmetic") {
  check_table(
      valid_run(),
      {{{"data.train_batch_size=2"}, "data.train_batch_size = 2", "train_batch_size must be >="},
       {{kA + "actor.ppo_mini_batch_size=3"}, kA + "actor.ppo_mini_batch_size = 3", "must divide"},
       {{kA + "actor.ppo_mini_batch_size=0"},
        kA + "actor.ppo_mini_batch_size = 0",
        "must be a positive integer"},
       {{kA + "actor.ppo_micro_batch_size_per_gpu=3"},
        "real_train_batch_size (32",
        "must be divisible by minimal possible batch size (6"},
       {{kA + "actor.ppo_micro_batch_size=4"},
        kA + "actor.ppo_micro_batch_size",
        "You have set both " + kA + "actor.ppo_micro_batch_size and"},
       {{kA + "actor.ppo_micro_batch_size_per_gpu=null"},
        kA + "actor.ppo_micro_batch_size_per_gpu",
        "must be a positive integer, unless "},
       {{kA + "rollout.log_prob_micro_batch_size_per_gpu=null"},
        kA + "rollout.log_prob_micro_batch_size_per_gpu",
        "must be a positive integer, unless "},
       {{kA + "actor.use_kl_loss=True", kA + "ref.log_prob_micro_batch_size_per_gpu=null"},
        kA + "ref.log_prob_micro_batch_size_per_gpu",
        "must be a positive integer, unless "},
       {{kA + "actor.use_dynamic_bsz=True", kA + "rollout.log_prob_use_dynamic_bsz=False"},
        kA + "rollout.log_prob_use_dynamic_bsz",
        "must equal " + kA + "actor.use_dynamic_bsz"},
       {{"data.max_token_len_per_gpu=4096", kA + "ref.log_prob_max_token_len_per_gpu=1",
         kA + "rollout.log_prob_max_token_len_per_gpu=0"},
        kA + "rollout.log_prob_max_token_len_per_gpu = 0",
        "must be a positive integer"},
       {{"data.max_prompt_length=0"}, "data.max_prompt_length = 0", "must be a positive integer"}});
  SECTION("dynamic CP needs no micro-batch size") {
    CHECK(failure(valid_dynamic_run(), {kA + "actor.ppo_micro_batch_size_per_gpu=null"}) ==
          "valid");
  }
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
       {{"trainer.logger=[console,telegraph]"}, "trainer.logger", "telegraph is no logger"},
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

TEST_CASE("all failures come in one numbered report") {
  const std::string message =
      failure(valid_run(),
              {"trainer.total_epochs=0", kA + "actor.ppo_epochs=0", "algorithm.adv_estimator=gae"});
  CHECK_THAT(message, ContainsSubstring("the configuration has 3 problems:"));
  CHECK_THAT(message, ContainsSubstring("\n  1. algorithm.adv_estimator") &&
                          ContainsSubstring("\n  2. ") &&
                          ContainsSubstring("\n  3. trainer.total_epochs = 0 (override 20): "));
}

TEST_CASE("what is only a warning") {
  const auto one = [](const std::vector<std::string>& more) {
    const std::vector<std::string> lines = warnings(more);
    REQUIRE(lines.size() == 1);
    return lines[0];
  };
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
