#pragma once

#include <vector>

#include "parallel/rank_device.h"
#include "tensor/dtype.h"

namespace verlcpp::test {

/// Checks whole models against Hugging Face transformers: every folder of VERLCPP_PARITY_DIR, which
/// scripts/parity/transformers_reference.py has written, in every dtype; prints a line for each.
/// The judge is the model in float64; how far transformers itself is from it stands beside. Without
/// VERLCPP_PARITY_DIR nothing is compared, and said.
void compare_with_transformers(const parallel::MakeDevice& make_device,
                               const std::vector<DType>& dtypes);

}  // namespace verlcpp::test
