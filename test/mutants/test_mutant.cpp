// Linked with one seeded fault (mutants.toml), which $VERLCPP_MUTANT names: at least one layout
// must give other numbers than one rank. Linked with none, all layouts must agree.

#include <cmath>
#include <cstdlib>
#include <iostream>

#include "layout_case.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

std::vector<Layout> layouts() {
  return {static_cp(1, 1, micro_batches_of(3)),
          static_cp(4, 1, {}),
          static_cp(2, 2, {}),
          static_cp(4, 2, micro_batches_of(1)),
          dynamic_cp(4, 2, kLongest / 4),
          dynamic_cp(6, 3, kLongest / 6),
          with_tp(static_cp(1, 1, {}), 2, true),
          with_tp(static_cp(1, 1, {}), 4, false),
          with_tp(dynamic_cp(4, 2, kLongest / 4), 2, true)};
}

}  // namespace

TEST_CASE("a seeded fault is caught, and nothing else is") {
  const char* name = std::getenv("VERLCPP_MUTANT");
  const auto want = updates_of(make_config({}, {}), DType::kFloat64, 1, false);
  int caught = 0;
  for (const Layout& layout : layouts()) {
    const auto got = updates_of(make_config(layout.overrides, {}), DType::kFloat64, 1, false);
    const double largest = difference(got, want, 1e-150).largest();
    if (largest < 1e-9) continue;
    if (++caught == 1) std::cout << (name == nullptr ? "no fault" : name) << " is caught by\n";
    std::cout << "  " << layout.name << ": largest relative difference " << largest << '\n';
  }
  CHECK((caught > 0) == (name != nullptr));
}
