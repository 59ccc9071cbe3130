// The product's claim: any layout gives the numbers of one rank with one micro-batch. Ten updates
// on recorded trajectories, each of two epochs over two mini-batches, with a reference that differs
// from the actor, active ratio and gradient clipping and one fully masked sample.

#include <algorithm>
#include <cstdlib>

#include "layout_case.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;
using namespace verlcpp::train;

namespace {

void check_equal(const LayoutResult& got, const LayoutResult& want, double tolerance,
                 double floor = 1e-150) {
  const LayoutDifference d = difference(got, want, floor);
  CHECK(d.losses < tolerance);
  CHECK(d.grad_norms < tolerance);
  CHECK(d.gradients < tolerance);
  CHECK(d.weights < tolerance);
}

bool short_list() {
  const char* value = std::getenv("VERLCPP_LAYOUTS");
  return value != nullptr && std::string(value) == "short";
}

std::vector<Layout> layouts() {
  if (!short_list()) return all_layouts();
  return {static_cp(4, 2, {}), with_tp(dynamic_cp(4, 2, kLongest / 4), 2, true)};
}

}  // namespace

TEST_CASE("ten updates give the one-rank numbers in fp64 under every layout") {
  const int updates = short_list() ? 2 : 10;
  const LayoutResult want = updates_of(make_config({}, {}), DType::kFloat64, updates, false);
  REQUIRE(want.losses.size() == static_cast<size_t>(updates * 4));
  REQUIRE(want.gradients.size() == want.losses.size());
  CHECK(want.clipped_tokens > 0);                                                  // ratios clip
  CHECK(*std::max_element(want.grad_norms.begin(), want.grad_norms.end()) > 0.5);  // gradients clip
  for (const Layout& layout : layouts()) {
    INFO(layout.name);
    check_equal(updates_of(make_config(layout.overrides, {}), DType::kFloat64, updates,
                           layout.shuffle_packing),
                want, 1e-9);
  }
}

TEST_CASE("every loss_agg_mode is the same under static and dynamic CP") {
  for (const char* mode : {"token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean",
                           "seq-mean-token-sum-norm"}) {
    INFO(mode);
    const std::vector<std::string> more{actor(std::string("loss_agg_mode=") + mode)};
    const LayoutResult want = updates_of(make_config({}, more), DType::kFloat64, 1, false);
    for (const Layout& layout : {static_cp(4, 2, {}), dynamic_cp(4, 2, kLongest / 4),
                                 with_tp(dynamic_cp(2, 1, kLongest / 2), 2, true)}) {
      check_equal(updates_of(make_config(layout.overrides, more), DType::kFloat64, 1, false), want,
                  1e-9);
    }
  }
}

TEST_CASE("fp32 agrees across layouts within 1e-5 for one update") {
  const LayoutResult want = updates_of(make_config({}, {}), DType::kFloat32, 1, false);
  for (const Layout& layout : {static_cp(4, 4, {}), dynamic_cp(4, 2, kLongest / 4),
                               with_tp(static_cp(2, 2, {}), 4, true)}) {
    INFO(layout.name);
    const LayoutResult got =
        updates_of(make_config(layout.overrides, {}), DType::kFloat32, 1, false);
    check_equal(got, want, 1e-5, 1e-6);
  }
}
