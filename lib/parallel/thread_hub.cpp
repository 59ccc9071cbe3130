#include "parallel/thread_hub.h"

#include <utility>

#include "base/error.h"

namespace verlcpp::parallel {
namespace {

/// While it lives, the rank waits for others.
class Waiting {
 public:
  explicit Waiting(RankStatus* status) : status_(status) {
    if (status_ != nullptr) status_->set_waiting(true);
  }
  ~Waiting() {
    if (status_ != nullptr) status_->set_waiting(false);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  RankStatus* status_;
};

}  // namespace

ThreadHub::ThreadHub(int size, const char* name)
    : size_(size),
      name_(name),
      mail_(static_cast<size_t>(size) * static_cast<size_t>(size) * kLanes) {
  for (auto& parcels : swapped_) parcels.resize(static_cast<size_t>(size));
}

void ThreadHub::throw_if_aborted_locked() const {
  if (aborted_) throw DeviceError(reason_);
}

void ThreadHub::throw_if_aborted() const {
  std::lock_guard lock(mutex_);
  throw_if_aborted_locked();
}

void ThreadHub::arrive(std::unique_lock<std::mutex>& lock, RankStatus* status) {
  const uint64_t mine = generation_;
  if (++arrived_ == size_) {
    arrived_ = 0;
    ++generation_;
    changed_.notify_all();
    return;
  }
  const Waiting waiting(status);
  changed_.wait(lock, [&] { return generation_ != mine || aborted_; });
  if (generation_ == mine) throw_if_aborted_locked();
}

void ThreadHub::barrier(RankStatus* status) {
  std::unique_lock lock(mutex_);
  throw_if_aborted_locked();
  arrive(lock, status);
}

std::vector<ThreadHub::Parcel> ThreadHub::swap(int rank, Parcel mine, RankStatus* status) {
  std::unique_lock lock(mutex_);
  throw_if_aborted_locked();
  const size_t slot = generation_ % 2;
  swapped_[slot][static_cast<size_t>(rank)] = std::move(mine);
  arrive(lock, status);
  std::vector<Parcel> all = swapped_[slot];
  if (++readers_[slot] == size_) {
    readers_[slot] = 0;
    for (Parcel& parcel : swapped_[slot]) parcel.reset();
  }
  return all;
}

std::deque<ThreadHub::Parcel>& ThreadHub::box(int source, int destination, int lane) {
  return mail_[static_cast<size_t>((lane * size_ + source) * size_ + destination)];
}

void ThreadHub::post(int source, int destination, int lane, Parcel parcel) {
  std::lock_guard lock(mutex_);
  throw_if_aborted_locked();
  box(source, destination, lane).push_back(std::move(parcel));
  changed_.notify_all();
}

ThreadHub::Parcel ThreadHub::take(int source, int destination, int lane, RankStatus* status) {
  std::unique_lock lock(mutex_);
  auto& parcels = box(source, destination, lane);
  if (parcels.empty() && !aborted_) {
    const Waiting waiting(status);
    changed_.wait(lock, [&] { return aborted_ || !parcels.empty(); });
  }
  throw_if_aborted_locked();
  Parcel parcel = std::move(parcels.front());
  parcels.pop_front();
  return parcel;
}

void ThreadHub::abort(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (!aborted_) reason_ = reason;
  aborted_ = true;
  changed_.notify_all();
}

}  // namespace verlcpp::parallel
