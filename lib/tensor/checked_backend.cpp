#include "tensor/checked_backend.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "tensor/divergence.h"
#include "tensor/sampled_row.h"

// The check itself; what each op reads and writes is in checked_ops.cpp.

namespace verlcpp {
namespace {

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

/// "[1, 4]" for a place in the flat data of a tensor.
std::string index_text(const Shape& shape, int64_t flat) {
  Shape index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; flat /= shape[axis])
    index[axis] = flat % shape[axis];
  return to_string(index);
}

}  // namespace

CheckedBackend::CheckedBackend(std::unique_ptr<Backend> subject, std::unique_ptr<Backend> reference,
                               DType float_dtype)
    : subject_(std::move(subject)), reference_(std::move(reference)), float_dtype_(float_dtype) {
  expects(float_dtype == DType::kFloat32 || float_dtype == DType::kFloat64,
          "the reference computes in float32 or float64");
}

void CheckedBackend::check(const char* op, const std::vector<OpTensor>& tensors, const Body& body) {
  const OpTwins twins(*subject_, *reference_, float_dtype_, tensors);
  std::vector<OpTensor> outputs;
  double tolerance = 0;  // of the inputs
  for (const OpTensor& t : tensors) {
    if (!t.tensor.defined()) continue;
    if (t.read) tolerance = std::max(tolerance, tolerance_of(t.tensor.dtype()));
    if (!t.written) continue;
    outputs.push_back(t.read ? t.at_least(largest(t.tensor)) : t);
  }
  body(*subject_, [](const Tensor& x) { return x; });
  body(*reference_, [&](const Tensor& x) { return twins.of(x); });
  for (const OpTensor& t : outputs) compare(op, t, twins.of(t.tensor), tolerance);
  ++ops_;
}

void CheckedBackend::compare(const char* op, const OpTensor& output, const Tensor& twin,
                             double tolerance) const {
  const Tensor& x = output.tensor;
  // Stored as the subject stores it: the same rounding, and the same overflow.
  Tensor stored = twin;
  if (twin.dtype() != x.dtype()) {
    stored = reference_->allocate(x.dtype(), x.shape(), MemoryTag::kWorkspace);
    reference_->copy(stored, twin);
  }
  std::vector<std::byte> mine(static_cast<size_t>(x.bytes())), theirs(mine.size());
  subject_->read(mine, x);
  reference_->read(theirs, stored);
  if (mine == theirs) return;

  const double own = tolerance_of(x.dtype());
  const double limit = own == 0 ? 0 : output.tolerance.value_or(std::max(own, tolerance));
  const auto want = values_of(*reference_, stored);
  reference_->write(stored, mine);
  const auto got = values_of(*reference_, stored);
  const auto found = divergence(got, want, limit, output.least_scale, output.columns);
  if (!found) return;
  const auto first = static_cast<size_t>(found->first);
  throw DeviceError(
      "trainer.device=check: op " + std::to_string(ops_ + 1) + ", " + op + ": " + output.name +
      " (" + std::string(name_of(x.dtype())) + to_string(x.shape()) + ") diverges in " +
      std::to_string(found->count) + " of " + std::to_string(x.numel()) +
      " elements, the first at " + index_text(x.shape(), found->first) + ": " + number(got[first]) +
      ", by the reference " + number(want[first]) + "; the largest difference is " +
      number(found->largest) + " of the tensor's scale, the tolerance " + number(limit));
}

double CheckedBackend::largest(const Tensor& x) const {
  if (!x.defined()) return 0;
  return largest_magnitude(values_of(*reference_, moved(*subject_, *reference_, x)));
}

double CheckedBackend::smallest_positive(const Tensor& x) const {
  double smallest = HUGE_VAL;
  for (const double v : values_of(*reference_, moved(*subject_, *reference_, x))) {
    if (v > 0) smallest = std::min(smallest, v);
  }
  return std::isfinite(smallest) ? smallest : 1;
}

void CheckedBackend::accept_ties(const Tensor& ids, const Tensor& twin_ids,
                                 const Tensor& twin_log_prob, const Tensor& twin_logits,
                                 const Tensor& twin_counters,
                                 const SamplingOptions& options) const {
  const auto as_ids = [](std::vector<double> values) {
    return std::vector<int32_t>(values.begin(), values.end());
  };
  const auto mine = as_ids(values_of(*reference_, moved(*subject_, *reference_, ids)));
  auto theirs = as_ids(values_of(*reference_, twin_ids));
  if (mine == theirs) return;
  const auto counters = as_ids(values_of(*reference_, twin_counters));
  auto log_prob = download(*reference_, twin_log_prob);
  for (size_t row = 0; row < mine.size(); ++row) {
    if (mine[row] == theirs[row]) continue;
    const Tensor logits = twin_logits.rows(static_cast<int64_t>(row), 1);
    const SampledRow sampled(download(*reference_, logits), std::span(counters).subspan(4 * row, 4),
                             options, tolerance_of(DType::kFloat32));
    if (!sampled.may_draw(mine[row]) || !sampled.may_draw(theirs[row])) continue;
    theirs[row] = mine[row];
    log_prob[row] = sampled.log_prob(mine[row]);
  }
  reference_->write(twin_ids, std::as_bytes(std::span(theirs)));
  const Tensor corrected = upload_as(*reference_, twin_log_prob.dtype(), log_prob,
                                     twin_log_prob.shape(), MemoryTag::kWorkspace);
  reference_->copy(twin_log_prob, corrected);
}

}  // namespace verlcpp
