#include "train/initial_weights.h"

#include <fmt/format.h>

#include "model/weights_io.h"

namespace verlcpp::train {

std::string load_initial_weights(Backend& backend, const TrainConfig& config, const Inputs& inputs,
                                 const model::ParameterBuffer& weights,
                                 const std::function<void()>& beat) {
  if (model::has_weights(inputs.model_folder)) {
    return model::load_hf_weights(backend, inputs.model_folder, weights, beat);
  }
  const int64_t seed = config.actor_rollout_ref.actor.megatron.seed;
  model::initialize(backend, weights, static_cast<uint64_t>(seed), beat);
  return fmt::format("{} has no weights: starting from random ones, seed {}", inputs.model_folder,
                     seed);
}

}  // namespace verlcpp::train
