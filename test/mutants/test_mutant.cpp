// Linked with one seeded fault (mutants.toml), which $VERLCPP_MUTANT names: at least one layout
// of those that test/train/test_layouts.cpp runs must give other numbers than one rank. Linked with
// none, all of them must agree.

#include <cmath>
#include <cstdlib>
#include <iostream>

#include "layout_case.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

TEST_CASE("a seeded fault is caught, and nothing else is") {
  const char* name = std::getenv("VERLCPP_MUTANT");
  const auto want = updates_of(make_config({}, {}), DType::kFloat64, 1, false);
  int caught = 0;
  for (const Layout& layout : all_layouts()) {
    const auto got =
        updates_of(make_config(layout.overrides, {}), DType::kFloat64, 1, layout.shuffle_packing);
    const double largest = difference(got, want, 1e-150).largest();
    if (largest < 1e-9) continue;
    if (++caught == 1) std::cout << (name == nullptr ? "no fault" : name) << " is caught by\n";
    std::cout << "  " << layout.name << ": largest relative difference " << largest << '\n';
  }
  CHECK((caught > 0) == (name != nullptr));
}
