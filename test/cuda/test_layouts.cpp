// The layout case with several ranks sharing one GPU, against one rank on the CPU.

#include "cuda/runtime.h"
#include "layout_case.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

TEST_CASE("layouts on one GPU give the numbers of one CPU rank in float32") {
  const train::LayoutResult want = updates_of(make_config({}, {}), DType::kFloat32, 1, false);
  for (const Layout& layout : all_layouts()) {
    INFO(layout.name);
    const train::LayoutResult got =
        updates_of(make_config(layout.overrides, {}), DType::kFloat32, 1, layout.shuffle_packing,
                   [](int) { return cuda::make_backend(0); });
    const train::LayoutDifference d = difference(got, want, 1e-6);
    CHECK(d.losses < 1e-5);
    CHECK(d.grad_norms < 1e-5);
    CHECK(d.gradients < 1e-5);
    CHECK(d.weights < 1e-5);
  }
}
