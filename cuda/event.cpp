#include "cuda/event.h"

#include "cuda/check.h"

namespace verlcpp::cuda {

Event::Event(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  event_ = {event, [](cudaEvent_t e) { cudaEventDestroy(e); }};
  check(cudaEventRecord(event, stream), "cudaEventRecord");
}

void Event::before(cudaStream_t stream) const {
  check(cudaStreamWaitEvent(stream, event_.get(), 0), "cudaStreamWaitEvent");
}

cudaError_t Event::status() const { return cudaEventQuery(event_.get()); }

bool Event::reached() const {
  const cudaError_t now = status();
  if (now != cudaErrorNotReady) check(now, "the GPU's work");
  return now == cudaSuccess;
}

}  // namespace verlcpp::cuda
