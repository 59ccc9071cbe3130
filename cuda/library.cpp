#include "cuda/library.h"

#include <dlfcn.h>
#include <link.h>

#include "base/error.h"

namespace verlcpp::cuda {

Library::Library(const std::string& purpose, std::initializer_list<const char*> names) {
  std::string tried, reason;
  for (const char* name : names) {
    handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      name_ = name;
      return;
    }
    tried += (tried.empty() ? "" : ", ") + std::string(name);
    if (const char* error = ::dlerror()) reason = error;
  }
  throw DeviceError("trainer.device=cuda needs " + tried + " for " + purpose + ": " + reason +
                    "; install it, or name its folder in LD_LIBRARY_PATH");
}

std::string Library::path() const {
  link_map* map = nullptr;
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return name_;
  return map->l_name;
}

void* Library::symbol(const char* name) const {
  void* found = ::dlsym(handle_, name);
  if (found == nullptr) {
    throw DeviceError(name_ + " lacks " + name + ": another version than this build was made for");
  }
  return found;
}

}  // namespace verlcpp::cuda
