// A library that the CUDA driver loads into a process ($CUDA_INJECTION64_PATH): it writes what the
// GPU did, one line each of device, start and end in nanoseconds and mangled name, to the file that
// $KERNEL_TRACE names. For scripts/bench/step_profile.py.

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

template <class Record>
void write_line(const CUpti_Activity* record, const char* name) {
  const auto* r = reinterpret_cast<const Record*>(record);
  std::fprintf(trace(), "%u\t%llu\t%llu\t%s\n", r->deviceId,
               static_cast<unsigned long long>(r->start), static_cast<unsigned long long>(r->end),
               name);
}

bool worked(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return true;
  const char* why = "";
  cuptiGetResultString(result, &why);
  std::fprintf(stderr, "kernel trace: %s: %s\n", what, why);
  return false;
}

void give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  *bytes = kBufferBytes;
  *most_records = 0;
}

void take_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t filled) {
  size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS &&
      dropped > 0) {
    std::fprintf(stderr, "kernel trace: %zu records were dropped\n", dropped);
  }
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        write_line<CUpti_ActivityKernel10>(
            record, reinterpret_cast<const CUpti_ActivityKernel10*>(record)->name);
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET:
        write_line<CUpti_ActivityMemset4>(record, "memset");
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        write_line<CUpti_ActivityMemcpy6>(record, "memcpy");
        break;
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
  if (!worked(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "callbacks")) return 0;
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMCPY}) {
    if (!worked(cuptiActivityEnable(kind), "activities")) return 0;
  }
  std::atexit(flush);
  return 1;
}
