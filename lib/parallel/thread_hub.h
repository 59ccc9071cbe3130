#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/rank_status.h"

namespace verlcpp::parallel {

/// Where the threads of one group meet: they hand objects to each other and wait for each other.
/// Objects are shared, so whoever fails may unwind at any time. After an abort every call, also one
/// that waits, throws DeviceError with its reason. `status` may be null; while a call waits for
/// others, it says so.
class ThreadHub {
 public:
  using Parcel = std::shared_ptr<void>;

  /// `name` is a literal, the group's name in messages.
  ThreadHub(int size, const char* name);

  int size() const { return size_; }
  const char* name() const { return name_; }

  void barrier(RankStatus* status);
  /// Everybody's parcel, in rank order. A collective.
  std::vector<Parcel> swap(int rank, Parcel mine, RankStatus* status);
  /// From one rank to another, in order within a lane (a small number, one per kind of parcel).
  void post(int source, int destination, int lane, Parcel parcel);
  Parcel take(int source, int destination, int lane, RankStatus* status);

  /// Callable from any thread; the first reason counts.
  void abort(const std::string& reason);
  void throw_if_aborted() const;

  static constexpr int kLanes = 2;

 private:
  std::deque<Parcel>& box(int source, int destination, int lane);
  void throw_if_aborted_locked() const;
  /// Waits, with the lock held, until all have arrived.
  void arrive(std::unique_lock<std::mutex>& lock, RankStatus* status);

  const int size_;
  const char* const name_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool aborted_ = false;
  std::string reason_;
  int arrived_ = 0;
  uint64_t generation_ = 0;
  // Of the swap under way and the one before, by rank: a late reader of the last one is never
  // overtaken by two. Emptied by the last reader.
  std::vector<Parcel> swapped_[2];
  int readers_[2] = {};
  std::vector<std::deque<Parcel>> mail_;
};

/// While it lives, the rank is in a collective.
class InCollective {
 public:
  /// `status` may be null; names are literals.
  InCollective(RankStatus* status, const char* group, const char* op) : status_(status) {
    if (status_ != nullptr) status_->begin_collective(group, op);
  }
  ~InCollective() {
    if (status_ != nullptr) status_->end_collective();
  }
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;

 private:
  RankStatus* status_;
};

}  // namespace verlcpp::parallel
