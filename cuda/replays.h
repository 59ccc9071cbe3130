#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/memory.h"

namespace verlcpp::cuda {

/// Memory for the bodies of replays. A graph goes on using the addresses it was captured with, so
/// what a body frees is kept here, for other bodies alone: graphs run one after the other on one
/// stream, and none leaves anything in this memory for the next.
class ReplayMemory : public std::enable_shared_from_this<ReplayMemory> {
 public:
  explicit ReplayMemory(std::shared_ptr<MemoryPool> pool) : pool_(std::move(pool)) {}
  std::shared_ptr<std::byte> allocate(int64_t bytes, MemoryTag tag);

 private:
  struct Block {
    std::shared_ptr<std::byte> memory;
    int64_t bytes = 0;
    MemoryTag tag{};
  };
  std::shared_ptr<std::byte> lend(Block block);

  std::shared_ptr<MemoryPool> pool_;
  std::mutex mutex_;  // tensors may be freed on other threads
  std::vector<Block> idle_;
};

/// Backend::replay on one stream by CUDA graphs. A body runs as it is the first time, so that
/// libraries load their kernels and memory grows outside of a capture, and as long as its ops still
/// try ways of doing their work; then it is captured, for other threads' ranks without any effect.
class Replays {
 public:
  /// How often ops have tried another way so far: a graph would keep the one it meets.
  using Trials = std::function<int64_t()>;
  /// Without `capture` bodies run as they are, in their own memory all the same.
  Replays(
      cudaStream_t stream, std::shared_ptr<MemoryPool> pool, bool capture,
      Trials trials = [] { return int64_t{0}; });
  ~Replays() { forget(); }
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  void run(const std::string& key, const std::function<void()>& body);
  /// Waits for graphs that still run.
  void forget() noexcept;
  /// A body runs now: allocations come from memory().
  bool inside() const { return inside_; }
  ReplayMemory& memory() { return *memory_; }
  /// Graphs captured since the last forget.
  int64_t graphs() const;

 private:
  struct Entry {
    int64_t runs = 0;
    bool settled = false;  // the last run tried nothing
    cudaGraphExec_t graph = nullptr;
  };
  /// Null where something else has ended the capture: another rank of the GPU that waits for all of
  /// its work, or an op that may not be captured and will say so when the body runs as it is.
  cudaGraphExec_t captured(const std::function<void()>& body);
  void run_inside(const std::function<void()>& body);

  cudaStream_t stream_;
  std::shared_ptr<MemoryPool> pool_;
  bool capture_, inside_ = false;
  Trials trials_;
  std::shared_ptr<ReplayMemory> memory_;
  std::map<std::string, Entry> entries_;
};

}  // namespace verlcpp::cuda
