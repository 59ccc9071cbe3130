#pragma once

#include <string>
#include <vector>

#include "parallel/rank_device.h"
#include "tensor/dtype.h"

namespace verlcpp::test {

/// The tensor whose gradient's norm is furthest off, as a part of what is allowed for it.
struct WorstNorm {
  double part = 0;
  std::string tensor;
  void add(const std::string& name, double off, double allowed);
};

/// How far the norm of one tensor's gradient may be from float64's `norm`. Float32 and wider are
/// held to their arithmetic, relative to the norm or a hundredth of the whole gradient's. In
/// bfloat16 the error of some tensors is one random number (one channel of a norm's weight carries
/// it), so that transformers' own is drawn often: `noise` is what bounds its runs, and we may be a
/// quarter worse, or 4 % of the norm off, twice what the design allows the whole gradient.
double allowed_norm_error(DType dtype, double norm, double whole, double noise);

/// Checks whole models against Hugging Face transformers: every folder of VERLCPP_PARITY_DIR, which
/// scripts/parity/transformers_reference.py has written, in every dtype; prints a line for each.
/// The judge is the model in float64; how far transformers itself is from it stands beside. Without
/// VERLCPP_PARITY_DIR nothing is compared, and said.
void compare_with_transformers(const parallel::MakeDevice& make_device,
                               const std::vector<DType>& dtypes);

}  // namespace verlcpp::test
