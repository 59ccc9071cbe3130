#include <chrono>

#include "run_binary.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using verlcpp::test::Outcome;
using verlcpp::test::run_binary;
using verlcpp::test::TemporaryFolder;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kChecksPassed =
    "[validate_config] All configuration checks passed successfully!\n";
const std::string kMegatron = kA + "actor.megatron.";

const char* const kPrompts =
    R"({"data_source": "openai/gsm8k", "prompt": [{"role": "user", "content": "ab"}], )"
    R"("reward_model": {"style": "rule", "ground_truth": "1"}})"
    "\n";

/// The three lines that switch dynamic CP on, over a small valid run.
Outcome dry_run(const std::vector<std::string>& more) {
  const TemporaryFolder folder;
  std::string prompts;
  for (int i = 0; i < 16; ++i) prompts += kPrompts;
  const std::string data = folder.write("train.jsonl", prompts);
  std::vector<std::string> arguments = {"--dry-run",
                                        "trainer.device=cpu",
                                        "trainer.logger=[console,file]",
                                        "trainer.nnodes=1",
                                        "trainer.n_gpus_per_node=8",
                                        "algorithm.adv_estimator=grpo",
                                        "data.train_files=" + data,
                                        "data.train_batch_size=8",
                                        "trainer.total_epochs=15",
                                        "data.max_prompt_length=64",
                                        "data.max_response_length=192",
                                        kA + "model.path=" VERLCPP_TEST_DATA "/qwen3",
                                        kA + "actor.ppo_mini_batch_size=4",
                                        kMegatron + "dtype=float32",
                                        kA + "ref.megatron.dtype=float32",
                                        kA + "rollout.name=vllm",
                                        kA + "rollout.n=4",
                                        kMegatron + "context_parallel_size=4",
                                        kMegatron + "dynamic_context_parallel=True",
                                        kMegatron + "max_seqlen_per_dp_cp_rank=4096"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_binary(arguments);
}

}  // namespace

TEST_CASE("a dry run for GPUs tells what each of them takes beside its ranks") {
  const std::string line = "\n  on each GPU 1.00 GiB more for CUDA's libraries, and its context\n";
  CHECK_THAT(dry_run({"trainer.device=cuda"}).out, ContainsSubstring(line));
  CHECK_THAT(dry_run({"trainer.device=cpu"}).out, !ContainsSubstring("on each GPU"));
}

TEST_CASE("the three-line example runs dry") {
  const Outcome outcome = dry_run({});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK_THAT(outcome.out, ContainsSubstring("dataset len: 16\n" + kChecksPassed + "model: "));
  CHECK_THAT(outcome.out,
             ContainsSubstring("DPxCP pool 8") && ContainsSubstring("limit 4096 tokens per rank"));
  CHECK_THAT(outcome.out, ContainsSubstring("rank  tp  cp  dp  pool rank\n") &&
                              ContainsSubstring("memory of one rank"));
  CHECK_THAT(outcome.out, ContainsSubstring("data: 16 prompts, 30 steps"));
  CHECK_THAT(outcome.out, ContainsSubstring("all sequences as long as can be: 16 sequences") &&
                              ContainsSubstring("its prompts with responses spread evenly"));
  CHECK_THAT(outcome.out, ContainsSubstring("estimated totals of 30 such steps: 960 responses, "));
}

TEST_CASE("a dry run under responses of an assumed length") {
  const Outcome outcome = dry_run({"--assume-response-length", "20", "trainer.device=cuda"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("worst case    responses of 20 tokens at most\n") &&
                              ContainsSubstring("its prompts with responses of 20 tokens\n") &&
                              ContainsSubstring("rank  tp  cp  dp  pool rank  gpu\n") &&
                              ContainsSubstring("\n   7   0   3   1          7    7\n"));
}

TEST_CASE("a dry run's longest response is the rollout's") {
  const auto totals = [](const std::vector<std::string>& more) {
    const std::string out = dry_run(more).out;
    const size_t at = out.find("estimated totals of ");
    REQUIRE(at != std::string::npos);
    return out.substr(at);
  };
  const std::string ours = kA + "rollout.response_length=5";
  CHECK(totals({ours}) != totals({}));
  CHECK(totals({ours}) == totals({"data.max_response_length=5"}));
  const Outcome beyond = dry_run({ours, "--assume-response-length=6"});
  CHECK(beyond.code == 2);
  CHECK_THAT(beyond.err,
             ContainsSubstring("must be from 1 to " + kA + "rollout.response_length = 5"));
}

TEST_CASE("a dry run of thousands of ranks takes no time to speak of") {
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = dry_run({"--assume-response-length=20", "trainer.device=cuda",
                                   "trainer.n_gpus_per_node=4096", kA + "rollout.n=256"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("... 4032 more ranks\n") &&
                              ContainsSubstring("  mini-batch 2: 1024 sequences"));
  // Two seconds, and room for a busy machine and instrumented builds.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("a dry run shows a world that this build cannot run, and ends with why") {
  const std::vector<std::string> machines = {"trainer.device=cuda", "trainer.nnodes=8"};
  const Outcome gpus = dry_run(machines);
  CHECK(gpus.code == 2);
  CHECK_THAT(gpus.out, ContainsSubstring("layout: world 64 = nnodes 8 x n_gpus_per_node 8") &&
                           ContainsSubstring("rank  tp  cp  dp  pool rank  node  gpu\n") &&
                           ContainsSubstring("\n  63   0   3  15         63     7    7\n") &&
                           ContainsSubstring("memory of one rank") &&
                           ContainsSubstring("estimated totals of 30 such steps"));
  CHECK(gpus.err ==
        "error: the configuration has 1 problem:\n  1. trainer.nnodes = 8 (override 21): GPUs of "
        "several machines are not implemented; must be 1 unless trainer.device=cpu\n");

  const Outcome threads = dry_run({"trainer.nnodes=64"});
  CHECK(threads.code == 2);
  CHECK_THAT(threads.out, ContainsSubstring("estimated totals of 30 such steps"));
  CHECK_THAT(threads.err, ContainsSubstring("at most 256 ranks, each a thread, but the world is "
                                            "512 = trainer.nnodes = 64 (override 20) x "));

  const Outcome both = dry_run({machines[0], machines[1], "data.train_batch_size=0"});
  CHECK(both.code == 2);
  CHECK_THAT(both.out, !ContainsSubstring("layout: "));
  CHECK_THAT(both.err, ContainsSubstring("GPUs of several machines are not implemented") &&
                           ContainsSubstring("data.train_batch_size = 0"));
}

TEST_CASE("a world beyond any cluster is refused at once") {
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = dry_run({"trainer.device=cuda", "trainer.n_gpus_per_node=1048576",
                                   kMegatron + "dynamic_context_parallel=False"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("the world, 1048576 = trainer.n_gpus_per_node = "
                                            "1048576 (override 21), must be at most 65536 ranks"));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("a dry run reads the data") {
  const TemporaryFolder folder;
  const std::string file = folder.write("bad.jsonl", std::string(kPrompts) + "{\"prompt\": 3}\n");
  const Outcome outcome = dry_run({"data.train_files=" + file});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("bad.jsonl:2"));
  CHECK_THAT(outcome.out, !ContainsSubstring(kChecksPassed));
}

TEST_CASE("a value that cannot be read hides no other mistake, and makes none up") {
  const Outcome outcome = dry_run({"trainer.n_gpus_per_node=x", kA + "rollout.n=0",
                                   kA + "actor.megatron.context_parallel_size=3",
                                   "data.train_files=/nope", "trainer.total_epoch=3"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("there is no key trainer.total_epoch"));
  const Outcome read = dry_run({"trainer.n_gpus_per_node=x", kA + "rollout.n=0",
                                kA + "actor.megatron.context_parallel_size=3",
                                "data.train_files=/nope", "++trainer.total_epoch=3"});
  CHECK(read.code == 2);
  CHECK_THAT(read.err, ContainsSubstring("the configuration has 4 problems:") &&
                           ContainsSubstring("trainer.n_gpus_per_node='x'") &&
                           ContainsSubstring("trainer.total_epoch (override") &&
                           ContainsSubstring("actor_rollout_ref.rollout.n = 0 (override") &&
                           ContainsSubstring("data.train_files = '/nope'"));
}

TEST_CASE("a dry run knows a place that takes no files") {
  const Outcome outcome =
      dry_run({"trainer.save_freq=1", "trainer.default_local_dir=/proc/checkpoints",
               "trainer.project_name=/proc", kA + "rollout.record_path=/proc/recording",
               "trainer.rollout_data_dir=/proc/rollouts", "trainer.validation_data_dir=/proc/val"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("the configuration has 5 problems:") &&
                              ContainsSubstring("trainer.default_local_dir = '/proc/checkpoints' "
                                                "(override 21): cannot be written (/proc takes no "
                                                "new files); must be a folder for checkpoints"));
  const Outcome folder = dry_run({"hydra.run.dir=/proc/run", "trainer.logger=[console]"});
  CHECK(folder.code == 2);
  CHECK_THAT(folder.err, ContainsSubstring("the run's folder /proc/run: cannot be written (/proc "
                                           "takes no new files); hydra.run.dir"));

  const Outcome once =
      dry_run({"hydra.run.dir=/proc/run", "trainer.save_freq=1",
               "trainer.rollout_data_dir=rollouts", kA + "rollout.record_path=recording"});
  CHECK(once.code == 2);
  CHECK_THAT(once.err, ContainsSubstring("the configuration has 1 problem:\n  1. the run's folder "
                                         "/proc/run: cannot be written"));
  const Outcome beside = dry_run({"hydra.run.dir=/proc/run", "trainer.save_freq=1",
                                  "trainer.default_local_dir=/proc/checkpoints"});
  CHECK_THAT(beside.err, ContainsSubstring("the configuration has 2 problems:") &&
                             ContainsSubstring("trainer.default_local_dir = '/proc/checkpoints'"));
}

TEST_CASE("what is cut, sampled and dropped of the prompts is said as verl says it") {
  const Outcome cut = dry_run({"data.max_prompt_length=1", "data.truncation=left",
                               "data.train_max_samples=10", "data.shuffle=False"});
  CHECK(cut.code == 0);
  CHECK_THAT(cut.err, ContainsSubstring("warning: data.train_files: 16 of 16 prompts are longer "
                                        "than data.max_prompt_length=1 tokens and cut "
                                        "(data.truncation=left)\n"));
  CHECK_THAT(cut.out, ContainsSubstring("dataset len: 16\nselected 10 first samples out of 16\n"));
  CHECK_THAT(cut.out, !ContainsSubstring("filter dataset len"));

  const TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 8; ++i) rows += kPrompts;
  const std::string file = folder.write("long.jsonl", rows + rows);
  std::string robots = kPrompts;
  robots.replace(robots.find("user"), 4, "robot");
  const std::string other = folder.write("other.jsonl", robots);
  const Outcome filtered =
      dry_run({"data.train_files=[" + file + "," + other + "]", "data.val_files=" + file,
               "data.val_max_samples=3", "data.filter_overlong_prompts=True",
               "data.filter_overlong_prompts_workers=4"});
  CHECK(filtered.code == 0);
  CHECK_THAT(filtered.out,
             ContainsSubstring("dataset len: 17\n"
                               "data.train_files: 1 row of 17 dropped "
                               "(data.filter_overlong_prompts=True):\n  " +
                               other +
                               ":1: prompt[0].role is \"robot\"; valid: system, developer, "
                               "user, assistant, tool\n"
                               "filter dataset len: 16\n"
                               "dataset len: 16\nselected 3 random samples out of 16\n"
                               "filter dataset len: 3\n"));
}

TEST_CASE("a dry run of a replay schedules the recorded lengths") {
  const TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 2; ++i) {
    rows += R"({"uid": "a", "prompt_ids": [1], "response_ids": [2)" +
            std::string(i == 0 ? "" : ", 3") + "], \"reward\": 0.5}\n";
  }
  const Outcome outcome = dry_run(
      {kA + "rollout.name=replay", kA + "rollout.replay_path=" + folder.write("r.jsonl", rows),
       "data.train_batch_size=1", kA + "actor.ppo_mini_batch_size=1", kA + "rollout.n=2",
       "trainer.n_gpus_per_node=2", kMegatron + "context_parallel_size=1",
       "trainer.total_training_steps=1"});
  CHECK(outcome.err.empty());
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("data: recorded trajectories, 1 steps"));
  CHECK_THAT(outcome.out,
             ContainsSubstring("schedule of the first step, recorded trajectories\n") &&
                 ContainsSubstring("  mini-batch 1: 2 sequences, 1 micro-batches, "
                                   "5 tokens (5 padded); CP groups 2 of size 1"));
}

TEST_CASE("a dry run warns of the documented mistake and still succeeds") {
  const Outcome outcome = dry_run({"data.max_token_len_per_gpu=1024"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.err, StartsWith("warning: ") && ContainsSubstring("the documented mistake"));
}

TEST_CASE("every violated precondition gives its message and exit code 2") {
  const std::string limit =
      "max_seqlen_per_dp_cp_rank must be a positive integer when dynamic_context_parallel is "
      "enabled";
  const std::string overrides = "+" + kMegatron + "override_transformer_config.";
  const std::vector<std::pair<std::vector<std::string>, std::string>> table = {
      {{kMegatron + "max_seqlen_per_dp_cp_rank=null"}, limit},
      {{kMegatron + "max_seqlen_per_dp_cp_rank=0"}, limit},
      {{kMegatron + "max_seqlen_per_dp_cp_rank=-1"}, limit},
      {{kMegatron + "max_seqlen_per_dp_cp_rank=True"}, limit},
      {{kMegatron + "max_seqlen_per_dp_cp_rank=\"4096\""}, limit},
      {{kMegatron + "max_seqlen_per_dp_cp_rank=4096.0"}, limit},
      {{kA + "ref.megatron.max_seqlen_per_dp_cp_rank=0"}, limit},
      {{"trainer.n_gpus_per_node=3", kMegatron + "context_parallel_size=1"},
       "Dynamic CP requires the DPxCP world size to be an even integer of at least two, got "
       "DPxCP=3."},
      {{kA + "model.use_remove_padding=False"}, "Dynamic CP requires use_remove_padding=True"},
      {{kMegatron + "pad_to_length=True"}, "Dynamic CP does not support pad_to_length"},
      {{"algorithm.adv_estimator=gae"}, "Dynamic CP currently supports language models only"},
      {{"critic.enable=True"}, "Dynamic CP currently supports language models only"},
      {{kMegatron + "virtual_pipeline_model_parallel_size=2"},
       "Dynamic CP does not support virtual pipeline parallelism"},
      {{overrides + "fp8=e4m3"}, "Dynamic CP does not support FP8"},
      {{"distillation.enabled=True"}, "Dynamic CP does not support distillation"},
      {{kMegatron + "router_replay.mode=R2", overrides + "moe_router_fusion=True"},
       "Dynamic CP router replay requires moe_router_fusion=False"},
      {{kMegatron + "max_seqlen_per_dp_cp_rank=20"}, "the longest response that fits is 96"}};
  for (const auto& [arguments, message] : table) {
    INFO(arguments.front());
    const Outcome outcome = dry_run(arguments);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.out, !ContainsSubstring("layout: "));
    CHECK_THAT(outcome.err,
               StartsWith("error: the configuration has ") && ContainsSubstring(message));
  }
}

TEST_CASE("missing model and data are named with key, origin and path, before anything is loaded") {
  const Outcome outcome =
      dry_run({kA + "model.path=/none/model", "data.train_files=[/none/data.jsonl]"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("the configuration has 2 problems:"));
  CHECK_THAT(outcome.err, ContainsSubstring(kA + "model.path = ") &&
                              ContainsSubstring("/none/model") &&
                              ContainsSubstring("(override 20)"));
  CHECK_THAT(outcome.err, ContainsSubstring("data.train_files = ") &&
                              ContainsSubstring("(override 21)") &&
                              ContainsSubstring("/none/data.jsonl: no such file"));
}

TEST_CASE("a mistyped value is refused with its key and origin") {
  const Outcome outcome = dry_run({"data.train_batch_size=many"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err,
             ContainsSubstring("data.train_batch_size") && ContainsSubstring("override 20"));
}
