#include "train/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "train/generation_dump.h"
#include "train/val_metrics.h"

namespace verlcpp::train {
namespace {

/// `count` of the prompts of `whole` from `first` on.
RolloutSpec part(const RolloutSpec& whole, size_t first, size_t count) {
  RolloutSpec spec = whole;
  const auto cut = [&](auto& values) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
    values = {begin, begin + static_cast<std::ptrdiff_t>(count)};
  };
  cut(spec.prompts);
  cut(spec.uids);
  return spec;
}

}  // namespace

Validation::Validation(const Engine& engine, const TrainConfig& config, const Inputs& inputs,
                       bool reports)
    : engine_(engine), config_(config), inputs_(inputs), reports_(reports) {}

bool Validation::before_training() const {
  const TrainerConfig& trainer = config_.trainer;
  return !inputs_.validation.rows.empty() && (trainer.val_before_train || trainer.val_only);
}

bool Validation::after(int64_t step, int64_t total_steps) const {
  const int64_t every = config_.trainer.test_freq;
  if (inputs_.validation.rows.empty() || every <= 0) return false;
  return step == total_steps || step % every == 0;
}

std::optional<std::vector<data::Trajectory>> Validation::answers(
    const model::ParameterBuffer& weights, const RolloutSpec& spec) const {
  const size_t count = spec.prompts.size();
  const auto batch = static_cast<size_t>(config_.data.val_batch_size.value_or(0));
  const size_t each = batch > 0 ? batch : count;
  std::vector<data::Trajectory> all;
  for (size_t first = 0; first < count; first += each) {
    auto some =
        generate_responses(engine_, weights, part(spec, first, std::min(each, count - first)));
    if (!some || engine_.comm.world_stop.here()) return {};
    std::move(some->begin(), some->end(), std::back_inserter(all));
  }
  return all;
}

std::optional<Metrics> Validation::run(const model::ParameterBuffer& weights, int64_t step) const {
  const RolloutSpec spec = validation_rollout(config_, inputs_, step);
  auto responses = answers(weights, spec);
  if (!responses) return {};
  const std::optional<ProgramStats> program = score_responses(engine_, inputs_, spec, *responses);
  if (!program) return {};
  if (!reports_) return Metrics();
  if (program->failures > 0) {
    log::warning(
        fmt::format("validation after step {}: the reward program failed for {} of {} "
                    "responses, which count as 0",
                    step, program->failures, responses->size()));
  }
  if (const auto& folder = config_.trainer.validation_data_dir) {
    dump_generations(kValidationDataDir, *folder, step, *inputs_.tokenizer, spec, *responses);
  }
  return validation_metrics(*responses, spec.n);
}

}  // namespace verlcpp::train
