#pragma once

#include "model/tp_shard.h"
#include "parallel/communicator.h"
#include "tensor/backend.h"

namespace verlcpp::model {

/// The movement around column-parallel (qkv, gate_up, head) and row-parallel (o, down, embedding)
/// products of Megatron-LM (Shoeybi et al. 2019), with sequence parallelism those of Korthikanti et
/// al. 2022. Between the products each rank holds all T rows, or t = T / size of them:
///
///                  before column-parallel   after row-parallel
///   forward        gathered                 reduced
///   backward       reduced                  gathered
///
/// With one rank both hand their argument back.
class TensorParallel {
 public:
  /// `tp` may be null for one rank.
  TensorParallel(Backend& backend, parallel::Communicator* tp, bool sequence_parallel);

  /// sequence_parallel only where there are several ranks.
  const TpPlace& place() const { return place_; }
  /// Without sequence parallelism (decoding: any number of rows).
  TensorParallel whole_rows() const { return {backend_, tp_, false}; }
  /// t of T rows. Expects T divisible by size with sequence parallelism.
  int64_t local_rows(int64_t rows) const;

  /// x_tD of all ranks as x_TD.
  Tensor gathered(const Tensor& x) const;
  /// x_tD: this rank's rows of the sum over ranks. `x` may be overwritten and handed back.
  Tensor reduced(const Tensor& x, MemoryTag tag = MemoryTag::kWorkspace) const;
  /// This rank's rows of a tensor that all ranks hold alike.
  Tensor own_rows(const Tensor& x_TD) const;
  /// In place: the sum over ranks.
  void all_reduce(const Tensor& x) const;
  /// [P, ...]: the tensors of all ranks, of one shape.
  Tensor all_gather(const Tensor& x) const;

 private:
  Backend& backend_;
  parallel::Communicator* tp_;
  TpPlace place_;
};

}  // namespace verlcpp::model
