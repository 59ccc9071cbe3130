#include "rank_layout.h"

#include <string>

#include "base/error.h"

namespace verlcpp::bench {

RankLayout rank_layout(int64_t ranks, int64_t ranks_per_gpu, std::optional<int64_t> machine_gpus) {
  const bool host = !machine_gpus.has_value();
  if (host && ranks_per_gpu != 1) {
    throw ConfigError("--ranks-per-gpu=" + std::to_string(ranks_per_gpu) +
                      ": --device=cpu has no GPUs, only --ranks");
  }
  if (ranks == 0) ranks = host ? 2 : *machine_gpus * ranks_per_gpu;
  const std::string asked = "--ranks=" + std::to_string(ranks);
  if (!host && ranks % ranks_per_gpu != 0) {
    throw ConfigError(asked + ": --ranks-per-gpu=" + std::to_string(ranks_per_gpu) +
                      " does not divide it");
  }
  const int64_t gpus = host ? 0 : ranks / ranks_per_gpu;
  if (!host && gpus > *machine_gpus) {
    throw DeviceError(asked + ": " + std::to_string(gpus) + " GPUs are needed, this machine has " +
                      std::to_string(*machine_gpus) + "; --ranks-per-gpu lets ranks share one");
  }
  if (ranks < 2) {
    throw ConfigError(asked + ": traffic takes two ranks; --ranks-per-gpu=2 lets them share a GPU");
  }
  return {.ranks = ranks, .ranks_per_gpu = ranks_per_gpu, .gpus = gpus};
}

int64_t whole_bytes(int64_t bytes, int64_t ranks) {
  const int64_t unit = 16 * ranks;
  if (bytes < unit) {
    throw ConfigError("--bytes=" + std::to_string(bytes) + ": " + std::to_string(ranks) +
                      " ranks split " + std::to_string(unit) + " bytes or more");
  }
  return bytes / unit * unit;
}

}  // namespace verlcpp::bench
