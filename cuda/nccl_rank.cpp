#include "cuda/nccl_rank.h"

#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "cuda/check.h"
#include "cuda/nccl_library.h"
#include "parallel/thread_hub.h"

namespace verlcpp::cuda {
namespace {

void check_nccl(ncclResult_t status, ncclComm_t communicator, const char* what) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  throw_library_failure("NCCL: " + std::string(what) + ": " + nccl().error_string(status) + " (" +
                        nccl().last_error(communicator) + ")");
}

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace

NcclRank::NcclRank(CudaBackend& backend, parallel::Communicator& world,
                   parallel::RankStatus& status)
    : backend_(backend), hub_(world.hub()), status_(status), uncaught_(std::uncaught_exceptions()) {
  auto id = std::make_shared<ncclUniqueId>();
  if (world.rank() == 0) check_nccl(nccl().get_unique_id(id.get()), nullptr, "ncclGetUniqueId");
  const auto ids = hub_->swap(world.rank(), id, &status_);
  id = std::static_pointer_cast<ncclUniqueId>(ids.front());
  ncclConfig_t config = non_blocking();
  communicators_.reserve(kMostCommunicators);  // they keep their places
  communicators_.push_back(nullptr);
  try {
    check_nccl(nccl().init_rank(&communicators_.back(), world.size(), *id, world.rank(), &config),
               nullptr, "ncclCommInitRankConfig");
    settle(communicators_.back());
  } catch (...) {
    abort();
    throw;
  }
  backend_.set_wait_hook({[this] { look(); }, [this] { end_wait(); }});
}

ncclComm_t NcclRank::split(int colour, int key) {
  // The children run on one stream, one after the other, so they may share resources.
  ncclConfig_t config = non_blocking();
  config.splitShare = 1;
  // NCCL writes the child into its place while the call is settled, or after that has failed.
  communicators_.push_back(nullptr);
  ncclComm_t& child = communicators_.back();
  try {
    check_nccl(nccl().split(world(), colour, key, &child, &config), world(), "ncclCommSplit");
    settle(world());
    settle(child);
  } catch (...) {
    abort();
    throw;
  }
  return child;
}

parallel::Work NcclRank::start(ncclComm_t communicator, const char* group, const char* op,
                               std::vector<Tensor> kept,
                               const std::function<ncclResult_t(cudaStream_t)>& call) {
  fail_if_aborted();
  const parallel::InCollective here(&status_, group, op);
  const cudaStream_t stream = backend_.comm_stream();
  Event(backend_.stream()).before(stream);
  const Event begun(stream);
  check_nccl(call(stream), communicator, op);
  settle(communicator);
  const Event done(stream);
  drop_finished();
  pending_.push_back({group, op, status_.current_micro_batch(), begun, done});
  return parallel::Work(
      [compute = backend_.stream(), done, kept = std::move(kept)] { done.before(compute); });
}

void NcclRank::settle(ncclComm_t communicator) {
  // A collective is taken within some microseconds, which a sleep of the host would multiply;
  // making a communicator takes long.
  constexpr auto kSpin = std::chrono::microseconds(200);
  std::optional<std::chrono::steady_clock::time_point> waiting_since;
  ncclResult_t status = ncclInProgress;
  while (true) {
    check_nccl(nccl().async_error(communicator, &status), communicator, "ncclCommGetAsyncError");
    check_nccl(status, communicator, "a call");
    if (status != ncclInProgress) break;
    const auto now = std::chrono::steady_clock::now();
    if (!waiting_since) {
      status_.set_waiting(true);
      waiting_since = now;
    }
    if (now - *waiting_since < kSpin) {
      std::this_thread::yield();
    } else {
      fail_if_aborted();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  if (waiting_since) status_.set_waiting(false);
}

void NcclRank::fail_if_aborted() {
  try {
    hub_->throw_if_aborted();
  } catch (...) {
    abort();
    throw;
  }
}

void NcclRank::drop_finished() {
  while (!pending_.empty() && pending_.front().done.reached()) {
    pending_.pop_front();
    ++finished_;
  }
}

// A rank waits for others when a collective of its own has begun and does not end. Each change is
// told once: a status that is told again and again would look alive.
void NcclRank::look() {
  fail_if_aborted();
  drop_finished();
  const int64_t now = !pending_.empty() && pending_.front().begun.reached() ? finished_ : -1;
  if (now == waits_for_) return;
  if (now >= 0) {
    const Pending& first = pending_.front();
    status_.begin_collective(first.group, first.op, first.micro_batch);
  }
  if (now < 0) status_.end_collective();
  status_.set_waiting(now >= 0);
  waits_for_ = now;
}

void NcclRank::end_wait() {
  if (waits_for_ < 0) return;
  status_.end_collective();
  status_.set_waiting(false);
  waits_for_ = -1;
}

void NcclRank::abort() {
  while (!communicators_.empty()) {
    if (communicators_.back() != nullptr) nccl().abort(communicators_.back());
    communicators_.pop_back();
  }
}

void NcclRank::close() {
  backend_.synchronize();
  while (!communicators_.empty()) {
    const ncclComm_t communicator = communicators_.back();
    check_nccl(nccl().finalize(communicator), communicator, "ncclCommFinalize");
    settle(communicator);
    communicators_.pop_back();
    check_nccl(nccl().destroy(communicator), nullptr, "ncclCommDestroy");
  }
}

NcclRank::~NcclRank() {
  try {
    if (std::uncaught_exceptions() == uncaught_) close();
  } catch (const std::exception& e) {
    // Work of this rank is over and was waited for; where another rank has failed, its error
    // counts.
    log::warning(std::string("NCCL did not end in order: ") + e.what());
  }
  abort();
  backend_.set_wait_hook({});
}

}  // namespace verlcpp::cuda
