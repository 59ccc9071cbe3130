#include "cuda/replays.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "cuda/check.h"

namespace verlcpp::cuda {

// --- memory

std::shared_ptr<std::byte> ReplayMemory::allocate(int64_t bytes, MemoryTag tag) {
  {
    const std::lock_guard lock(mutex_);
    auto best = idle_.end();
    for (auto block = idle_.begin(); block != idle_.end(); ++block) {
      if (block->tag != tag || block->bytes < bytes) continue;
      if (best == idle_.end() || block->bytes < best->bytes) best = block;
    }
    if (best != idle_.end()) {
      Block found = std::move(*best);
      idle_.erase(best);
      return lend(std::move(found));
    }
  }
  return lend({pool_->allocate(bytes, tag), bytes, tag});
}

std::shared_ptr<std::byte> ReplayMemory::lend(Block block) {
  std::byte* data = block.memory.get();
  return {data, [self = shared_from_this(), block = std::move(block)](std::byte*) mutable {
            const std::lock_guard lock(self->mutex_);
            self->idle_.push_back(std::move(block));
          }};
}

// --- graphs

namespace {
constexpr int64_t kMostRuns = 64;  // before a capture, settled or not
}  // namespace

Replays::Replays(cudaStream_t stream, std::shared_ptr<MemoryPool> pool, bool capture, Trials trials)
    : stream_(stream),
      pool_(std::move(pool)),
      capture_(capture),
      trials_(std::move(trials)),
      memory_(std::make_shared<ReplayMemory>(pool_)) {}

void Replays::run(const std::string& key, const std::function<void()>& body) {
  expects(!inside_, "a replay in the body of a replay");
  Entry& entry = entries_[key];
  if (entry.graph == nullptr) {
    if (!capture_ || (!entry.settled && entry.runs < kMostRuns)) {
      const int64_t before = trials_();
      run_inside(body);
      entry.settled = trials_() == before;
      ++entry.runs;
      return;
    }
    entry.graph = captured(body);
    if (entry.graph == nullptr) return run_inside(body);
  }
  check(cudaGraphLaunch(entry.graph, stream_), "cudaGraphLaunch");
}

void Replays::run_inside(const std::function<void()>& body) {
  inside_ = true;
  try {
    body();
  } catch (...) {
    inside_ = false;
    throw;
  }
  inside_ = false;
}

cudaGraphExec_t Replays::captured(const std::function<void()>& body) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  try {
    run_inside(body);
  } catch (...) {
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);  // with what the stream held
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    if (ended == cudaErrorStreamCaptureInvalidated) return nullptr;
    throw;
  }
  const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
  if (ended == cudaErrorStreamCaptureInvalidated) {
    cudaGetLastError();
    return nullptr;
  }
  check(ended, "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
  return executable;
}

void Replays::forget() noexcept {
  if (graphs() > 0) cudaStreamSynchronize(stream_);
  for (const auto& [key, entry] : entries_) {
    if (entry.graph != nullptr) cudaGraphExecDestroy(entry.graph);
  }
  entries_.clear();
  memory_ = std::make_shared<ReplayMemory>(pool_);
}

int64_t Replays::graphs() const {
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const auto& entry) { return entry.second.graph != nullptr; });
}

}  // namespace verlcpp::cuda
