#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verlcpp::model {

/// Rotary position embedding (RoFormer, Su et al. 2021) and how it is stretched beyond the context
/// that a model was pretrained on. Fields are those of Hugging Face's rope_parameters.
struct Rotary {
  enum class Type { kDefault, kLinear, kLlama3, kYarn };

  Type type = Type::kDefault;
  double theta = 10000;
  double factor = 1;            // of the context's length; not of kDefault
  double original_context = 0;  // tokens, original_max_position_embeddings: kLlama3, kYarn
  double low_freq_factor = 1, high_freq_factor = 4;  // kLlama3: of original_context, see .cpp
  double beta_fast = 32, beta_slow = 1;              // kYarn: rotations within original_context
  bool truncate = true;                              // kYarn: of the bounds to whole dimensions
  double attention_factor = 1;                       // kYarn: of cosines and sines

  /// H / 2 angles per position. `head_dim` is even.
  std::vector<double> inverse_frequencies(int64_t head_dim) const;
};

/// YaRN's (Peng et al. 2023) temperature as a factor of q and of k: 0.1 m ln(factor) + 1.
double yarn_attention_factor(double factor, double m = 1);

}  // namespace verlcpp::model
