#include "reward/extras.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace verlcpp::reward {

data::RewardExtra extra(std::string name, double value) {
  return {std::move(name), nlohmann::json(value).dump(), value};
}

data::RewardExtra extra(std::string name, bool value) {
  return {std::move(name), value ? "true" : "false", value ? 1.0 : 0.0};
}

data::RewardExtra extra(std::string name, const std::string& value) {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  return {std::move(name), nlohmann::json(value).dump(-1, ' ', false, kReplace), {}};
}

}  // namespace verlcpp::reward
