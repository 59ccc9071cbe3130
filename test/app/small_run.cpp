#include "small_run.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "support/catch.h"

namespace verlcpp::test {

namespace fs = std::filesystem;

namespace {

constexpr const char* kTracker = "latest_checkpointed_iteration.txt";
const std::string kPrefix = "global_step_";

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::vector<std::string> quickstart(const std::string& folder, int steps,
                                    const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"--config-name",
                                     "quickstart",
                                     "data.train_files=" VERLCPP_QUICKSTART "/train.jsonl",
                                     "actor_rollout_ref.model.path=" VERLCPP_QUICKSTART "/model",
                                     "data.train_batch_size=4",
                                     "actor_rollout_ref.actor.ppo_mini_batch_size=2",
                                     "actor_rollout_ref.rollout.n=4",
                                     "data.max_response_length=24",
                                     "trainer.total_training_steps=" + std::to_string(steps),
                                     "trainer.default_local_dir=" + folder + "/checkpoints",
                                     "trainer.resume_mode=auto",
                                     "trainer.project_name=" + folder + "/logs",
                                     "trainer.experiment_name=run"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> metrics_lines(const std::string& folder) {
  using nlohmann::ordered_json;
  std::vector<std::string> lines;
  std::ifstream in(folder + "/logs/run.jsonl");
  for (std::string line; std::getline(in, line);) {
    const ordered_json row = ordered_json::parse(line);
    ordered_json kept = row;
    for (const auto& [name, value] : row["data"].items()) {
      if (name.find("timing_") != std::string::npos || name.find("perf/") != std::string::npos) {
        kept["data"].erase(name);
      }
    }
    lines.push_back(kept.dump());
  }
  return lines;
}

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Outcome expect_success(const std::vector<std::string>& arguments) {
  Outcome outcome = run_binary(arguments);
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.code == 0);
  return outcome;
}

std::vector<int> saved_steps(const std::string& folder) {
  std::vector<int> steps;
  for (const std::string& name : names_in(folder + "/checkpoints")) {
    if (name.starts_with(kPrefix)) steps.push_back(std::stoi(name.substr(kPrefix.size())));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<std::string> strays(const std::string& folder) {
  std::vector<std::string> names = names_in(folder + "/checkpoints");
  std::erase_if(
      names, [](const std::string& name) { return name.starts_with(kPrefix) || name == kTracker; });
  return names;
}

int tracked_step(const std::string& folder) {
  const std::string text = file_text(folder + "/checkpoints/" + kTracker);
  return text.empty() ? 0 : std::stoi(text);
}

}  // namespace verlcpp::test
