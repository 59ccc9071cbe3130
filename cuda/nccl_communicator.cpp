#include "cuda/nccl_communicator.h"

#include <utility>

#include "base/error.h"
#include "cuda/nccl_library.h"
#include "cuda/nccl_rank.h"
#include "parallel/thread_hub.h"

namespace verlcpp::cuda {
namespace {

using parallel::Communicator;
using parallel::ReduceOp;
using parallel::Transfer;
using parallel::Work;

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    default:
      expects(false, "NCCL does not reduce this dtype");
      return ncclInt8;
  }
}

ncclRedOp_t type_of(ReduceOp op) {
  if (op == ReduceOp::kSum) return ncclSum;
  return op == ReduceOp::kMax ? ncclMax : ncclMin;
}

size_t count(const Tensor& x) { return static_cast<size_t>(x.numel()); }

class NcclCommunicator final : public Communicator {
 public:
  /// `communicator` is null for a group of one, which moves nothing.
  NcclCommunicator(std::shared_ptr<NcclRank> me, ncclComm_t communicator, CudaBackend& backend,
                   Communicator& host)
      : me_(std::move(me)),
        communicator_(communicator),
        backend_(backend),
        host_(host),
        group_(host.hub()->name()) {}

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::shared_ptr<parallel::ThreadHub> hub() const override { return host_.hub(); }

  Work all_reduce(const Tensor& x, ReduceOp op) override {
    if (communicator_ == nullptr) return {};
    return start("all_reduce", {x}, [&](cudaStream_t stream) {
      return nccl().all_reduce(x.data(), x.data(), count(x), type_of(x.dtype()), type_of(op),
                               communicator_, stream);
    });
  }

  Work reduce_scatter(const Tensor& out, const Tensor& in) override {
    expects(in.numel() == out.numel() * size(), "reduce_scatter sizes do not match");
    if (communicator_ == nullptr) return copy(out, in);
    return start("reduce_scatter", {out, in}, [&](cudaStream_t stream) {
      return nccl().reduce_scatter(in.data(), out.data(), count(out), type_of(in.dtype()), ncclSum,
                                   communicator_, stream);
    });
  }

  Work all_gather(const Tensor& out, const Tensor& in) override {
    expects(out.numel() == in.numel() * size(), "all_gather sizes do not match");
    if (communicator_ == nullptr) return copy(out, in);
    return start("all_gather", {out, in}, [&](cudaStream_t stream) {
      return nccl().all_gather(in.data(), out.data(), static_cast<size_t>(in.bytes()), ncclInt8,
                               communicator_, stream);
    });
  }

  Work broadcast(const Tensor& x, int root) override {
    if (communicator_ == nullptr) return {};
    return start("broadcast", {x}, [&](cudaStream_t stream) {
      return nccl().broadcast(x.data(), x.data(), static_cast<size_t>(x.bytes()), ncclInt8, root,
                              communicator_, stream);
    });
  }

  Work exchange(std::span<const Transfer> sends, std::span<const Transfer> receives) override {
    if (communicator_ == nullptr) return copy_to_self(sends, receives);
    std::vector<Tensor> kept;
    for (const auto& list : {sends, receives}) {
      for (const Transfer& transfer : list) kept.push_back(transfer.tensor);
    }
    return start("exchange", std::move(kept), [&](cudaStream_t stream) {
      ncclResult_t status = nccl().group_start();
      for (const Transfer& t : sends) {
        if (status != ncclSuccess) break;
        status = nccl().send(t.tensor.data(), static_cast<size_t>(t.tensor.bytes()), ncclInt8,
                             t.peer, communicator_, stream);
      }
      for (const Transfer& t : receives) {
        if (status != ncclSuccess) break;
        status = nccl().receive(t.tensor.data(), static_cast<size_t>(t.tensor.bytes()), ncclInt8,
                                t.peer, communicator_, stream);
      }
      const ncclResult_t ended = nccl().group_end();
      return status == ncclSuccess ? ended : status;
    });
  }

  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> mine) override {
    return host_.all_gather_bytes(mine);
  }
  void barrier() override { host_.barrier(); }
  void abort(const std::string& reason) override { host_.abort(reason); }

 private:
  template <class Call>
  Work start(const char* op, std::vector<Tensor> kept, const Call& call) {
    return me_->start(communicator_, group_, op, std::move(kept), call);
  }

  Work copy(const Tensor& out, const Tensor& in) {
    backend_.copy(out, in);
    return {};
  }

  Work copy_to_self(std::span<const Transfer> sends, std::span<const Transfer> receives) {
    expects(sends.size() == receives.size(), "a send to oneself needs its receive");
    for (size_t i = 0; i < sends.size(); ++i) copy(receives[i].tensor, sends[i].tensor);
    return {};
  }

  std::shared_ptr<NcclRank> me_;
  ncclComm_t communicator_;
  CudaBackend& backend_;
  Communicator& host_;
  const char* group_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(
    CudaBackend& backend, const parallel::Topology& topology,
    const parallel::RankCommunicators& host, bool with_cp) {
  const auto me = std::make_shared<NcclRank>(backend, host.world, host.status);
  const parallel::AxisSizes& sizes = topology.sizes();
  const auto pool = static_cast<int>(topology.pp_rank() * sizes.tp + topology.tp_rank());
  const auto tp_group = static_cast<int>(topology.rank() / sizes.tp);
  const auto split = [&](const Communicator& group, int colour) {
    return group.size() == 1 ? nullptr : me->split(colour, group.rank());
  };
  std::vector<std::unique_ptr<Communicator>> all;
  const auto add = [&](Communicator& group, ncclComm_t communicator) {
    all.push_back(std::make_unique<NcclCommunicator>(me, communicator, backend, group));
  };
  if (with_cp) {
    add(host.cp, split(host.cp, pool));
  } else {
    all.push_back(nullptr);
  }
  add(host.grad, split(host.grad, pool));
  add(host.tp, split(host.tp, tp_group));
  add(host.world, me->world());
  return all;
}

}  // namespace verlcpp::cuda
