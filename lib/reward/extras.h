#pragma once

#include <string>

#include "data/trajectory.h"

namespace verlcpp::reward {

/// A named value of verl's reward_extra_info.
data::RewardExtra extra(std::string name, double value);
data::RewardExtra extra(std::string name, bool value);
data::RewardExtra extra(std::string name, const std::string& value);

}  // namespace verlcpp::reward
