#pragma once

#include <span>
#include <utility>
#include <vector>

#include "model/transformer.h"
#include "tensor/backend.h"

namespace verlcpp::test {

/// What Transformer::train computed of the head rows, in their order.
struct TokenRecord {
  std::vector<double> log_prob, entropy;
};

/// sum(d_log_prob * log_prob) + sum(d_entropy * entropy) over a micro-batch's head rows. `record`,
/// if any, takes the log-probs and entropies behind those it has.
inline model::TokenLoss linear_loss(Backend& backend, std::vector<double> d_log_prob,
                                    std::vector<double> d_entropy, TokenRecord* record = nullptr) {
  return [&backend, d_log_prob = std::move(d_log_prob), d_entropy = std::move(d_entropy), record](
             int64_t first, const Tensor& log_prob_C, const Tensor& entropy_C) {
    const auto append = [&](std::vector<double>& all, const Tensor& x) {
      const std::vector<double> values = download(backend, x);
      all.insert(all.end(), values.begin(), values.end());
    };
    if (record) {
      append(record->log_prob, log_prob_C);
      append(record->entropy, entropy_C);
    }
    const auto rows_of = [&](std::span<const double> values, const Tensor& like) {
      return upload_as(
          backend, like.dtype(),
          values.subspan(static_cast<size_t>(first), static_cast<size_t>(like.numel())),
          like.shape(), MemoryTag::kWorkspace);
    };
    return model::TokenGradients{
        rows_of(d_log_prob, log_prob_C), rows_of(d_entropy, entropy_C), {}};
  };
}

}  // namespace verlcpp::test
