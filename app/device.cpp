#include "app/device.h"

#include "base/error.h"
#include "cpu/cpu_backend.h"
#include "cuda/runtime.h"
#include "tensor/checked_backend.h"

namespace verlcpp::app {

std::string choose_device(config::Node& resolved_tree, bool dry_run) {
  config::Node* node = resolved_tree.find("trainer.device");
  const std::string* asked = node == nullptr ? nullptr : node->get_if<std::string>();
  if (asked == nullptr) return "";
  if (*asked == "check") {
    return "device: trainer.device=check runs every op on the GPU and on the CPU and compares the "
           "two; this is slow, for small models";
  }
  if (*asked != "auto") return "";
  if (dry_run) {
    return "device: trainer.device=auto would try cuda, then cpu; a dry run touches neither";
  }
  std::string why;
  const bool cuda = cuda::usable(&why);
  const std::string origin = node->origin().text + ", auto: " + why;
  *node = config::Node(std::string(cuda ? "cuda" : "cpu"), config::Origin{origin});
  return "device: trainer.device=auto chose " + std::string(cuda ? "cuda" : "cpu") + ": " + why;
}

std::unique_ptr<Backend> make_backend(const std::string& device, int gpu) {
  if (device == "cpu") return std::make_unique<cpu::CpuBackend>();
  expects(device == "cuda" || device == "check", "trainer.device is chosen and validated");
  auto cuda = cuda::make_backend(gpu);
  if (device == "cuda") return cuda;
  return std::make_unique<CheckedBackend>(std::move(cuda), std::make_unique<cpu::CpuBackend>());
}

}  // namespace verlcpp::app
