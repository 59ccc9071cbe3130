#pragma once

#include <cstdint>
#include <optional>

namespace verlcpp::bench {

/// Where the ranks of `bench comm` are.
struct RankLayout {
  int64_t ranks = 0;
  int64_t ranks_per_gpu = 1;
  int64_t gpus = 0;  // that they use; 0: their memory is the host's
};

/// `ranks` of 0: as many as the machine's GPUs hold, or two in host memory. `machine_gpus`: nothing
/// for ranks in host memory. ConfigError for what cannot be laid out, DeviceError when the machine
/// has too few GPUs.
RankLayout rank_layout(int64_t ranks, int64_t ranks_per_gpu, std::optional<int64_t> machine_gpus);

/// `bytes` rounded down to what every rank holds an equal part of, in whole 16 bytes (as NCCL-tests
/// does). ConfigError when nothing is left.
int64_t whole_bytes(int64_t bytes, int64_t ranks);

}  // namespace verlcpp::bench
