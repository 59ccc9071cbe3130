// A library that the CUDA driver loads into a process ($CUDA_INJECTION64_PATH): it writes what the
// GPU did, one line each of start and end in nanoseconds and the mangled name, to the file that
// $KERNEL_TRACE names. For scripts/bench/profile.py.

#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

constexpr size_t kBufferBytes = size_t{8} << 20;

std::FILE* trace() {
  static std::FILE* const file = [] {
    const char* path = std::getenv("KERNEL_TRACE");
    return path == nullptr ? nullptr : std::fopen(path, "w");
  }();
  return file;
}

void write_line(uint64_t start, uint64_t end, const char* name) {
  std::fprintf(trace(), "%llu\t%llu\t%s\n", static_cast<unsigned long long>(start),
               static_cast<unsigned long long>(end), name);
}

void give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  *bytes = kBufferBytes;
  *most_records = 0;
}

void take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t filled) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
        write_line(kernel->start, kernel->end, kernel->name);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto* set = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
        write_line(set->start, set->end, "memset");
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
        write_line(copy->start, copy->end, "memcpy");
        break;
      }
      default:
        break;
    }
  }
  std::free(buffer);
}

void flush() {
  cuptiActivityFlushAll(1);
  if (trace() != nullptr) std::fclose(trace());
}

}  // namespace

extern "C" int InitializeInjection() {
  if (trace() == nullptr) return 0;
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMCPY}) {
    cuptiActivityEnable(kind);
  }
  std::atexit(flush);
  return 1;
}
