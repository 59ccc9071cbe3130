// Movement between the device buffers of ranks: of ranks that share GPU 0, and, on machines with
// several GPUs, over NCCL and over copies between GPUs.

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/error.h"
#include "cuda/runtime.h"
#include "parallel/thread_ranks.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::parallel;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

int gpus() {
  int count = 0;
  cudaGetDeviceCount(&count);
  return count;
}

/// A way to put `size` ranks on GPUs.
struct Placement {
  std::string name;
  int size;
  int64_t ranks_per_gpu;
  bool nccl_cp = false;
};

std::vector<Placement> placements() {
  std::vector<Placement> all;
  for (const int size : {1, 2, 3, 4, 6}) all.push_back({"one GPU", size, size});
  if (gpus() >= 2) all.push_back({"two GPUs, two ranks each", 4, 2});
  for (int size = 2; size <= gpus(); ++size) {
    all.push_back({"NCCL, copies of K and V", size, 1});
    all.push_back({"NCCL", size, 1, true});
  }
  return all;
}

using Body = std::function<void(int rank, Backend&, const RankCommunicators&)>;

void run(const Placement& where, const Body& body, const ThreadRanksOptions& options = {}) {
  run_thread_ranks(
      {.world = where.size},
      [&](const Topology& me, const RankCommunicators& host) {
        const RankDevice device =
            cuda::make_device(me, host, where.ranks_per_gpu, {.nccl_cp = where.nccl_cp});
        body(static_cast<int>(me.rank()), *device.backend, device.comm);
      },
      options);
}

Tensor full(Backend& backend, DType dtype, int64_t n, double value) {
  return upload_as(backend, dtype, std::vector<double>(static_cast<size_t>(n), value), {n},
                   MemoryTag::kComm);
}

bool all_equal(Backend& backend, const Tensor& x, double value) {
  for (const double v : download(backend, x)) {
    if (v != value) return false;
  }
  return true;
}

constexpr int64_t kCount = 12 * 4099;  // divisible by every group size, not by a block

void expect_collectives(int rank, int size, Backend& backend, Communicator& grad) {
  const double sum = 0.5 * size * (size + 1);
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
    const Tensor x = full(backend, dtype, kCount, rank + 1);
    grad.all_reduce(x, ReduceOp::kSum).wait();
    expects(all_equal(backend, x, sum), "all_reduce is wrong");
    const Tensor odd = full(backend, dtype, 7, rank + 1);
    grad.all_reduce(odd, ReduceOp::kMax).wait();
    expects(all_equal(backend, odd, size), "all_reduce of the maximum is wrong");
    const Tensor part = full(backend, dtype, kCount / size, -1);
    grad.reduce_scatter(part, full(backend, dtype, kCount, rank + 1)).wait();
    expects(all_equal(backend, part, sum), "reduce_scatter is wrong");
    const Tensor gathered = full(backend, dtype, 5 * size, -1);
    grad.all_gather(gathered, full(backend, dtype, 5, rank)).wait();
    for (int peer = 0; peer < size; ++peer) {
      expects(all_equal(backend, gathered.slice(5 * peer, {5}), peer), "all_gather is wrong");
    }
    const Tensor root = full(backend, dtype, 3, rank);
    grad.broadcast(root, size - 1).wait();
    expects(all_equal(backend, root, size - 1), "broadcast is wrong");
    const Tensor none = backend.allocate(dtype, {0}, MemoryTag::kComm);
    grad.all_reduce(none, ReduceOp::kSum).wait();
  }
}

/// Micro-batches on groups of changing sizes, cut differently every time.
void expect_exchanges(int rank, int size, Backend& backend, Communicator& cp) {
  for (int round = 0; round < 40; ++round) {
    const int group = 1 + round % size, first = rank / group * group;
    const int members = std::min(group, size - first);
    const int to = first + (rank - first + 1) % members;
    const int from = first + (rank - first + members - 1) % members;
    const Tensor a = full(backend, DType::kFloat32, kCount, rank + 100.0 * round);
    const Tensor b = full(backend, DType::kFloat32, 3, -rank - 1);
    const Tensor c = full(backend, DType::kFloat32, kCount, -1);
    const Tensor d = full(backend, DType::kFloat32, 3, 0);
    const Transfer sends[] = {{to, a}, {to, b}}, receives[] = {{from, c}, {from, d}};
    Work work = cp.exchange(sends, receives);
    work.wait();
    backend.fill_zero(a);  // the peer has read it
    expects(all_equal(backend, c, from + 100.0 * round) && all_equal(backend, d, -from - 1),
            "a message went astray");
  }
}

}  // namespace

TEST_CASE("ranks on GPUs: exact sums, and exchanges in groups that change", "[small][ranks]") {
  for (const Placement& where : placements()) {
    INFO(where.name << ", " << where.size << " ranks");
    CHECK_NOTHROW(run(where, [&](int rank, Backend& backend, const RankCommunicators& comm) {
      expect_collectives(rank, where.size, backend, comm.grad);
      expect_collectives(rank, where.size, backend, comm.world);
      expect_exchanges(rank, where.size, backend, comm.cp);
      const auto all = comm.world.all_gather_bytes({});
      expects(all.size() == static_cast<size_t>(where.size), "one entry a rank");
    }));
  }
}

TEST_CASE("a transfer reads what the compute stream wrote before and hinders none after",
          "[small][ranks]") {
  for (const Placement& where : placements()) {
    INFO(where.name << ", " << where.size << " ranks");
    CHECK_NOTHROW(run(where, [&](int rank, Backend& backend, const RankCommunicators& comm) {
      const Tensor x = full(backend, DType::kFloat32, 1 << 20, rank + 1);
      const Tensor y = full(backend, DType::kFloat32, 1 << 20, 0);
      double want = rank + 1;
      for (int round = 0; round < 20; ++round) {
        backend.add(x, x, x);  // on the compute stream, unfinished when the transfer is issued
        want *= 2;
        const int to = (rank + 1) % where.size, from = (rank + where.size - 1) % where.size;
        const Transfer send{to, x}, receive{from, y};
        Work work = comm.cp.exchange({&send, 1}, {&receive, 1});
        work.wait();
        backend.add(x, x, x);
        want *= 2;
        const double theirs = want / 2 / (rank + 1) * (from + 1);
        expects(all_equal(backend, y, theirs), "the transfer read too early or too late");
      }
    }));
  }
}

TEST_CASE("a rank on a GPU that fails wakes the others, with its one message") {
  for (const Placement& where : placements()) {
    if (where.size == 1) continue;
    INFO(where.name << ", " << where.size << " ranks");
    const auto start = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH(run(where,
                          [&](int rank, Backend& backend, const RankCommunicators& comm) {
                            const Tensor x = full(backend, DType::kFloat32, kCount, 1);
                            comm.grad.all_reduce(x, ReduceOp::kSum).wait();
                            if (rank == where.size - 1) throw DataError("row 7 is bad");
                            comm.grad.all_reduce(x, ReduceOp::kSum).wait();
                            backend.synchronize();
                          }),
                      "row 7 is bad");
    CHECK(std::chrono::steady_clock::now() - start < 20s);
  }
}

// A collective that never ends and more work behind it than the driver queues: a host that the
// driver made wait could not abort. Many summands are many of the library's products in one of
// ours.
TEST_CASE("a rank that is far ahead of its GPU hears of another's failure too") {
  const auto check = [](const Placement& where, int64_t summands) {
    INFO(where.name << ", " << where.size << " ranks, " << summands << " summands");
    const auto start = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH(run(where,
                          [&](int rank, Backend& backend, const RankCommunicators& comm) {
                            const Tensor x = full(backend, DType::kFloat32, 64, 1);
                            if (rank == 1) std::this_thread::sleep_for(500ms);
                            if (rank == 1) throw DataError("row 7 is bad");
                            const Tensor rows =
                                full(backend, DType::kFloat32, 8 * summands, 0).view({8, summands});
                            comm.grad.all_reduce(x, ReduceOp::kSum).wait();
                            for (int i = 0; i < 1000; ++i) {
                              backend.matmul(x.view({8, 8}), rows, rows, false, true, false);
                              for (int k = 0; k < 4; ++k) backend.fill_zero(x);
                            }
                            backend.synchronize();
                          }),
                      "row 7 is bad");
    CHECK(std::chrono::steady_clock::now() - start < 20s);
  };
  for (const Placement& where : placements()) {
    if (where.size == 1) continue;
    for (const int64_t summands : {8, 153600}) check(where, summands);
  }
}

TEST_CASE("a rank that hangs is named with its phase, micro-batch and collective") {
  for (const Placement& where : placements()) {
    if (where.size == 1) continue;
    INFO(where.name << ", " << where.size << " ranks");
    std::atomic<bool> over{false};
    const auto body = [&](int rank, Backend& backend, const RankCommunicators& comm) {
      const Tensor x = full(backend, DType::kFloat32, kCount, 1);
      comm.grad.all_reduce(x, ReduceOp::kSum).wait();
      backend.synchronize();
      comm.status.enter("update_actor");
      comm.status.micro_batch(3);
      if (rank == 1) {
        while (!over) std::this_thread::sleep_for(10ms);
        return;
      }
      comm.grad.all_reduce(x, ReduceOp::kSum).wait();
      backend.synchronize();
    };
    CHECK_THROWS_WITH(
        run(where, body,
            {.silence_limit = 2s, .give_up = [&](const std::exception_ptr&) { over = true; }}),
        ContainsSubstring("rank 1 (TP 0, pool rank 1) has not answered for 2 s") &&
            ContainsSubstring("phase update_actor, micro-batch 3") &&
            ContainsSubstring("in grad.all_reduce"));
  }
}
