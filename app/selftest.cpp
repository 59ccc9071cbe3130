#include "app/selftest.h"

#include <unistd.h>

#include <string>

#include "app/device.h"
#include "base/error.h"

namespace verlcpp::app {

train::SelftestReport run_selftest(const config::Node& tree) {
  const config::Node* device = tree.find("trainer.device");
  const std::string* name = device == nullptr ? nullptr : device->get_if<std::string>();
  expects(name != nullptr, "a validated configuration names its device");
  return train::selftest_layout(
      tree,
      {.make_device = [&](const auto& topology,
                          const auto& host) { return make_device(*name, topology, host, {}); },
       .memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
                       static_cast<int64_t>(sysconf(_SC_PAGESIZE))});
}

}  // namespace verlcpp::app
