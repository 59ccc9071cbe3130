#include "app/compare.h"

#include <chrono>
#include <utility>
#include <vector>

#include "app/failure.h"
#include "app/launch.h"
#include "app/result_file.h"
#include "base/error.h"
#include "base/log.h"
#include "parallel/thread_ranks.h"
#include "train/banner.h"
#include "train/compare_report.h"
#include "train/recompute.h"
#include "train/validate.h"

namespace verlcpp::app {
namespace {

/// One rank's part, on its thread.
train::Comparison compare_rank(const std::vector<train::CompareArm>& arms,
                               const train::Inputs& inputs, const train::CompareOptions& options,
                               const parallel::Topology& topology,
                               const parallel::RankCommunicators& comm) {
  const train::TrainConfig& config = arms.front().config;
  const train::MegatronConfig& megatron = config.actor_rollout_ref.actor.megatron;
  const parallel::RankDevice device = make_device(config, topology, comm);
  Backend& backend = *device.backend;
  train::BusyMeter meter(
      backend, device.comm,
      config.trainer.device == "cpu" ? train::thread_cpu_seconds : train::wall_seconds);
  const parallel::RankCommunicators metered = meter.communicators();
  const model::Transformer transformer =
      train::make_transformer(backend, inputs.model, dtype_named(megatron.dtype).value(),
                              config.actor_rollout_ref, metered);
  const train::Engine engine{backend, transformer, topology, metered,
                             train::recompute_policy(megatron, inputs.model.layers)};
  return train::compare_dcp(engine, meter, arms, inputs, options);
}

}  // namespace

CompareOutcome run_comparison(const CompareRequest& request, const config::Node& tree) {
  expect_one_process();
  const std::vector<train::CompareArm> arms = train::compare_arms(tree);
  const train::TrainConfig& config = arms.front().config;
  if (const std::string& file = request.json_file; !file.empty()) {
    train::expect_apart({"--compare-json " + file, file}, {}, config, arms.front().tree);
    check_writable("--compare-json", file);
  }
  const train::CompareArm& last = arms.back();  // the balanced one, if there is one
  for (const std::string& warning : train::scheduler_warnings(last.config, last.tree)) {
    log::warning(warning);
  }
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

}  // namespace verlcpp::app
