#include "parallel/topology.h"

#include <string>

#include "base/error.h"

namespace verlcpp::parallel {

Topology::Topology(AxisSizes sizes, int64_t rank) : sizes_(sizes), rank_(rank) {
  const int64_t model = sizes.tp * sizes.pp * sizes.cp;
  if (sizes.tp < 1 || sizes.pp < 1 || sizes.cp < 1 || sizes.world < 1 || sizes.world % model != 0) {
    throw ConfigError(
        "trainer.nnodes x trainer.n_gpus_per_node x trainer.ranks_per_gpu = " +
        std::to_string(sizes.world) +
        " must be divisible by tensor_model_parallel_size x pipeline_model_parallel_size x "
        "context_parallel_size = " +
        std::to_string(sizes.tp) + " x " + std::to_string(sizes.pp) + " x " +
        std::to_string(sizes.cp) + " = " + std::to_string(model));
  }
  expects(rank >= 0 && rank < sizes.world, "rank outside of the world");
}

}  // namespace verlcpp::parallel
