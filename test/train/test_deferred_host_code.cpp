// The passes on a backend that runs host code late, as a GPU does: when the caller next waits, or
// when the backend ends. CpuBackend itself runs it at once and would hide a wait that is missing.

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cpu/cpu_backend.h"
#include "layout_case.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

class DeferringBackend final : public cpu::CpuBackend {
 public:
  /// The attention block number `failing`, from 1, throws.
  explicit DeferringBackend(int failing) : failing_(failing) {}
  ~DeferringBackend() override { run_pending(); }

  // Outputs stay zero for what is enqueued meanwhile: gradients here say nothing, losses do.
  HostWork run_on_host(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                       HostCode code) override {
    for (const Tensor& x : outputs) fill_zero(x);
    pending_.push_back([=, this] { cpu::CpuBackend::run_on_host(inputs, outputs, code); });
    return {};
  }
  void synchronize() override { run_pending(); }
  void read(std::span<std::byte> dst, const Tensor& src) override {
    run_pending();
    cpu::CpuBackend::read(dst, src);
  }
  void attention_block(AttentionMask mask, const AttentionSpans& spans, double scale,
                       const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                       const Tensor& lse) override {
    if (++blocks_ == failing_) throw DeviceError("another rank has failed");
    cpu::CpuBackend::attention_block(mask, spans, scale, q, k, v, o, lse);
  }

 private:
  void run_pending() {
    for (const auto& call : std::exchange(pending_, {})) call();
  }
  std::vector<std::function<void()>> pending_;
  int failing_, blocks_ = 0;
};

train::LayoutResult one_update(const std::vector<std::string>& layout, int failing) {
  return updates_of(
      make_config(layout, {}), DType::kFloat64, 1, false, [=](const auto&, const auto& host) {
        return parallel::host_device(std::make_unique<DeferringBackend>(failing), host);
      });
}

}  // namespace

TEST_CASE("log-probs and losses that are computed late are complete when they are used") {
  for (const auto& layout :
       {static_cp(1, 1, micro_batches_of(2)), dynamic_cp(2, 2, kLongest / 2)}) {
    INFO(layout.name);
    const auto at_once = updates_of(make_config(layout.overrides, {}), DType::kFloat64, 1, false);
    const auto late = one_update(layout.overrides, 0);
    REQUIRE(!late.losses.empty());
    CHECK(late.losses.front() == at_once.losses.front());
    CHECK(late.loss_scales.front() == at_once.loss_scales.front());
  }
}

// AddressSanitizer sees what runs after its data is gone.
TEST_CASE("host code that is pending when a pass fails owns what it uses") {
  const auto layout = static_cp(1, 1, micro_batches_of(2)).overrides;
  int failed = 0;
  for (int failing = 1; failing < 100; failing += 7) {
    try {
      one_update(layout, failing);
      break;  // fewer blocks than that
    } catch (const DeviceError& error) {
      CHECK(std::string(error.what()) == "another rank has failed");
      ++failed;
    }
  }
  CHECK(failed > 4);
}
