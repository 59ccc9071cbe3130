#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/tree.h"
#include "train/cost_file.h"

namespace verlcpp::train {

struct RouterReplayConfig {
  std::string mode;
  template <class V>
  void fields(V& v) {
    v("mode", mode);
  }
};

struct MegatronConfig {
  int64_t tensor_model_parallel_size = 1, pipeline_model_parallel_size = 1;
  std::optional<int64_t> virtual_pipeline_model_parallel_size;
  int64_t context_parallel_size = 1;
  bool sequence_parallel = true;  // only where tensor_model_parallel_size > 1
  bool use_distributed_optimizer = true;
  bool dynamic_context_parallel = false;
  config::Node max_seqlen_per_dp_cp_rank;  // any value; validate() checks and DcpSettings types it
  std::string dynamic_cp_scheduler;        // default or balanced
  std::optional<std::string> dynamic_cp_cost_model;  // a file of --calibrate
  PassCosts costs = {};                              // what is in it: no key of its own
  std::string costs_problem = {};                    // why it cannot be used; "" when it can
  int64_t seed = 42;
  std::string dtype;
  bool use_remove_padding = true, pad_to_length = false, forward_only = false;
  config::Node override_transformer_config;
  RouterReplayConfig router_replay;
  template <class V>
  void fields(V& v) {
    v("tensor_model_parallel_size", tensor_model_parallel_size);
    v("pipeline_model_parallel_size", pipeline_model_parallel_size);
    v("virtual_pipeline_model_parallel_size", virtual_pipeline_model_parallel_size);
    v("context_parallel_size", context_parallel_size);
    v("sequence_parallel", sequence_parallel);
    v("use_distributed_optimizer", use_distributed_optimizer);
    v("dynamic_context_parallel", dynamic_context_parallel);
    v("max_seqlen_per_dp_cp_rank", max_seqlen_per_dp_cp_rank);
    v("dynamic_cp_scheduler", dynamic_cp_scheduler);
    v("dynamic_cp_cost_model", dynamic_cp_cost_model);
    v("seed", seed);
    v("dtype", dtype);
    v("use_remove_padding", use_remove_padding);
    v("pad_to_length", pad_to_length);
    v("forward_only", forward_only);
    v("override_transformer_config", override_transformer_config);
    v("router_replay", router_replay);
  }
};

}  // namespace verlcpp::train
