#include <cmath>

#include "schedule/cost_fit.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::schedule;

namespace {

std::vector<MeasuredGroup> grid(const CostModel& truth, const std::vector<int64_t>& sizes,
                                int64_t tp) {
  std::vector<MeasuredGroup> measured;
  for (int64_t cp : sizes) {
    for (int64_t length : {100, 700, 2000, 8192}) {
      for (int64_t documents : {1, 3, 20}) {
        MeasuredGroup m{.lengths = std::vector<int64_t>(static_cast<size_t>(documents), length),
                        .cp = cp};
        const std::array<double, 6> counts = cost_counts(m.lengths, tp, cp), terms = truth.terms();
        for (size_t i = 0; i < counts.size(); ++i) m.seconds += counts[i] * terms[i];
        measured.push_back(m);
      }
    }
  }
  return measured;
}

void check_equal(const CostModel& got, const CostModel& want) {
  for (size_t i = 0; i < want.terms().size(); ++i) {
    INFO(CostModel::kNames[i]);
    CHECK(std::abs(got.terms()[i] - want.terms()[i]) <= 1e-6 * want.terms()[i]);
  }
}

}  // namespace

TEST_CASE("the fit finds the model that made the times") {
  const CostModel truth{.micro_batch = 3e-3,
                        .document = 1e-5,
                        .linear = 4e-6,
                        .quadratic = 5e-10,
                        .exchange = 2e-4,
                        .exchanged = 3e-7};
  check_equal(fit_cost(grid(truth, {1, 2, 4}, 1), 1), truth);
  check_equal(fit_cost(grid(truth, {1, 2, 4}, 2), 2), truth);
}

TEST_CASE("terms that nothing measured tells are zero") {
  CostModel truth{.micro_batch = 3e-3, .document = 1e-5, .linear = 4e-6, .quadratic = 5e-10};
  check_equal(fit_cost(grid(truth, {1}, 1), 1), truth);  // no exchanges at all
}

TEST_CASE("no term of a fit is negative") {
  // Twice the rows, less than twice the time, and a longer document for less: least squares alone
  // would want a negative quadratic term.
  const std::vector<MeasuredGroup> measured = {
      {{1000}, 1, 1.0}, {{1000, 1000}, 1, 2.1}, {{2000}, 1, 1.9}, {{4000}, 1, 3.6}};
  const CostModel model = fit_cost(measured, 1);
  for (double term : model.terms()) CHECK(term >= 0);
  CHECK(model.quadratic == 0);
  CHECK(model.linear > 8e-4);
}

TEST_CASE("a fit needs positive times") {
  CHECK_THROWS(fit_cost({}, 1));
  const std::vector<MeasuredGroup> none = {{{10}, 1, 0.0}};
  CHECK_THROWS(fit_cost(none, 1));
}
