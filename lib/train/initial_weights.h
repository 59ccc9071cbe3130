#pragma once

#include <functional>
#include <string>

#include "model/parameters.h"
#include "train/inputs.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// What every run starts from: the weights of the model folder, or random ones from
/// actor.megatron.seed where it has none (validate() has checked that random_init allows it).
/// Returns a warning, "" for none: one rank is to say it. `beat`, if any, is called all the while:
/// a sign of life. DataError for missing tensors and wrong shapes.
std::string load_initial_weights(Backend& backend, const TrainConfig& config, const Inputs& inputs,
                                 const model::ParameterBuffer& weights,
                                 const std::function<void()>& beat = {});

}  // namespace verlcpp::train
