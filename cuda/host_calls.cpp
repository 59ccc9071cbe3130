#include "cuda/host_calls.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "cuda/check.h"

namespace verlcpp::cuda {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned_bytes(const Tensor& x) {
  return (static_cast<size_t>(x.bytes()) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

HostCalls::HostCalls(cudaStream_t compute) : compute_(compute) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

HostCalls::~HostCalls() {
  cudaStreamSynchronize(stream_);
  // After an error of the GPU nothing has waited for code that has begun, but this does.
  const std::lock_guard over(running_);
  cudaStreamDestroy(stream_);
  for (const auto& call : calls_) idle_.push_back(call->memory);
  for (const Pinned& memory : idle_) {
    if (memory.data != nullptr) cudaFreeHost(memory.data);
  }
}

Event HostCalls::enqueue(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                         HostCode code) {
  retire();
  size_t bytes = 0;
  for (const auto* tensors : {&inputs, &outputs}) {
    for (const Tensor& x : *tensors) bytes += aligned_bytes(x);
  }
  calls_.push_back(std::make_unique<Call>(Call{*this, std::move(code), take(bytes)}));
  Call& call = *calls_.back();
  Event(compute_).before(stream_);
  std::byte* place = call.memory.data;
  for (const Tensor& x : inputs) {
    const auto size = static_cast<size_t>(x.bytes());
    call.inputs.emplace_back(place, size);
    if (size > 0) {
      check(cudaMemcpyAsync(place, x.data(), size, cudaMemcpyDeviceToHost, stream_),
            "values for host code");
    }
    place += aligned_bytes(x);
  }
  for (const Tensor& x : outputs) {
    call.outputs.emplace_back(place, static_cast<size_t>(x.bytes()));
    place += aligned_bytes(x);
  }
  const auto trampoline = [](void* data) {
    Call& mine = *static_cast<Call*>(data);
    mine.owner.run(mine);
  };
  check(cudaLaunchHostFunc(stream_, trampoline, &call), "cudaLaunchHostFunc");
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (call.outputs[i].empty()) continue;
    check(cudaMemcpyAsync(outputs[i].data(), call.outputs[i].data(), call.outputs[i].size(),
                          cudaMemcpyHostToDevice, stream_),
          "values of host code");
  }
  call.done = Event(stream_);
  call.enqueued = true;
  return call.done;
}

// On the driver's thread, which may make no CUDA call.
void HostCalls::run(Call& call) noexcept {
  const std::lock_guard running(running_);
  try {
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return;
    }
    call.code(call.inputs, call.outputs);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
}

void HostCalls::rethrow() {
  retire();  // what code has captured goes when a wait is over
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

HostCalls::Pinned HostCalls::take(size_t bytes) {
  if (bytes == 0) return {};
  const auto fits = [bytes](const Pinned& memory) { return memory.bytes >= bytes; };
  if (const auto found = std::find_if(idle_.begin(), idle_.end(), fits); found != idle_.end()) {
    const Pinned memory = *found;
    idle_.erase(found);
    return memory;
  }
  Pinned memory{.data = nullptr, .bytes = std::bit_ceil(std::max(bytes, size_t{1} << 16))};
  check_pinned(
      cudaHostAlloc(reinterpret_cast<void**>(&memory.data), memory.bytes, cudaHostAllocDefault),
      memory.bytes);
  return memory;
}

void HostCalls::retire() {
  while (!calls_.empty() && calls_.front()->enqueued && calls_.front()->done.reached()) {
    if (calls_.front()->memory.data != nullptr) idle_.push_back(calls_.front()->memory);
    calls_.pop_front();
  }
}

}  // namespace verlcpp::cuda
