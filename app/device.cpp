#include "app/device.h"

#include <memory>
#include <utility>

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
  const config::Node* dtype = resolved_tree.find("actor_rollout_ref.actor.megatron.dtype");
  const std::string* name = dtype == nullptr ? nullptr : dtype->get_if<std::string>();
  const bool wide = name != nullptr && *name == "float64";
  if (wide) why = "float64 runs on the CPU alone";
  const bool cuda = !wide && cuda::usable(name != nullptr && *name == "bfloat16", &why);
  config::Origin origin = node->origin();
  origin.text += ", auto: " + why;
  *node = config::Node(std::string(cuda ? "cuda" : "cpu"), origin);
  return "device: trainer.device=auto chose " + std::string(cuda ? "cuda" : "cpu") + ": " + why;
}

std::string device_name(const std::string& device) {
  if (device == "cpu") return "cpu";
  const auto about = cuda::describe_device(0);
  const auto name = about.find("name");
  return name == about.end() ? device : name->second;
}

parallel::RankDevice make_device(const std::string& device, const parallel::Topology& topology,
                                 const parallel::RankCommunicators& host,
                                 std::optional<int64_t> ranks_per_gpu,
                                 const cuda::BackendOptions& options) {
  if (device == "cpu") return parallel::host_device(std::make_unique<cpu::CpuBackend>(), host);
  expects(device == "cuda" || device == "check", "trainer.device is chosen and validated");
  parallel::RankDevice made = cuda::make_device(topology, host, ranks_per_gpu, options);
  if (device == "check") {
    made.backend = std::make_unique<CheckedBackend>(std::move(made.backend),
                                                    std::make_unique<cpu::CpuBackend>());
  }
  return made;
}

}  // namespace verlcpp::app
