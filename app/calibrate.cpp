#include "app/calibrate.h"

#include <utility>

#include "app/failure.h"
#include "app/launch.h"
#include "app/result_file.h"
#include "cuda/runtime.h"
#include "parallel/thread_ranks.h"
#include "train/calibrate.h"
#include "train/plan_lengths.h"
#include "train/recompute.h"

namespace verlcpp::app {
namespace {

std::string device_name(const train::TrainConfig& config) {
  if (config.trainer.device == "cpu") return "cpu";
  const auto about = cuda::describe_device(0);
  const auto name = about.find("name");
  return name == about.end() ? config.trainer.device : name->second;
}

/// One rank's part, on its thread.
train::Calibration calibrate_rank(const train::TrainConfig& config, const train::Inputs& inputs,
                                  const train::CalibrateOptions& options,
                                  const parallel::Topology& topology,
                                  const parallel::RankCommunicators& comm) {
  const train::MegatronConfig& megatron = config.actor_rollout_ref.actor.megatron;
  const parallel::RankDevice device = make_device(config, topology, comm);
  const model::Transformer transformer =
      train::make_transformer(*device.backend, inputs.model, dtype_named(megatron.dtype).value(),
                              config.actor_rollout_ref, device.comm);
  const train::Engine engine{*device.backend, transformer, topology, device.comm,
                             train::recompute_policy(megatron, inputs.model.layers)};
  return train::calibrate(engine, config, inputs, options);
}

}  // namespace

train::Calibration run_calibration(const CalibrateRequest& request, const config::Node& tree,
                                   const train::TrainConfig& config) {
  expect_one_process();
  check_writable("--calibrate", request.file);
  train::CalibrateOptions options;
  for (const std::string& file : request.checks) {
    options.checks.push_back({file, train::read_lengths("--calibrate-check", file)});
  }
  train::expect_fits(config, options.checks);
  const train::Inputs inputs = train::load_inputs(config, tree, {}, 1);
  train::Calibration calibration;  // written by rank 0 alone
  parallel::run_thread_ranks(
      train::batching_rule(config, train::Pass::kActorUpdate).sizes,
      [&](const parallel::Topology& topology, parallel::RankCommunicators comm) {
        auto mine = calibrate_rank(config, inputs, options, topology, comm);
        if (topology.rank() == 0) calibration = std::move(mine);
      },
      {.silence_limit = std::chrono::seconds(config.actor_rollout_ref.nccl_timeout),
       .give_up = end_process});
  calibration.device = device_name(config);
  return calibration;
}

}  // namespace verlcpp::app
