#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/reference_vectors.h"
#include "parallel/rank_device.h"
#include "tensor/dtype.h"

// Our side of the comparison with transformers: one folder of
// scripts/parity/transformers_reference.py through the engine.

namespace verlcpp::test {

using Samples = std::map<std::string, std::vector<double>>;

/// What is compared: of the model at its start, then of every AdamW step.
struct Numbers {
  std::vector<double> log_prob, entropy, losses, grad_norms;
  Samples gradient, change;  // sampled rows, by Hugging Face name
  Samples norm;              // of each whole tensor's gradient
};

/// One folder's documents and the optimizer's settings.
struct Case {
  std::string folder;
  std::vector<std::vector<std::vector<int32_t>>> batches;
  std::vector<double> adamw;  // lr, beta1, beta2, eps, weight decay, clip
  int64_t steps = 0;
  int64_t targets = 0;
};

/// `vectors` are the folder's reference.safetensors.
Case read_case(const std::string& folder, const Vectors& vectors);

/// The folder's weights through a gradient and all AdamW steps on one rank.
Numbers run_case(const Case& c, const parallel::MakeDevice& make_device, DType dtype);

}  // namespace verlcpp::test
