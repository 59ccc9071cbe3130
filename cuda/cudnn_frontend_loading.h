#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstring>

// cudnn-frontend, for the one file that includes it: it takes a minute to compile. It looks up
// functions of cuDNN and of the CUDA runtime at run time. Ours of the latter is linked in, and a
// machine may have no shared one, or two. Its shim calls dlopen, dlsym and dlerror unqualified, so
// these of its own namespace are the ones it finds.

namespace cudnn_frontend::detail {

struct LinkedFunction {
  const char* name;
  void* address;
};

/// What building and executing an attention graph calls.
inline const LinkedFunction kLinkedRuntime[] = {
    {"cudaGetDevice", reinterpret_cast<void*>(&::cudaGetDevice)},
    {"cudaGetDeviceProperties", reinterpret_cast<void*>(&::cudaGetDeviceProperties)},
    {"cudaGetErrorString", reinterpret_cast<void*>(&::cudaGetErrorString)},
    {"cudaMemcpyAsync", reinterpret_cast<void*>(&::cudaMemcpyAsync)},
    {"cudaMemsetAsync", reinterpret_cast<void*>(&::cudaMemsetAsync)},
};

/// Called for the runtime alone: cuDNN's handle is given, the driver is not used.
inline void* dlopen(const char* name, int) {
  if (std::strcmp(name, "libcudart.so.13") != 0) return nullptr;
  return const_cast<LinkedFunction*>(kLinkedRuntime);
}

inline void* dlsym(void* handle, const char* name) {
  if (handle != kLinkedRuntime) return ::dlsym(handle, name);
  for (const LinkedFunction& function : kLinkedRuntime) {
    if (std::strcmp(function.name, name) == 0) return function.address;
  }
  return nullptr;
}

inline const char* dlerror() { return nullptr; }

}  // namespace cudnn_frontend::detail

#include <cudnn_frontend.h>
