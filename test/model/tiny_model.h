#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/linear_loss.h"
#include "model/transformer.h"
#include "parallel/communicator.h"
#include "schedule/plan.h"
#include "tensor/backend.h"

// A small decoder with a made-up loss: sum over head rows of a log_prob + b entropy,
// where a, b and the temperature depend on (sample, position) alone. So the loss, and the flat
// gradient summed over ranks, must not depend on the layout.

namespace verlcpp::test {

using Documents = std::vector<std::vector<int32_t>>;
/// Per sample, per position; NaN where no rank computed a value.
using TokenValues = std::vector<std::vector<double>>;

/// "qwen2" (biases, tied), "qwen3" (q/k norms, tied) or "llama" (untied). Sizes all differ.
model::ModelConfig tiny_config(const std::string& kind);

/// Random token ids.
Documents random_documents(const model::ModelConfig& config, const std::vector<int64_t>& lengths);

/// Norm weights about 1, everything else about 0 with a spread at which all gradients matter.
std::vector<double> random_weights(const model::ParameterLayout& layout);

void set_flat(Backend& backend, const model::ParameterBuffer& buffer,
              const std::vector<double>& values);

/// All samples on these ranks.
schedule::PlanGroup whole_group(int cp, const Documents& documents);

/// One rank's micro-batch: real rows that have a next token, less every fifth position.
class RankBatch {
 public:
  RankBatch(const model::Transformer& transformer, const schedule::PlanGroup& group, int rank,
            int64_t tp, const Documents& documents);

  const model::DeviceBatch& device() const { return device_; }
  double loss(Backend& backend, const model::TokenOutputs& outputs) const;
  /// The same loss for Transformer::train.
  model::TokenLoss token_loss(Backend& backend, TokenRecord* record = nullptr) const;
  /// values[sample][position] = local, at the head rows.
  void store(const std::vector<double>& local, TokenValues& values) const;

 private:
  data::PackedBatch batch_;
  model::DeviceBatch device_;
  std::vector<double> log_prob_weights_, entropy_weights_;
};

/// NaN for every token.
TokenValues no_values(const Documents& documents);

struct RunResult {
  TokenValues log_probs, entropies;
  std::vector<double> gradient;  // flat, summed over ranks
};

/// A training pass over a plan on as many thread ranks as its pool.
RunResult run_plan(const model::ModelConfig& config, const schedule::Plan& plan, int64_t tp,
                   const Documents& documents, DType dtype = DType::kFloat64,
                   const model::TransformerOptions& options = {});

/// Largest difference of two runs' token values; infinite when one has a value the other lacks.
double difference(const TokenValues& a, const TokenValues& b);
/// |a - b| / |b|, L2.
double relative_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace verlcpp::test
