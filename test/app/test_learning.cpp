// The quickstart as it ships, to its end: the reward rises.

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "run_binary.h"
#include "support/catch.h"

using namespace verlcpp::test;

TEST_CASE("the quickstart learns its task from random weights") {
  const TemporaryFolder folder;
  const Outcome outcome = run_binary(
      {"--config-name", "quickstart", "trainer.default_local_dir=" + folder.path() + "/ck",
       "data.train_files=" VERLCPP_QUICKSTART "/train.jsonl",
       "actor_rollout_ref.model.path=" VERLCPP_QUICKSTART "/model",
       "trainer.project_name=" + folder.path(), "trainer.experiment_name=run"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  std::vector<double> reward;
  std::ifstream in(folder.path() + "/run.jsonl");
  for (std::string line; std::getline(in, line);) {
    reward.push_back(nlohmann::json::parse(line)["data"]["critic/score/mean"].get<double>());
  }
  REQUIRE(reward.size() >= 10);
  CHECK(reward.front() <= 0.35);
  CHECK(std::accumulate(reward.end() - 10, reward.end(), 0.0) / 10 >= 0.9);
}
