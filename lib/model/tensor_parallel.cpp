#include "model/tensor_parallel.h"

#include "base/error.h"

namespace verlcpp::model {

TensorParallel::TensorParallel(Backend& backend, parallel::Communicator* tp, bool sequence_parallel)
    : backend_(backend), tp_(tp) {
  if (tp == nullptr || tp->size() == 1) return;
  place_ = {.size = tp->size(), .rank = tp->rank(), .sequence_parallel = sequence_parallel};
}

int64_t TensorParallel::local_rows(int64_t rows) const {
  if (!place_.sequence_parallel) return rows;
  expects(rows % place_.size == 0, "sequence parallelism needs rows divisible by the TP size");
  return rows / place_.size;
}

Tensor TensorParallel::gathered(const Tensor& x) const {
  if (!place_.sequence_parallel) return x;
  Shape shape = x.shape();
  shape[0] *= place_.size;
  return all_gather(x).view(shape);
}

Tensor TensorParallel::reduced(const Tensor& x, MemoryTag tag) const {
  if (!place_.sequence_parallel) {
    all_reduce(x);
    return x;
  }
  Shape shape = x.shape();
  shape[0] = local_rows(shape[0]);
  const Tensor out = backend_.allocate(x.dtype(), shape, tag);
  tp_->reduce_scatter(out, x).wait();
  return out;
}

Tensor TensorParallel::own_rows(const Tensor& x_TD) const {
  const int64_t rows = local_rows(x_TD.dim(0));
  return place_.sequence_parallel ? x_TD.rows(place_.rank * rows, rows) : x_TD;
}

void TensorParallel::all_reduce(const Tensor& x) const {
  if (place_.size > 1) tp_->all_reduce(x, parallel::ReduceOp::kSum).wait();
}

Tensor TensorParallel::all_gather(const Tensor& x) const {
  Shape shape{place_.size};
  shape.insert(shape.end(), x.shape().begin(), x.shape().end());
  if (place_.size == 1) return x.view(shape);
  const Tensor out = backend_.allocate(x.dtype(), shape, MemoryTag::kComm);
  tp_->all_gather(out, x).wait();
  return out;
}

}  // namespace verlcpp::model
