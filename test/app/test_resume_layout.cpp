// Saved on one layout, resumed on another: the same samples, losses and weights.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "small_run.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace verlcpp::test;
using nlohmann::json;

namespace {

const std::string kMegatron = "actor_rollout_ref.actor.megatron.";

/// DCP unless said otherwise.
std::vector<std::string> layout(int world, int tp, int cp, const std::vector<std::string>& more) {
  std::vector<std::string> overrides{"trainer.n_gpus_per_node=" + std::to_string(world),
                                     kMegatron + "tensor_model_parallel_size=" + std::to_string(tp),
                                     kMegatron + "context_parallel_size=" + std::to_string(cp)};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<json> rows(const std::string& folder) {
  std::vector<json> out;
  for (const std::string& line : metrics_lines(folder)) out.push_back(json::parse(line));
  return out;
}

const std::vector<std::string> kFloat64{kMegatron + "dtype=float64",
                                        "actor_rollout_ref.ref.megatron.dtype=float64",
                                        "actor_rollout_ref.actor.use_kl_loss=True"};
const std::vector<std::string> kOneRank{kMegatron + "dynamic_context_parallel=False",
                                        "data.max_token_len_per_gpu=4096"};

/// Every number of both rows, but what the schedule of a layout decides.
void check_same_step(const json& got, const json& want) {
  REQUIRE(got["step"] == want["step"]);
  for (const auto& [name, value] : want["data"].items()) {
    if (name.starts_with("schedule/") && name != "schedule/tokens") continue;
    if (name.starts_with("global_seqlen/")) continue;  // of each data-parallel share
    INFO("step " << want["step"] << ", " << name);
    REQUIRE(got["data"].contains(name));
    CHECK(got["data"][name].get<double>() ==
          Approx(value.get<double>()).epsilon(1e-9).margin(1e-12));
  }
}

/// What a family's config.json has besides the quickstart's, as a merge patch.
struct Family {
  std::string name, config;
};
const std::vector<Family> kFamilies{
    {"Llama 3", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "use_sliding_window": null, "attention_bias": false, "mlp_bias": false,
        "rope_theta": 500.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
          "high_freq_factor": 4.0, "low_freq_factor": 1.0,
          "original_max_position_embeddings": 16}})"},
    {"SmolLM2", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "use_sliding_window": null, "attention_bias": false, "head_dim": null,
        "tie_word_embeddings": true, "num_key_value_heads": 4, "rope_scaling": null,
        "rope_theta": 100000})"},
    {"Mistral", R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral",
        "use_sliding_window": null, "sliding_window": 128, "head_dim": 20,
        "rope_theta": null, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}})"}};

/// The quickstart's model folder of another family.
std::string model_of(const Family& family, const TemporaryFolder& folder) {
  const std::string model = folder.path() + "/model";
  std::filesystem::copy(VERLCPP_QUICKSTART "/model", model);
  json config = json::parse(file_text(model + "/config.json"));
  config.merge_patch(json::parse(family.config));
  folder.write("model/config.json", config.dump());
  return model;
}

std::string exported(const TemporaryFolder& folder, int step) {
  return folder.path() + "/checkpoints/global_step_" + std::to_string(step) +
         "/actor/model/huggingface";
}

}  // namespace

TEST_CASE("a checkpoint continues on any layout") {
  const TemporaryFolder recording;
  const std::string samples = recording.path() + "/samples.jsonl";
  expect_success(quickstart(
      recording.path(), 4, joined(kFloat64, {"actor_rollout_ref.rollout.record_path=" + samples})));
  const auto replayed =
      joined(kFloat64, {"actor_rollout_ref.rollout.name=replay",
                        "actor_rollout_ref.rollout.replay_path=" + samples, "trainer.save_freq=2"});

  const std::vector<std::vector<std::string>> layouts{
      layout(4, 1, 2, {}), layout(1, 1, 1, kOneRank),
      layout(4, 2, 2, {kMegatron + "max_seqlen_per_dp_cp_rank=128"}),
      layout(8, 4, 1,
             {kMegatron + "max_seqlen_per_dp_cp_rank=128", kMegatron + "sequence_parallel=False"}),
      layout(6, 1, 3, {kMegatron + "use_distributed_optimizer=False"})};
  for (size_t from = 0; from < layouts.size(); ++from) {
    const TemporaryFolder first;
    expect_success(quickstart(first.path(), 4, joined(replayed, layouts[from])));
    const auto want = rows(first.path());
    REQUIRE(want.size() == 4);
    const size_t to = (from + 2) % layouts.size();
    INFO("from layout " << from << " to layout " << to);
    const TemporaryFolder second;
    const auto more = joined(
        layouts[to], {"trainer.resume_mode=resume_path",
                      "trainer.resume_from_path=" + first.path() + "/checkpoints/global_step_2"});
    expect_success(quickstart(second.path(), 4, joined(replayed, more)));
    const auto got = rows(second.path());
    REQUIRE(got.size() == 2);
    check_same_step(got[0], want[2]);
    check_same_step(got[1], want[3]);
  }
}

TEST_CASE("every family's checkpoint continues on CP 4 and on one rank; its export is the model") {
  const Family family = GENERATE(from_range(kFamilies));
  CAPTURE(family.name);
  const TemporaryFolder first;  // DP 2 x CP 2
  const std::string model = model_of(family, first), samples = first.path() + "/samples.jsonl";
  const std::vector<std::string> base = joined(kFloat64, {"trainer.save_freq=2"});
  const auto of_model = [&](const std::string& path, const std::vector<std::string>& more) {
    return joined(joined(base, more), {"actor_rollout_ref.model.path=" + path});
  };
  const auto replayed = [](const std::string& file) {
    return std::vector<std::string>{"actor_rollout_ref.rollout.name=replay",
                                    "actor_rollout_ref.rollout.replay_path=" + file};
  };
  expect_success(quickstart(
      first.path(), 4,
      of_model(model,
               joined(layout(4, 1, 2, {}), {"actor_rollout_ref.rollout.record_path=" + samples}))));
  const auto want = rows(first.path());
  for (const auto& other : {layout(4, 1, 4, {kMegatron + "dynamic_context_parallel=False"}),
                            layout(1, 1, 1, kOneRank)}) {
    const TemporaryFolder second;
    const auto resumed =
        joined(joined(other, replayed(samples)),
               {"trainer.resume_mode=resume_path",
                "trainer.resume_from_path=" + first.path() + "/checkpoints/global_step_2"});
    expect_success(quickstart(second.path(), 4, of_model(model, resumed)));
    const auto got = rows(second.path());
    REQUIRE(got.size() == 2);
    check_same_step(got[0], want[2]);
    check_same_step(got[1], want[3]);
  }

  // The third step's responses were sampled from the weights that the second one's export holds: a
  // run that starts from it finds the same log-probs and, learning nothing, writes the same files.
  json config = json::parse(file_text(model + "/config.json"));
  config["dtype"] = "float64";
  CHECK(json::parse(file_text(exported(first, 2) + "/config.json")) == config);
  std::istringstream recorded(file_text(samples));
  std::string third;
  std::string line;
  for (int row = 0; std::getline(recorded, line); ++row) {
    if (row >= 2 * 16 && row < 3 * 16) third += line + "\n";
  }
  const TemporaryFolder again;
  const auto one_step = joined(replayed(again.write("third.jsonl", third)),
                               {"trainer.save_freq=1", "actor_rollout_ref.actor.optim.lr=0",
                                "actor_rollout_ref.model.random_init=False"});
  expect_success(quickstart(again.path(), 1, of_model(exported(first, 2), one_step)));
  const json step = rows(again.path()).at(0)["data"];
  CHECK(step["training/rollout_probs_diff_valid"] == 1);
  CHECK(step["training/rollout_probs_diff_max"].get<double>() < 1e-12);
  for (const std::string file :
       {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"}) {
    INFO(file);
    CHECK(file_text(exported(again, 1) + "/" + file) == file_text(exported(first, 2) + "/" + file));
  }
}
