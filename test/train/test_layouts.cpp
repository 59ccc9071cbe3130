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
  if (short_list()) {
    return {static_cp(4, 2, {}), with_tp(dynamic_cp(4, 2, kLongest / 4), 2, true)};
  }
  std::vector<Layout> all{
      static_cp(2, 2, {}),
      static_cp(3, 3, {}),
      static_cp(4, 4, {}),
      static_cp(4, 1, {}),
      static_cp(4, 2, {}),
      static_cp(1, 1, micro_batches_of(1)),
      static_cp(1, 1, micro_batches_of(3)),
      static_cp(4, 2, micro_batches_of(1)),
      static_cp(1, 1, {"data.max_token_len_per_gpu=48"}),
      static_cp(2, 2, {"data.max_token_len_per_gpu=40"}),
      dynamic_cp(2, 1, kLongest / 2),
      dynamic_cp(4, 2, kLongest / 4),
      dynamic_cp(6, 3, kLongest / 6),
      dynamic_cp(8, 2, kLongest / 8),
      dynamic_cp(8, 8, 30),
  };
  for (const bool sequence_parallel : {false, true}) {
    all.push_back(with_tp(static_cp(1, 1, {}), 2, sequence_parallel));
    all.push_back(with_tp(static_cp(1, 1, {}), 4, sequence_parallel));  // shares kv heads
    all.push_back(with_tp(static_cp(2, 2, {}), 2, sequence_parallel));
    all.push_back(with_tp(dynamic_cp(4, 2, kLongest / 4), 2, sequence_parallel));
    all.push_back(with_tp(dynamic_cp(4, 4, kLongest / 4), 4, sequence_parallel));
    all.push_back(
        without_zero1(with_tp(static_cp(2, 1, micro_batches_of(2)), 4, sequence_parallel)));
  }
  all.push_back(without_zero1(static_cp(4, 2, {})));
  all.push_back(without_zero1(dynamic_cp(6, 3, kLongest / 6)));
  const std::string overrides = megatron("override_transformer_config.recompute_");
  Layout recompute = dynamic_cp(4, 2, kLongest / 4);
  recompute.name += ", full recompute";
  recompute.overrides.insert(
      recompute.overrides.end(),
      {overrides + "granularity=full", overrides + "method=uniform", overrides + "num_layers=1"});
  all.push_back(recompute);
  all.push_back(with_tp(recompute, 2, true));
  recompute.name += " of the first layer";
  recompute.overrides.push_back(overrides + "method=block");
  all.push_back(recompute);
  recompute = static_cp(2, 2, {});
  recompute.name += ", selective recompute";
  recompute.overrides.push_back(overrides + "granularity=selective");
  all.push_back(recompute);
  Layout mixed = static_cp(1, 1, {"data.max_token_len_per_gpu=60"});
  mixed.name += ", shuffled packing";
  mixed.shuffle_packing = true;
  all.push_back(mixed);
  mixed = dynamic_cp(6, 3, 16);
  mixed.name += ", shuffled packing";
  mixed.shuffle_packing = true;
  all.push_back(mixed);
  return all;
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
