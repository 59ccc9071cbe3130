#include "train/gradient.h"

#include <vector>

namespace verlcpp::train {
namespace {

using model::HfPiece;
using model::ParamSpec;
using model::TpKind;

std::vector<Tensor> parts_of_kind(const model::ParameterBuffer& grad, TpKind kind) {
  std::vector<Tensor> parts;
  for (const ParamSpec& spec : grad.layout().specs()) {
    for (const HfPiece& piece : spec.pieces) {
      if (piece.kind == kind) parts.push_back(grad.slice(spec.range_of(piece)));
    }
  }
  return parts;
}

/// The parts one after the other: one transfer instead of many small ones.
Tensor packed(Backend& backend, const std::vector<Tensor>& parts) {
  int64_t count = 0;
  for (const Tensor& part : parts) count += part.numel();
  const Tensor flat = backend.allocate(parts.front().dtype(), {count}, MemoryTag::kComm);
  int64_t at = 0;
  for (const Tensor& part : parts) {
    backend.copy(flat.slice(at, {part.numel()}), part);
    at += part.numel();
  }
  return flat;
}

void unpack(Backend& backend, const Tensor& flat, const std::vector<Tensor>& parts) {
  int64_t at = 0;
  for (const Tensor& part : parts) {
    backend.copy(part, flat.slice(at, {part.numel()}));
    at += part.numel();
  }
}

void sum_over_tp(const Engine& engine, const std::vector<Tensor>& parts) {
  if (parts.empty()) return;
  const Tensor flat = packed(engine.backend, parts);
  engine.comm.tp.all_reduce(flat, parallel::ReduceOp::kSum).wait();
  unpack(engine.backend, flat, parts);
}

/// Neighbours on the TP axis that share kv heads trade their parts and add them up in rank order,
/// so that all of them end with the same bits. A group is a value, as in context parallelism.
void sum_over_kv_replicas(const Engine& engine, const std::vector<Tensor>& parts,
                          int64_t replicas) {
  if (parts.empty()) return;
  Backend& backend = engine.backend;
  const Tensor mine = packed(backend, parts);
  const auto me = static_cast<int>(engine.topology.tp_rank());
  const int first = me - me % static_cast<int>(replicas);
  std::vector<parallel::Transfer> sends, receives;
  for (int peer = first; peer < first + static_cast<int>(replicas); ++peer) {
    sends.push_back({peer, mine});
    receives.push_back({peer, backend.allocate(mine.dtype(), mine.shape(), MemoryTag::kComm)});
  }
  engine.comm.tp.exchange(sends, receives).wait();
  const Tensor sum = receives.front().tensor;
  for (size_t i = 1; i < receives.size(); ++i) backend.add(sum, sum, receives[i].tensor);
  unpack(backend, sum, parts);
}

}  // namespace

void reduce_gradient(const Engine& engine, const model::ParameterBuffer& grad, bool sharded) {
  sum_over_tp(engine, parts_of_kind(grad, TpKind::kPartial));
  sum_over_kv_replicas(engine, parts_of_kind(grad, TpKind::kKvReplicated),
                       grad.layout().kv_replicas());
  if (sharded) {
    const Tensor share = grad.slice(grad.layout().share(engine.pool_rank()));
    engine.comm.grad.reduce_scatter(share, grad.flat()).wait();
  } else {
    engine.comm.grad.all_reduce(grad.flat(), parallel::ReduceOp::kSum).wait();
  }
}

}  // namespace verlcpp::train
