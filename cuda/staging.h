#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <functional>
#include <span>

namespace verlcpp::cuda {

/// Host memory to device memory without making the host wait: bytes are copied into pinned pieces
/// and travel from there. A piece is filled by many small writes, or a large write takes several;
/// it is used again once what it held has arrived.
class Staging {
 public:
  /// `wait` returns once an event is reached.
  Staging(cudaStream_t stream, std::function<void(cudaEvent_t)> wait);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// `src` is taken when this returns; it waits only when all pieces are on their way.
  void write(std::byte* dst, std::span<const std::byte> src);

 private:
  static constexpr size_t kPieces = 4;
  static constexpr size_t kPieceBytes = size_t{4} << 20;
  /// Moves on to the piece that was filled first.
  void next_piece();
  void release();

  cudaStream_t stream_;
  std::function<void(cudaEvent_t)> wait_;
  std::byte* memory_ = nullptr;
  std::array<cudaEvent_t, kPieces> arrived_{};  // of what a piece held
  size_t piece_ = 0, used_ = 0;
};

}  // namespace verlcpp::cuda
