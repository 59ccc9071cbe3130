// trainer.device=check on a GPU: a small training run in which every op agrees with the CPU.

#include "cpu/cpu_backend.h"
#include "cuda/runtime.h"
#include "layout_case.h"
#include "support/catch.h"
#include "tensor/checked_backend.h"

using namespace verlcpp;
using namespace verlcpp::test;

TEST_CASE("every op of a training run on a GPU agrees with the CPU") {
  for (const Layout& layout :
       {static_cp(1, 1, {}), with_tp(dynamic_cp(2, 1, kLongest / 2), 2, true)}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      INFO(layout.name << ", " << name_of(dtype));
      CHECK_NOTHROW(
          updates_of(make_config(layout.overrides, {}), dtype, 2, layout.shuffle_packing,
                     [](const auto& me, const auto& host) {
                       parallel::RankDevice device = cuda::make_device(me, host, me.sizes().world);
                       device.backend = std::make_unique<CheckedBackend>(
                           std::move(device.backend), std::make_unique<cpu::CpuBackend>());
                       return device;
                     }));
    }
  }
}
