#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

// Row ranges of documents in the units of cuDNN's ragged tensors.

namespace verlcpp::cuda {
namespace {

__global__ void ragged_kernel(AttentionArgs a, int64_t documents, int64_t bucket,
                              const int32_t* order, RaggedArrays out) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i > bucket) return;
  int64_t q_row = a.q_rows, kv_row = a.kv_rows;  // of an empty document: the end
  int32_t q_length = 0, kv_length = 0;
  if (i < documents) {
    const int64_t document = order == nullptr ? i : order[i];
    q_row = a.q_offset[document];
    kv_row = a.kv_offset[document];
    q_length = a.q_length[document];
    kv_length = a.kv_length[document];
  }
  out.q_offset[i] = q_row * a.heads * a.head_dim;
  out.kv_offset[i] = kv_row * a.kv_heads * a.head_dim;
  out.lse_offset[i] = q_row * a.heads;
  if (i == bucket) return;
  // cuDNN before 9.18 makes d_k and d_v of a document without queries from uninitialised memory.
  const bool empty = q_length == 0 || kv_length == 0;
  out.q_length[i] = empty ? 0 : q_length;
  out.kv_length[i] = empty ? 0 : kv_length;
}

}  // namespace

void fill_ragged(cudaStream_t stream, const AttentionArgs& args, int64_t documents, int64_t bucket,
                 const int32_t* order, const RaggedArrays& out) {
  ragged_kernel<<<grid_for(bucket + 1, 128), 128, 0, stream>>>(args, documents, bucket, order, out);
  check_launch("ragged");
}

}  // namespace verlcpp::cuda
