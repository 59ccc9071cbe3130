#include "train/warm_up.h"

#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "base/log.h"
#include "train/update_pass.h"

namespace verlcpp::train {
namespace {

void warm_up_pass(const Engine& engine, const TrainConfig& config, Pass pass,
                  std::span<const data::Trajectory> batch, bool say) {
  const auto start = std::chrono::steady_clock::now();
  const schedule::Plan plan = make_planner(batching_rule(config, pass))(lengths_of(batch));
  const auto tokens = token_rows(batch);
  int64_t built = 0;
  for (const schedule::MicroBatch& micro_batch : plan.micro_batches) {
    engine.comm.status.beat();
    const HostMicroBatch mine = pack(engine, micro_batch, tokens);
    built += engine.transformer.prepare_attention(mine.packed, mine.group, false);
    if (pass != Pass::kActorUpdate) continue;
    built += engine.transformer.prepare_attention(mine.packed, mine.group, true);
  }
  if (!say || built == 0) return;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  log::info(fmt::format("cuDNN plans of attention for the first plan of {}: {} built in {:.2f} s",
                        pass_name(pass), built, spent.count()));
}

}  // namespace

void warm_up_attention(const Engine& engine, const TrainConfig& config,
                       std::span<const data::Trajectory> batch, int64_t step, bool say) {
  engine.comm.status.enter("warm_up");
  warm_up_pass(engine, config, Pass::kOldLogProb, batch, say);
  if (config.uses_reference()) warm_up_pass(engine, config, Pass::kRefLogProb, batch, say);
  const auto samples = static_cast<int64_t>(batch.size());
  const auto all = mini_batches(samples, update_options(config), step);
  std::vector<data::Trajectory> mini_batch;
  for (int sample : all.front()) {
    mini_batch.push_back(batch[static_cast<size_t>(sample)]);
  }
  warm_up_pass(engine, config, Pass::kActorUpdate, mini_batch, say);
}

}  // namespace verlcpp::train
