#pragma once

#include <cstdint>
#include <vector>

namespace verlcpp::data {

/// The tokens that tokenizer.json's post-processor puts around a single text.
struct SpecialTokens {
  std::vector<int32_t> before, after;
};

}  // namespace verlcpp::data
