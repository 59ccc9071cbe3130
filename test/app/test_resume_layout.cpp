// Saved on one layout, resumed on another: the same samples, losses and weights.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

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

}  // namespace

TEST_CASE("a checkpoint continues on any layout") {
  const TemporaryFolder recording;
  const std::string samples = recording.path() + "/samples.jsonl";
  const std::vector<std::string> fp64{kMegatron + "dtype=float64",
                                      "actor_rollout_ref.ref.megatron.dtype=float64",
                                      "actor_rollout_ref.actor.use_kl_loss=True"};
  expect_success(quickstart(recording.path(), 4,
                            joined(fp64, {"actor_rollout_ref.rollout.record_path=" + samples})));
  const auto replayed =
      joined(fp64, {"actor_rollout_ref.rollout.name=replay",
                    "actor_rollout_ref.rollout.replay_path=" + samples, "trainer.save_freq=2"});

  const std::vector<std::vector<std::string>> layouts{
      layout(4, 1, 2, {}),
      layout(1, 1, 1,
             {kMegatron + "dynamic_context_parallel=False", "data.max_token_len_per_gpu=4096"}),
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
