// Movement between ranks through the communicators of a run, then K and V as ring attention sends
// them, with plain copies of a peer's memory beside the exchange. All ranks run the same rows, and
// a sample is the time of the slowest.

#include <array>
#include <chrono>
#include <cstring>

#include "app/failure.h"
#include "base/error.h"
#include "cpu/cpu_backend.h"
#include "cuda/runtime.h"
#include "parallel/thread_hub.h"
#include "parallel/thread_ranks.h"
#include "peers.h"
#include "rank_timer.h"
#include "rig.h"
#include "roofline.h"

namespace verlcpp::bench {
namespace {

using parallel::Communicator;
using parallel::RankCommunicators;
using parallel::Transfer;

/// A kind of communicator: its group of collectives and its group of exchanges, of all ranks.
struct Way {
  std::string name;
  Communicator& collectives;
  Communicator& exchanges;
};

const char* name_of(Movement movement) {
  switch (movement) {
    case Movement::kAllReduce:
      return "all_reduce";
    case Movement::kReduceScatter:
      return "reduce_scatter";
    case Movement::kAllGather:
      return "all_gather";
    case Movement::kExchange:
      break;
  }
  return "exchange";
}

/// Without its samples; held against the slower of a GPU's memory and its link.
Row row_of(const std::string& name, Movement movement, int64_t bytes, const RankLayout& where) {
  Row row{.name = name, .seconds = {}};
  row.message_bytes = static_cast<double>(bytes);
  row.bus_bytes = bus_bytes(movement, row.message_bytes, where.ranks);
  if (where.gpus == 0) return row;
  row.bytes = rank_memory_bytes(movement, row.message_bytes, where.ranks, where.ranks_per_gpu);
  row.link_bytes = bus_bytes(movement, row.message_bytes, where.gpus);
  const bool link = row.link_bytes / kLinkBytesPerSecond > row.bytes / kBytesPerSecond;
  row.bound = link ? Bound::kLink : Bound::kBandwidth;
  return row;
}

/// Bytes of the first and the last elements: what a transfer that stops short leaves wrong.
std::vector<std::byte> ends_of(Backend& backend, const Tensor& x) {
  const int64_t some = std::min<int64_t>(x.numel(), 4096);
  const auto size = static_cast<size_t>(some * size_of(x.dtype()));
  std::vector<std::byte> bytes(2 * size);
  backend.read(std::span(bytes).first(size), x.slice(0, {some}));
  backend.read(std::span(bytes).last(size), x.slice(x.numel() - some, {some}));
  return bytes;
}

/// One rank's part.
class CommBench {
 public:
  /// `unreadable`: why no kernel can read the memory of a peer; "" when it can.
  CommBench(const Options& options, Backend& backend, const RankCommunicators& comm,
            std::vector<Way> ways, std::string unreadable)
      : options_(options),
        where_(options.layout),
        backend_(backend),
        comm_(comm),
        ways_(std::move(ways)),
        unreadable_(std::move(unreadable)),
        timer_(options, backend, comm),
        ranks_(static_cast<int>(where_.ranks)),
        next_((comm.world.rank() + 1) % ranks_),
        previous_((comm.world.rank() + ranks_ - 1) % ranks_) {}

  std::vector<Row> run() {
    constexpr std::array kSweep{std::pair{Movement::kAllReduce, DType::kFloat32},
                                std::pair{Movement::kAllReduce, DType::kBFloat16},
                                std::pair{Movement::kReduceScatter, DType::kFloat32},
                                std::pair{Movement::kAllGather, DType::kBFloat16},
                                std::pair{Movement::kExchange, DType::kBFloat16}};
    for (const auto& [movement, dtype] : kSweep) {
      comm_.status.enter(name_of(movement));
      for (const int64_t bytes : options_.bytes) {
        for (const Way& way : ways_) message(way, movement, dtype, bytes);
      }
    }
    comm_.status.enter("kv");
    for (const KvShape& shape : options_.kv) {
      for (const int64_t rows : options_.kv_rows) kv(shape, rows);
    }
    leave_out();
    comm_.world.barrier();  // a peer may still hold what this rank sent
    return std::move(result_);
  }

 private:
  Tensor random(DType dtype, Shape shape) {
    const auto seed = static_cast<uint64_t>(comm_.world.rank() + 1);
    return random_tensor(backend_, dtype, std::move(shape), seed, 1, MemoryTag::kComm);
  }

  bool wanted(const Row& row) const { return row.name.find(options_.filter) != std::string::npos; }

  void add(Row row, const std::function<void()>& body) {
    row.seconds = timer_.samples(body);
    result_.push_back(std::move(row));
  }

  /// One row of the sweep. Sums of what was summed before grow until they are infinite: that takes
  /// no longer.
  void message(const Way& way, Movement movement, DType dtype, int64_t asked) {
    const int64_t bytes = whole_bytes(asked, where_.ranks), n = bytes / size_of(dtype);
    const std::string type = dtype == DType::kFloat32 ? " fp32 " : " bf16 ";
    const std::string name = name_of(movement) + type + human_bytes(bytes) + " " + way.name;
    Row row = row_of(name, movement, bytes, where_);
    if (!wanted(row)) return;
    const Tensor whole = random(dtype, {n});
    if (movement == Movement::kAllReduce) {
      return add(row, [&] { way.collectives.all_reduce(whole, parallel::ReduceOp::kSum).wait(); });
    }
    const Tensor other = random(dtype, {movement == Movement::kExchange ? n : n / where_.ranks});
    if (movement == Movement::kReduceScatter) {
      return add(row, [&] { way.collectives.reduce_scatter(other, whole).wait(); });
    }
    if (movement == Movement::kAllGather) {
      return add(row, [&] { way.collectives.all_gather(whole, other).wait(); });
    }
    add(row, [&] {
      const Transfer send{next_, whole}, receive{previous_, other};
      way.exchanges.exchange({&send, 1}, {&receive, 1}).wait();
    });
  }

  /// K and V of `rows` tokens, to the next rank and from the previous one, each on its own.
  void kv(const KvShape& shape, int64_t rows) {
    const Tensor sent = random(DType::kBFloat16, {2, rows, shape.heads, shape.head_dim});
    const Tensor got = backend_.allocate(sent.dtype(), sent.shape(), MemoryTag::kComm);
    const Tensor theirs = tensor_of_previous(sent);
    const auto ends = comm_.world.all_gather_bytes(ends_of(backend_, sent));
    const std::string prefix = "kv " + std::to_string(shape.heads) + "/" +
                               std::to_string(shape.head_dim) + " x " + std::to_string(rows) +
                               ", " + human_bytes(sent.bytes()) + " ";
    const auto received = [&](const std::string& name, const std::function<void()>& body) {
      Row row = row_of(prefix + name, Movement::kExchange, sent.bytes(), where_);
      if (!wanted(row)) return;
      backend_.fill_zero(got);
      body();
      expects(ends_of(backend_, got) == ends[static_cast<size_t>(previous_)],
              row.name + " moved other bytes than were sent");
      add(std::move(row), body);
    };
    for (const Way& way : ways_) {
      received("exchange " + way.name, [&] {
        const std::array sends{Transfer{next_, sent.rows(0, 1)}, Transfer{next_, sent.rows(1, 1)}};
        const std::array receives{Transfer{previous_, got.rows(0, 1)},
                                  Transfer{previous_, got.rows(1, 1)}};
        way.exchanges.exchange(sends, receives).wait();
      });
    }
    const auto copied = [&](const std::string& name, const auto& copy) {
      received(name, [&] {
        for (const int64_t part : {0, 1}) copy(got.rows(part, 1), theirs.rows(part, 1));
      });
    };
    if (where_.gpus == 0) {
      copied("copy", [&](const Tensor& to, const Tensor& from) { backend_.copy(to, from); });
      return;
    }
    copied("cudaMemcpyPeerAsync", [&](const Tensor& to, const Tensor& from) {
      copy_from_peer(backend_, to, from, previous_ / where_.ranks_per_gpu);
    });
    if (!unreadable_.empty()) return;
    for (const int64_t blocks : options_.copy_blocks) {
      copied("kernel of " + std::to_string(blocks) + " blocks",
             [&](const Tensor& to, const Tensor& from) {
               read_from_peer(backend_, to, from, blocks);
             });
    }
  }

  /// All ranks are threads of one process: a tensor of another can be had as it is.
  Tensor tensor_of_previous(const Tensor& mine) {
    backend_.synchronize();  // it is written
    const auto all =
        comm_.world.hub()->swap(comm_.world.rank(), std::make_shared<Tensor>(mine), &comm_.status);
    return *std::static_pointer_cast<Tensor>(all[static_cast<size_t>(previous_)]);
  }

  void leave_out() {
    const auto add_reason = [&](const char* name, const std::string& why) {
      Row row{.name = name, .seconds = {}};
      row.left_out = why;
      result_.push_back(std::move(row));
    };
    if (where_.gpus == 0) {
      add_reason("NCCL, peers, cudaMemcpyPeerAsync, kernel", "they are of --device cuda");
      return;
    }
    if (where_.ranks_per_gpu > 1) add_reason("NCCL", "it takes a GPU for every rank");
    if (where_.gpus == 1) add_reason("traffic between GPUs", "all ranks share one GPU");
    if (!unreadable_.empty()) add_reason("kernel", unreadable_);
  }

  const Options& options_;
  const RankLayout& where_;
  Backend& backend_;
  const RankCommunicators& comm_;
  std::vector<Way> ways_;
  std::string unreadable_;
  RankTimer timer_;
  int ranks_, next_, previous_;
  std::vector<Row> result_;
};

std::vector<Row> rank_rows(const Options& options, const std::string& unreadable,
                           const parallel::Topology& topology, const RankCommunicators& host) {
  const RankLayout& where = options.layout;
  if (where.gpus == 0) {
    const auto device = parallel::host_device(std::make_unique<cpu::CpuBackend>(), host);
    return CommBench(options, *device.backend, device.comm,
                     {{"threads", device.comm.grad, device.comm.cp}}, unreadable)
        .run();
  }
  const auto device = cuda::make_device(topology, host, where.ranks_per_gpu, {.nccl_cp = true});
  const auto peers = make_peers(*device.backend, where.gpus, host.grad, host.status);
  const auto peers_cp = make_peers(*device.backend, where.gpus, host.cp, host.status);
  std::vector<Way> ways;
  if (where.ranks_per_gpu == 1) ways.push_back({"NCCL", device.comm.grad, device.comm.cp});
  ways.push_back({"peers", *peers, *peers_cp});
  return CommBench(options, *device.backend, device.comm, std::move(ways), unreadable).run();
}

}  // namespace

std::vector<Row> run_comm(const Options& options) {
  const RankLayout& where = options.layout;
  std::string unreadable;
  if (where.gpus > 0) {
    cuda::expect_libraries(false, where.ranks_per_gpu == 1);
    unreadable = why_no_peer_reads(where.gpus);
  }
  std::vector<Row> rows;  // written by rank 0 alone
  parallel::run_thread_ranks(
      {.world = where.ranks},
      [&](const parallel::Topology& topology, const RankCommunicators& host) {
        std::vector<Row> mine = rank_rows(options, unreadable, topology, host);
        if (topology.rank() == 0) rows = std::move(mine);
      },
      {.silence_limit = std::chrono::minutes(2),
       .give_up = [](const std::exception_ptr& failure) { app::end_process(failure); }});
  return rows;
}

}  // namespace verlcpp::bench
