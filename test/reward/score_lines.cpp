#include <iostream>
#include <nlohmann/json.hpp>

#include "reward/rules.h"

// For scripts/parity/rewards_check.py: reads {"data_source", "response", "ground_truth",
// "flexible"?} a line, writes {"score", extras...}.

int main() {
  using namespace verlcpp;
  using Json = nlohmann::json;
  for (std::string line; std::getline(std::cin, line);) {
    const Json question = Json::parse(line);
    data::PromptRow row;
    row.data_source = question["data_source"].get<std::string>();
    row.ground_truth_json = question["ground_truth"].dump();
    if (question["ground_truth"].is_string())
      row.ground_truth = question["ground_truth"].get<std::string>();
    const auto method = question.value("flexible", false) ? reward::Gsm8kMethod::kFlexible
                                                          : reward::Gsm8kMethod::kStrict;
    const reward::Reward reward =
        reward::compute_score(row, question["response"].get<std::string>(), method);
    Json answer = Json::object();
    for (const data::RewardExtra& extra : reward.extras)
      answer[extra.name] = Json::parse(extra.json);
    answer["score"] = reward.score;
    std::cout << answer.dump() << "\n";
  }
}
