#include "app/selftest.h"

#include <unistd.h>

#include <memory>
#include <string>

#include "cpu/cpu_backend.h"
#include "cuda/runtime.h"

namespace verlcpp::app {

train::SelftestReport run_selftest(const config::Node& tree) {
  const config::Node* device = tree.find("trainer.device");
  const std::string* name = device == nullptr ? nullptr : device->get_if<std::string>();
  const bool cpu = name != nullptr && *name == "cpu";
  return train::selftest_layout(
      tree, {.make_device =
                 [cpu](const auto& topology, const auto& host) {
                   if (!cpu) return cuda::make_device(topology, host, {});
                   return parallel::host_device(std::make_unique<cpu::CpuBackend>(), host);
                 },
             .memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
                             static_cast<int64_t>(sysconf(_SC_PAGESIZE))});
}

}  // namespace verlcpp::app
