#include "app/compare.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "app/failure.h"
#include "app/launch.h"
#include "base/error.h"
#include "model/synced_file.h"
#include "parallel/thread_ranks.h"
#include "train/compare_report.h"
#include "train/recompute.h"

namespace verlcpp::app {
namespace {

/// What `path` names; a link stays one.
std::filesystem::path result_file(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, ignored);
  return real.empty() ? std::filesystem::path(path) : real;
}

std::string aside(const std::filesystem::path& file) { return file.string() + ".tmp"; }

/// Before the work. An older result stays until there is a new one, and nothing new stays without
/// one.
void check_writable(const std::string& path) {
  const std::string about = "--compare-json " + path + " cannot be written: ";
  const std::filesystem::path file = result_file(path);
  std::error_code ignored;
  const bool exists = std::filesystem::exists(file, ignored);
  if (exists && !std::filesystem::is_regular_file(file, ignored)) {
    throw ConfigError(about +
                      "it is no regular file; valid: a file, or --format=json for standard output");
  }
  errno = 0;
  if (exists && !std::ofstream(file, std::ios::app))
    throw ConfigError(about + std::strerror(errno));
  if (!std::ofstream(aside(file))) {
    throw ConfigError(about + std::strerror(errno) + " (" + aside(file) + ")");
  }
  std::filesystem::remove(aside(file), ignored);
}

/// One rank's part, on its thread.
train::Comparison compare_rank(const std::vector<train::CompareArm>& arms,
                               const train::Inputs& inputs, const train::CompareOptions& options,
                               const parallel::Topology& topology,
                               const parallel::RankCommunicators& comm) {
  const train::TrainConfig& config = arms.front().config;
  const train::MegatronConfig& megatron = config.actor_rollout_ref.actor.megatron;
  const auto backend = make_backend(config, static_cast<int>(topology.rank()));
  train::BusyMeter meter(
      *backend, comm,
      config.trainer.device == "cpu" ? train::thread_cpu_seconds : train::wall_seconds);
  const parallel::RankCommunicators metered = meter.communicators();
  const model::Transformer transformer =
      train::make_transformer(*backend, inputs.model, dtype_named(megatron.dtype).value(),
                              config.actor_rollout_ref, metered);
  const train::Engine engine{*backend, transformer, topology, metered,
                             train::recompute_policy(megatron, inputs.model.layers)};
  return train::compare_dcp(engine, meter, arms, inputs, options);
}

}  // namespace

CompareOutcome run_comparison(const CompareRequest& request, const config::Node& tree) {
  expect_one_process();
  const std::vector<train::CompareArm> arms = train::compare_arms(tree);
  if (!request.json_file.empty()) check_writable(request.json_file);
  const train::TrainConfig& config = arms.front().config;
  const train::Inputs inputs = train::load_inputs(config, arms.front().tree, {}, 1);
  if (inputs.recorded) train::check_same_samples(arms, inputs.recorded->step(0));
  train::Comparison comparison;  // written by rank 0 alone
  parallel::run_thread_ranks(
      train::batching_rule(config, train::Pass::kActorUpdate).sizes,
      [&](const parallel::Topology& topology, parallel::RankCommunicators comm) {
        auto mine = compare_rank(arms, inputs, request.options, topology, comm);
        if (topology.rank() == 0) comparison = std::move(mine);
      },
      {.silence_limit = std::chrono::seconds(config.actor_rollout_ref.nccl_timeout),
       .give_up = end_process});
  const std::string json = train::to_json(comparison, arms, request.options);
  const DType dtype = dtype_named(config.actor_rollout_ref.actor.megatron.dtype).value();
  return {.text = request.json ? json : train::to_text(comparison, arms, request.options),
          .json = json,
          .differs = train::what_differs(train::disagreement(comparison, dtype))};
}

void write_result(const std::string& path, const std::string& json) {
  const std::filesystem::path file = result_file(path);
  std::error_code failed;
  try {
    model::write_synced(aside(file), json + "\n");
  } catch (...) {
    std::filesystem::remove(aside(file), failed);
    throw;
  }
  std::filesystem::rename(aside(file), file, failed);
  if (failed) {
    throw DeviceError(file.string() + ": cannot be renamed from " + aside(file) + ": " +
                      failed.message());
  }
  model::sync_folder(file.parent_path().string());
}

}  // namespace verlcpp::app
