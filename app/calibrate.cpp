#include "app/calibrate.h"

#include <utility>

#include "app/device.h"
#include "app/failure.h"
#include "app/launch.h"
#include "app/result_file.h"
#include "base/error.h"
#include "parallel/thread_ranks.h"
#include "train/calibrate.h"
#include "train/plan_lengths.h"
#include "train/recompute.h"
#include "train/validate.h"
#include "train/validate_findings.h"

namespace verlcpp::app {
namespace {

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

void check_request(const CalibrateRequest& request, const config::Node& tree,
                   const train::TrainConfig& config) {
  if (config.trainer.device == "check") {
    throw ConfigError("--calibrate: " + train::Findings(tree).about("trainer.device") +
                      " computes everything twice, which is not what a run's time is; must be "
                      "cuda, cpu or auto");
  }
  std::vector<train::NamedFile> checks;
  for (const std::string& file : request.checks) {
    checks.push_back({"--calibrate-check " + file, file});
  }
  train::expect_apart({"--calibrate " + request.file, request.file}, checks, config, tree);
  check_writable("--calibrate", request.file);
}

}  // namespace

void forget_cost_files(config::Node& tree) {
  for (const char* role : {"actor", "ref"}) {
    const std::string key =
        std::string("actor_rollout_ref.") + role + ".megatron.dynamic_cp_cost_model";
    if (tree.find(key) != nullptr) {
      tree.set(key, config::Node(config::Scalar{},
                                 config::Origin{"--calibrate", config::Origin::Source::kFlag}));
    }
  }
}

train::Calibration run_calibration(const CalibrateRequest& request, const config::Node& tree,
                                   const train::TrainConfig& config) {
  expect_one_process();
  check_request(request, tree, config);
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
  calibration.device = device_name(config.trainer.device);
  return calibration;
}

}  // namespace verlcpp::app
