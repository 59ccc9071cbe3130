// What a run generates: where responses end, and what makes them.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "small_run.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using nlohmann::json;
using namespace verlcpp::test;

namespace {

const std::string kA = "actor_rollout_ref.";

}  // namespace

TEST_CASE("a response ends with any end of sequence, which it keeps; seeds make others") {
  const TemporaryFolder folder;
  const std::string model = folder.path() + "/model", recording = folder.path() + "/r.jsonl";
  std::filesystem::copy(VERLCPP_QUICKSTART "/model", model);
  folder.write("model/generation_config.json", R"({"eos_token_id": [2, 3]})");
  const auto responses = [&](const std::vector<std::string>& more) {
    std::filesystem::remove_all(folder.path() + "/checkpoints");
    std::filesystem::remove(recording);
    std::vector<std::string> overrides{kA + "model.path=" + model,
                                       kA + "rollout.record_path=" + recording};
    overrides.insert(overrides.end(), more.begin(), more.end());
    expect_success(quickstart(folder.path(), 1, overrides));
    std::vector<std::vector<int>> out;
    std::ifstream in(recording);
    for (std::string line; std::getline(in, line);) {
      out.push_back(json::parse(line)["response_ids"]);
    }
    REQUIRE(out.size() == 16);
    return out;
  };
  // generation_config.json's two, and the tokenizer's own <eos>.
  const std::set<int> ends{0, 2, 3};
  std::set<int> seen;
  const auto ended = responses({});
  for (const std::vector<int>& ids : ended) {
    for (size_t i = 0; i + 1 < ids.size(); ++i) CHECK(ends.count(ids[i]) == 0);
    if (ids.size() < 24) CHECK(ends.count(ids.back()) == 1);
    seen.insert(ids.back());
  }
  CHECK(std::includes(seen.begin(), seen.end(), ends.begin(), ends.end()));
  // Ignored, the same draws go on behind it.
  const auto whole = responses({kA + "rollout.ignore_eos=True"});
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK(whole[i].size() == 24);
    CHECK(std::equal(ended[i].begin(), ended[i].end(), whole[i].begin()));
  }
  // Every request has random numbers of its own: no two of the four responses to a prompt agree.
  CHECK(std::set(whole.begin(), whole.end()).size() == 16);
  const auto other = responses({kA + "rollout.ignore_eos=True", kA + "rollout.seed=43"});
  for (size_t i = 0; i < whole.size(); ++i) CHECK(whole[i] != other[i]);
}
