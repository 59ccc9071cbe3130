// Whole runs through the executable: what the main job promises a user.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "small_run.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using namespace verlcpp::test;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";

/// Rows of the metrics file without what depends on the clock and the machine.
std::vector<json> metrics(const TemporaryFolder& folder) {
  std::vector<json> rows;
  for (const std::string& line : metrics_lines(folder.path())) rows.push_back(json::parse(line));
  return rows;
}

/// SHA-256 of a checkpoint's file, from its manifest.
std::string digest(const TemporaryFolder& folder, int step, const std::string& file) {
  std::ifstream in(folder.path() + "/checkpoints/global_step_" + std::to_string(step) +
                   "/actor/ckpt_contents.json");
  return json::parse(in)["sha256"][file].get<std::string>();
}

/// The text of a safetensors file with one more tensor, four bytes named `name`.
std::string with_tensor(const std::string& file, const std::string& name) {
  uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof size);
  const std::string data = file.substr(sizeof size + size) + std::string(4, '\0');
  json header = json::parse(file.substr(sizeof size, size));
  header[name] = {
      {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {data.size() - 4, data.size()}}};
  const std::string text = header.dump();
  std::string length(sizeof size, '\0');
  size = text.size();
  std::memcpy(length.data(), &size, sizeof size);
  return length + text + data;
}

}  // namespace

TEST_CASE("tensors that the model does not use are warned of once, whatever the ranks") {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const std::string model = folder.path() + "/model", weights = model + "/model.safetensors";
  fs::copy(VERLCPP_TEST_DATA "/qwen2", model);
  const std::string more = with_tensor(file_text(weights), "lm_head.extra");
  std::ofstream(weights, std::ios::binary) << more;
  const Outcome outcome = expect_success(quickstart(
      folder.path(), 1, {kA + "model.path=" + model, "data.filter_overlong_prompts=True"}));
  const std::string warning = "tensors not used by this model: lm_head.extra\n";
  const size_t first = outcome.err.find(warning);
  REQUIRE(first != std::string::npos);
  CHECK(outcome.err.find(warning, first + 1) == std::string::npos);
}

TEST_CASE("a run ends with its metrics, checkpoint, export and plot") {
  const TemporaryFolder folder;
  const Outcome outcome = expect_success(quickstart(folder.path(), 2));
  CHECK_THAT(outcome.out, ContainsSubstring("start to first training step:") &&
                              ContainsSubstring("step:2 - training/global_step:2") &&
                              ContainsSubstring("Hugging Face export:") &&
                              ContainsSubstring("mean reward"));
  const auto rows = metrics(folder);
  REQUIRE(rows.size() == 2);
  for (const char* name : {"actor/entropy", "actor/pg_loss", "actor/grad_norm", "actor/lr",
                           "critic/score/mean", "response_length/clip_ratio", "prompt_length/max",
                           "global_seqlen/mean", "training/rollout_probs_diff_max",
                           "schedule/tokens", "schedule/padded_tokens", "schedule/groups_cp1"}) {
    INFO(name);
    CHECK(rows[0]["data"].contains(name));
  }
  // Sampling and training see the same probabilities.
  CHECK(rows[0]["data"]["training/rollout_probs_diff_max"].get<double>() < 1e-5);
  namespace fs = std::filesystem;
  const fs::path step = folder.path() + "/checkpoints/global_step_2";
  for (const char* file :
       {"actor/model/huggingface/model.safetensors", "actor/model/huggingface/config.json",
        "actor/model/huggingface/tokenizer.json", "actor/ckpt_contents.json",
        "actor/optimizer/dist_ckpt/optimizer.safetensors", "state.json"}) {
    INFO(file);
    CHECK(fs::exists(step / file));
  }
}

TEST_CASE("a resumed run is the uninterrupted one, bit for bit") {
  const TemporaryFolder whole, parts;
  const std::vector<std::string> more{"trainer.save_freq=2", "algorithm.use_kl_in_reward=True",
                                      "algorithm.kl_ctrl.type=adaptive",
                                      kA + "actor.optim.total_training_steps=4"};
  expect_success(quickstart(whole.path(), 4, more));
  expect_success(quickstart(parts.path(), 2, more));
  const Outcome resumed = expect_success(quickstart(parts.path(), 4, more));
  CHECK_THAT(resumed.out, ContainsSubstring("Resuming from") && ContainsSubstring("(step 2)"));
  CHECK(metrics(parts) == metrics(whole));
  for (const char* file : {"actor/model/huggingface/model.safetensors",
                           "actor/optimizer/dist_ckpt/optimizer.safetensors"}) {
    CHECK(digest(parts, 4, file) == digest(whole, 4, file));
  }
}

TEST_CASE("an export alone is loaded too; the optimizer begins anew") {
  const TemporaryFolder exported, model;
  const std::string contents = kA + "actor.checkpoint.save_contents=";
  const std::string same = kA + "actor.optim.total_training_steps=4";
  for (const auto& [folder, what] : {std::pair{&exported, "[hf_model]"}, {&model, "[model]"}}) {
    expect_success(quickstart(folder->path(), 2, {contents + what, same}));
    const Outcome resumed = expect_success(quickstart(folder->path(), 3, {contents + what, same}));
    CHECK_THAT(resumed.out, ContainsSubstring("(step 2)"));
  }
  CHECK(metrics(exported) == metrics(model));
  const TemporaryFolder whole;
  expect_success(quickstart(whole.path(), 3, {same}));
  // The third step samples from the weights after two, not from the first ones.
  const auto score = [](const TemporaryFolder& folder) {
    return metrics(folder).at(2)["data"]["actor/entropy"].get<double>();
  };
  CHECK(score(exported) == Approx(score(whole)).epsilon(1e-6));
}

TEST_CASE("a checkpoint of another model, or without an optimizer, is refused by name") {
  const TemporaryFolder folder;
  expect_success(quickstart(folder.path(), 1, {kA + "actor.checkpoint.save_contents=[model]"}));
  const Outcome bare = run_binary(quickstart(folder.path(), 2));
  CHECK(bare.code == 2);
  CHECK_THAT(bare.err, ContainsSubstring("load_contents names optimizer"));
  const Outcome other = run_binary(quickstart(
      folder.path(), 2,
      {kA + "model.path=" VERLCPP_TEST_DATA "/qwen2", "data.filter_overlong_prompts=True"}));
  CHECK(other.code == 2);
  CHECK_THAT(other.err, ContainsSubstring("was written for another model") &&
                            ContainsSubstring("trainer.resume_mode=disable"));
}

TEST_CASE("a finished run says that nothing is left; a changed key is named") {
  const TemporaryFolder folder;
  expect_success(quickstart(folder.path(), 2));
  const Outcome again = expect_success(quickstart(folder.path(), 1, {kA + "actor.clip_ratio=0.3"}));
  CHECK_THAT(again.err, ContainsSubstring("nothing to train: the checkpoint is at step 2 of 1"));
  CHECK_THAT(again.out, ContainsSubstring("actor_rollout_ref.actor.clip_ratio: 0.2 -> 0.3"));
}

TEST_CASE("an update whose gradient is not finite is skipped and said") {
  const TemporaryFolder folder;
  const Outcome outcome = expect_success(
      quickstart(folder.path(), 2, {kA + "actor.optim.lr=1e30", kA + "actor.optim.clip_grad=0"}));
  CHECK_THAT(outcome.err, ContainsSubstring("grad_norm of update") &&
                              ContainsSubstring("the update was skipped"));
}

TEST_CASE("a checkpoint folder that cannot be written is known before training") {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "");
  const Outcome outcome =
      run_binary(quickstart(folder.path(), 1, {"trainer.default_local_dir=" + file + "/sub"}));
  CHECK((outcome.code == 2 || outcome.code == 3));
  CHECK_THAT(outcome.err, ContainsSubstring("trainer.default_local_dir"));
  CHECK_THAT(outcome.out, !ContainsSubstring("step:1"));
}

TEST_CASE("a run that does not save leaves no checkpoint of another one beside its rows") {
  const TemporaryFolder folder, whole;
  const std::vector<std::string> same{kA + "actor.optim.total_training_steps=8"};
  auto other = same;
  other.insert(other.end(), {"trainer.save_freq=-1", "trainer.resume_mode=disable",
                             kA + "rollout.seed=77", "trainer.logger=[console]"});
  expect_success(quickstart(folder.path(), 2, same));
  // Without rows of its own it has no claim to the folder.
  expect_success(quickstart(folder.path(), 2, other));
  CHECK(tracked_step(folder.path()) == 2);
  other.pop_back();
  const Outcome taken = expect_success(quickstart(folder.path(), 2, other));
  CHECK_THAT(taken.err, ContainsSubstring("held a run saved up to step 2") &&
                            ContainsSubstring("now goes on from this run's first save"));
  CHECK(strays(folder.path()).empty());
  const Outcome again = expect_success(quickstart(folder.path(), 3, same));
  CHECK_THAT(again.out, !ContainsSubstring("Resuming from"));
  expect_success(quickstart(whole.path(), 3, same));
  CHECK(metrics(folder) == metrics(whole));
}

TEST_CASE("rows after the resumed step and a torn line are cut from the metrics file") {
  const TemporaryFolder folder;
  expect_success(quickstart(folder.path(), 3, {"trainer.save_freq=2"}));
  const auto want = metrics(folder);
  std::filesystem::remove_all(folder.path() + "/checkpoints/global_step_3");
  std::ofstream(folder.path() + "/checkpoints/latest_checkpointed_iteration.txt") << 2;
  std::ofstream(folder.path() + "/logs/run.jsonl", std::ios::app) << R"({"step":4,"da)";
  const Outcome resumed = expect_success(quickstart(folder.path(), 3, {"trainer.save_freq=2"}));
  CHECK_THAT(resumed.err, ContainsSubstring("cut 1 row(s) after step 2 and a torn line"));
  CHECK(metrics(folder) == want);
}

TEST_CASE("a recorded run replays to the same numbers, also on another layout") {
  const TemporaryFolder recorded, replayed, other;
  const std::string file = recorded.path() + "/rows.jsonl";
  expect_success(quickstart(recorded.path(), 2, {kA + "rollout.record_path=" + file}));
  const std::vector<std::string> replay{kA + "rollout.name=replay",
                                        kA + "rollout.replay_path=" + file};
  expect_success(quickstart(replayed.path(), 2, replay));
  auto want = metrics(recorded);
  CHECK(metrics(replayed) == want);

  auto one_rank = replay;
  one_rank.insert(
      one_rank.end(),
      {"trainer.n_gpus_per_node=1", kMegatron + "context_parallel_size=1",
       kMegatron + "dynamic_context_parallel=False", "data.max_token_len_per_gpu=4096"});
  expect_success(quickstart(other.path(), 2, one_rank));
  const auto got = metrics(other);
  for (const char* name : {"actor/pg_loss", "actor/grad_norm", "actor/entropy"}) {
    INFO(name);
    CHECK(got[1]["data"][name].get<double>() ==
          Approx(want[1]["data"][name].get<double>()).epsilon(1e-4).margin(1e-6));
  }
}

TEST_CASE("mixed temperatures meet the fused kernels' rule; too few rows are refused") {
  const TemporaryFolder folder;
  const std::string row = R"("prompt_ids":[1,2],"response_ids":[3,4],"reward":)";
  std::string rows;
  for (int i = 0; i < 16; ++i) {
    rows += R"({"uid":"g)" + std::to_string(i / 4) + "\"," + row + std::to_string(i % 2) +
            ",\"temperature\":" + (i % 4 == 3 ? "0.5" : "1.0") + "}\n";
  }
  const std::string file = folder.write("rows.jsonl", rows);
  const std::vector<std::string> replay{kA + "rollout.name=replay",
                                        kA + "rollout.replay_path=" + file};
  expect_success(quickstart(folder.path(), 1, replay));
  auto fused = replay;
  fused.push_back(kA + "model.use_fused_kernels=True");
  const TemporaryFolder second;
  const Outcome outcome = run_binary(quickstart(second.path(), 1, fused));
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("uniform temperature"));
  const Outcome few = run_binary(quickstart(second.path(), 2, replay));
  CHECK(few.code == 2);
  CHECK_THAT(few.err, ContainsSubstring("rows"));
}

TEST_CASE("a Hugging Face folder and a JSONL of one's own train by naming them alone") {
  const TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 8; ++i) {
    rows += R"({"data_source":"verlcpp/cycle","prompt":[{"role":"user","content":"ab"}],)"
            R"("reward_model":{"style":"rule","ground_truth":"b 2 12"}})"
            "\n";
  }
  const Outcome outcome = expect_success(
      quickstart(folder.path(), 2,
                 {"data.train_files=" + folder.write("mine.jsonl", rows),
                  kA + "model.path=" VERLCPP_TEST_DATA "/qwen2", kA + "rollout.n=16"}));
  CHECK_THAT(outcome.err, !ContainsSubstring("random"));
  double moved = 0;
  for (const json& row : metrics(folder)) moved += row["data"]["actor/grad_norm"].get<double>();
  CHECK(moved > 0);
}
