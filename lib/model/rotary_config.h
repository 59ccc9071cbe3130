#pragma once

#include "model/config_fields.h"
#include "model/rotary.h"

namespace verlcpp::model {

/// Of a config.json: older files have rope_theta at the top and the rest in rope_scaling, those of
/// transformers 5 all in rope_parameters. DataError names what is missing, wrong or not computed.
Rotary read_rotary(const Fields& config, int64_t max_positions);

}  // namespace verlcpp::model
