#include "cuda/backend.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "cuda/check.h"
#include "cuda/kernels.h"
#include "tensor/check.h"

// The border: shapes and dtypes are checked here, then the kernel is launched.

namespace verlcpp::cuda {
namespace {

int64_t row_bytes(const Tensor& x) {
  int64_t bytes = size_of(x.dtype());
  for (size_t axis = 1; axis < x.shape().size(); ++axis) bytes *= x.dim(axis);
  return bytes;
}

void expect_same_rows(const Tensor& a, const Tensor& b) {
  expects(!a.shape().empty() && !b.shape().empty() && a.dtype() == b.dtype() &&
              row_bytes(a) == row_bytes(b),
          "rows of " + to_string(a.shape()) + " and " + to_string(b.shape()) + " differ");
}

const int32_t* ints(const Tensor& x) { return x.as<int32_t>(); }

}  // namespace

CudaBackend::CudaBackend(int device, const BackendOptions& options)
    : device_(device), options_(options), pool_(std::make_shared<MemoryPool>(device)) {
  check(cudaSetDevice(device), "cudaSetDevice(" + std::to_string(device) + ")");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaStreamCreateWithFlags(&comm_stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  // Separate blocks make all of the device wait when one is freed, which no capture of a rank on
  // it survives.
  replays_ = std::make_unique<Replays>(stream_, pool_, options.graphs && !pool_->separate(),
                                       [this] { return matmul_ ? matmul_->trials() : 0; });
  pending_reads_ = std::make_unique<PendingReads>(
      stream_, [this](const std::function<cudaError_t()>& query) { wait_until(query); });
  staging_ = std::make_unique<Staging>(stream_, [this](cudaEvent_t event) {
    wait_until([event] { return cudaEventQuery(event); });
  });
  host_calls_ = std::make_unique<HostCalls>(stream_);
  if (options.reservation) pool_->reserve(*options.reservation);
  // Nor do times mean anything under a tool that separate blocks are for.
  matmul_ = std::make_unique<Matmul>(
      stream_, allocate(DType::kInt64, {Matmul::kWorkspaceBytes / 8}, MemoryTag::kWorkspace),
      !options.deterministic && !pool_->separate(), [this] { bound_run_ahead(); });
  sum_partials_ = allocate(DType::kFloat64, {kSumBlocks}, MemoryTag::kWorkspace);
}

CudaBackend::~CudaBackend() {
  cudaStreamSynchronize(stream_);
  cudnn_.reset();
  matmul_.reset();
  host_calls_.reset();
  staging_.reset();
  pending_reads_.reset();
  replays_.reset();
  cudaStreamDestroy(comm_stream_);
  cudaStreamDestroy(stream_);
}

// --- memory

Tensor CudaBackend::allocate(DType dtype, Shape shape, MemoryTag tag) {
  const int64_t bytes = numel_of(shape) * size_of(dtype);
  std::shared_ptr<std::byte> block =
      replays_->inside() ? replays_->memory().allocate(bytes, tag) : pool_->allocate(bytes, tag);
  std::byte* data = block.get();
  return {dtype, std::move(shape), std::move(block), data};
}

void CudaBackend::fill_zero(const Tensor& x) {
  if (x.bytes() == 0) return;
  check(cudaMemsetAsync(x.data(), 0, static_cast<size_t>(x.bytes()), stream_), "fill_zero");
}

void CudaBackend::copy(const Tensor& dst, const Tensor& src) {
  expects(dst.numel() == src.numel(),
          "copy of " + to_string(src.shape()) + " into " + to_string(dst.shape()));
  if (src.numel() == 0) return;
  if (dst.dtype() != src.dtype()) {
    convert(stream_, src.numel(), dst.data(), dst.dtype(), src.data(), src.dtype());
    return;
  }
  check(cudaMemcpyAsync(dst.data(), src.data(), static_cast<size_t>(src.bytes()),
                        cudaMemcpyDeviceToDevice, stream_),
        "copy");
}

void CudaBackend::write(const Tensor& dst, std::span<const std::byte> src) {
  expects(std::cmp_equal(src.size(), dst.bytes()), "write of another number of bytes");
  expect_no_replay("write");
  if (src.empty()) return;
  staging_->write(dst.data(), src);
}

void CudaBackend::read(std::span<std::byte> dst, const Tensor& src) {
  expects(std::cmp_equal(dst.size(), src.bytes()), "read of another number of bytes");
  if (dst.empty()) return;
  synchronize();  // the copy into pageable memory would wait without the hook
  check(cudaMemcpyAsync(dst.data(), src.data(), dst.size(), cudaMemcpyDeviceToHost, stream_),
        "read");
  check(cudaStreamSynchronize(stream_), "the GPU's work");
}

PendingRead CudaBackend::read_later(const Tensor& x) {
  expect_no_replay("read_later");
  return pending_reads_->read(x);
}

void CudaBackend::synchronize() {
  expect_no_replay("synchronize");
  wait_until([this] { return cudaStreamQuery(stream_); });
}

void CudaBackend::bound_run_ahead() {
  if (replays_->inside()) return;
  constexpr int64_t kProductsOfMark = 16;
  constexpr size_t kMostMarks = 5;
  if (++products_ % kProductsOfMark != 0) return;
  marks_.emplace_back(stream_);
  if (marks_.size() <= kMostMarks) return;
  wait_until([this] { return marks_.front().status(); });
  marks_.pop_front();
}

void CudaBackend::wait_until(const std::function<cudaError_t()>& query) {
  cudaError_t status = query();
  for (int64_t looks = 0; status == cudaErrorNotReady; ++looks) {
    if (wait_hook_.look) wait_hook_.look();
    // Short waits are spun through; a long one leaves the core to others.
    if (looks > 1000) std::this_thread::sleep_for(std::chrono::microseconds(20));
    status = query();
  }
  if (wait_hook_.end) wait_hook_.end();
  check(status, "the GPU's work");
  host_calls_->rethrow();
}

HostWork CudaBackend::run_on_host(const std::vector<Tensor>& inputs,
                                  const std::vector<Tensor>& outputs, HostCode code) {
  expect_no_replay("run_on_host");
  std::vector<Tensor> kept = inputs;
  kept.insert(kept.end(), outputs.begin(), outputs.end());
  return HostWork([done = host_calls_->enqueue(inputs, outputs, std::move(code)),
                   kept = std::move(kept), stream = stream_] { done.before(stream); });
}

void CudaBackend::replay(const std::string& key, const std::function<void()>& body) {
  replays_->run(key, body);
}

void CudaBackend::forget_replays() { replays_->forget(); }

void CudaBackend::expect_no_replay(const char* what) const {
  expects(!replays_->inside(), std::string(what) + " in the body of a replay");
}

MemoryBytes CudaBackend::peak_bytes() const { return pool_->peak_bytes(); }
void CudaBackend::reset_peak_bytes() { pool_->reset_peak_bytes(); }
int64_t CudaBackend::reserved_bytes() const { return pool_->reserved_bytes(); }

// --- dense

void CudaBackend::matmul(const Tensor& c, const Tensor& a, const Tensor& b, bool transpose_a,
                         bool transpose_b, bool accumulate) {
  expect_rank(c, "c", 2);
  expect_rank(a, "a", 2);
  expect_rank(b, "b", 2);
  const int64_t m = c.dim(0), n = c.dim(1), k = a.dim(transpose_a ? 0 : 1);
  const int64_t a_rows = transpose_a ? k : m, a_columns = transpose_a ? m : k;
  const int64_t b_rows = transpose_b ? n : k, b_columns = transpose_b ? k : n;
  expect_tensor(a, "a", a.dtype(), {a_rows, a_columns});
  expect_tensor(b, "b", a.dtype(), {b_rows, b_columns});
  expects(c.dtype() == a.dtype() || c.dtype() == DType::kFloat32,
          "matmul: c is of a's dtype or float32");
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) fill_zero(c);
    return;
  }
  matmul_->run(c, a, b, transpose_a, transpose_b, accumulate);
}

void CudaBackend::add(const Tensor& out, const Tensor& a, const Tensor& b) {
  expect_like(a, "a", out);
  expect_like(b, "b", out);
  cuda::add(stream_, out.dtype(), out.numel(), out.data(), a.data(), b.data());
}

// --- rows

void CudaBackend::embedding(const Tensor& out, const Tensor& table, const Tensor& ids,
                            int64_t first) {
  expect_rank(table, "table", 2);
  expect_tensor(out, "out", table.dtype(), {ids.numel(), table.dim(1)});
  cuda::embedding(stream_, table.dtype(), ids.numel(), table.dim(0), table.dim(1), first,
                  out.data(), table.data(), ints(ids));
}

void CudaBackend::embedding_backward(const Tensor& d_table, const Tensor& d_out, const Tensor& ids,
                                     int64_t first) {
  expect_rank(d_table, "d_table", 2);
  expect_tensor(d_out, "d_out", d_out.dtype(), {ids.numel(), d_table.dim(1)});
  const int64_t words = embedding_workspace(ids.numel()) / size_of(DType::kInt64) + 1;
  const Tensor workspace = allocate(DType::kInt64, {words}, MemoryTag::kWorkspace);
  cuda::embedding_backward(stream_, d_out.dtype(), ids.numel(), d_table.dim(0), d_table.dim(1),
                           first, d_table.as<float>(), d_out.data(), ints(ids), workspace.data());
}

void CudaBackend::gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows) {
  expect_same_rows(out, x);
  expects(out.dim(0) == rows.numel(), "gather_rows: one row of out per index");
  cuda::gather_rows(stream_, rows.numel(), row_bytes(x), out.data(), x.data(), ints(rows));
}

void CudaBackend::scatter_rows(const Tensor& out, const Tensor& x, const Tensor& rows) {
  expect_same_rows(out, x);
  expects(x.dim(0) == rows.numel(), "scatter_rows: one row of x per index");
  cuda::scatter_rows(stream_, rows.numel(), row_bytes(x), out.data(), x.data(), ints(rows));
}

void CudaBackend::join_columns(const Tensor& joined, const Tensor& part, int64_t column) {
  expect_rank(joined, "joined", 2);
  expect_rank(part, "part", 2);
  expect_tensor(part, "part", joined.dtype(), {joined.dim(0), part.dim(1)});
  expects(column >= 0 && column + part.dim(1) <= joined.dim(1), "join_columns: out of columns");
  copy_columns(stream_, joined.dim(0), row_bytes(part),
               joined.data() + column * size_of(joined.dtype()), row_bytes(joined), part.data(),
               row_bytes(part));
}

// --- optimizer

void CudaBackend::sum_squares(const Tensor& out, const Tensor& x) {
  expects(out.numel() == 1, "sum_squares writes one element");
  cuda::sum_squares(stream_, x.dtype(), x.numel(), out.as<double>(), sum_partials_.as<double>(),
                    x.data());
}

void CudaBackend::adamw(const Tensor& weight, const Tensor& master, const Tensor& grad,
                        const Tensor& exp_avg, const Tensor& exp_avg_sq,
                        const AdamWOptions& options) {
  const int64_t n = weight.numel();
  expects(
      master.numel() == n && (weight.dtype() != DType::kFloat32 || weight.data() == master.data()),
      "adamw: weights of float32 are their own master");
  expects(grad.numel() == n && exp_avg.numel() == n && exp_avg_sq.numel() == n,
          "adamw: ranges of different sizes");
  expects(options.step >= 1, "adamw: steps count from 1");
  cuda::adamw(stream_, weight.dtype(), n, weight.data(), master.as<float>(), grad.as<float>(),
              exp_avg.as<float>(), exp_avg_sq.as<float>(), options);
}

}  // namespace verlcpp::cuda
