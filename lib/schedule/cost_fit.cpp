#include "schedule/cost_fit.h"

#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"

namespace verlcpp::schedule {
namespace {

constexpr size_t kTerms = CostModel::kNames.size();
using Terms = std::array<double, kTerms>;

/// Normal equations of relative errors: each row is divided by its time, so that the wanted value
/// is 1. Columns are scaled to a length of 1, since counts go from 1 to 1e9.
struct Normal {
  std::array<Terms, kTerms> matrix{};
  Terms right{}, scale{};
  double rows = 0;
};

Normal normal_equations(std::span<const MeasuredGroup> measured, int64_t tp) {
  Normal n;
  for (const MeasuredGroup& m : measured) {
    expects(m.seconds > 0, "a measured time is positive");
    const Terms counts = cost_counts(m.lengths, tp, m.cp);
    for (size_t i = 0; i < kTerms; ++i) {
      n.right[i] += counts[i] / m.seconds;
      for (size_t j = 0; j < kTerms; ++j) {
        n.matrix[i][j] += counts[i] * counts[j] / (m.seconds * m.seconds);
      }
    }
    n.rows += 1;
  }
  for (size_t i = 0; i < kTerms; ++i) n.scale[i] = std::sqrt(n.matrix[i][i]);
  for (size_t i = 0; i < kTerms; ++i) {
    if (n.scale[i] == 0) continue;
    n.right[i] /= n.scale[i];
    for (size_t j = 0; j < kTerms; ++j) {
      if (n.scale[j] > 0) n.matrix[i][j] /= n.scale[i] * n.scale[j];
    }
  }
  return n;
}

/// The terms of `subset` that solve the equations (Cholesky), others 0. Nothing when the columns do
/// not tell them apart or one would be negative.
std::optional<Terms> solve(const Normal& n, unsigned subset) {
  constexpr double kSingular = 1e-10;
  std::vector<size_t> used;
  for (size_t i = 0; i < kTerms; ++i) {
    if ((subset >> i & 1U) != 0) used.push_back(i);
  }
  const size_t m = used.size();
  std::array<Terms, kTerms> lower{};
  Terms y{}, x{};
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = n.matrix[used[i]][used[j]];
      for (size_t k = 0; k < j; ++k) sum -= lower[i][k] * lower[j][k];
      if (i == j && sum < kSingular) return {};
      lower[i][j] = i == j ? std::sqrt(sum) : sum / lower[j][j];
    }
    y[i] = n.right[used[i]];
    for (size_t k = 0; k < i; ++k) y[i] -= lower[i][k] * y[k];
    y[i] /= lower[i][i];
  }
  Terms terms{};
  for (size_t i = m; i-- > 0;) {
    x[i] = y[i];
    for (size_t k = i + 1; k < m; ++k) x[i] -= lower[k][i] * x[k];
    x[i] /= lower[i][i];
    if (x[i] < 0) return {};
    terms[used[i]] = x[i];
  }
  return terms;
}

/// Sum of squared relative errors.
double residual(const Normal& n, const Terms& x) {
  double sum = n.rows;
  for (size_t i = 0; i < kTerms; ++i) {
    sum -= 2 * x[i] * n.right[i];
    for (size_t j = 0; j < kTerms; ++j) sum += x[i] * n.matrix[i][j] * x[j];
  }
  return sum;
}

}  // namespace

CostModel fit_cost(std::span<const MeasuredGroup> measured, int64_t tp) {
  expects(!measured.empty(), "a cost model is fitted to measurements");
  const Normal n = normal_equations(measured, tp);
  double best = std::numeric_limits<double>::infinity();
  Terms terms{};
  for (unsigned subset = 1; subset < 1U << kTerms; ++subset) {
    const std::optional<Terms> x = solve(n, subset);
    if (!x) continue;
    const double error = residual(n, *x);
    if (error >= best) continue;
    best = error;
    terms = *x;
  }
  for (size_t i = 0; i < kTerms; ++i) {
    if (n.scale[i] > 0) terms[i] /= n.scale[i];
  }
  return CostModel::of(terms);
}

}  // namespace verlcpp::schedule
