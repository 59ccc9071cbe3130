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
  return train::selftest_layout(tree,
                                {.make_backend = [cpu](int rank) -> std::unique_ptr<Backend> {
                                   if (cpu) return std::make_unique<cpu::CpuBackend>();
                                   return cuda::make_backend(rank);
                                 },
                                 .memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
                                                 static_cast<int64_t>(sysconf(_SC_PAGESIZE))});
}

}  // namespace verlcpp::app
