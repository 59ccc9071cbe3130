#include "parallel/rank_status.h"

#include "base/error.h"

namespace verlcpp::parallel {

void RankStatus::sign_of_life() { last_sign_ = Clock::now(); }

void RankStatus::throw_if_aborted() const {
  if (abort_reason_) throw DeviceError(*abort_reason_);
}

void RankStatus::enter(const char* phase) {
  std::lock_guard lock(mutex_);
  throw_if_aborted();
  phase_ = phase;
  micro_batch_.reset();
  sign_of_life();
}

void RankStatus::micro_batch(int64_t number) {
  std::lock_guard lock(mutex_);
  throw_if_aborted();
  micro_batch_ = number;
  sign_of_life();
}

void RankStatus::beat() {
  std::lock_guard lock(mutex_);
  throw_if_aborted();
  sign_of_life();
}

void RankStatus::begin_collective(const char* group, const char* op,
                                  std::optional<int64_t> micro_batch) {
  std::lock_guard lock(mutex_);
  collective_micro_batch_ = micro_batch;
  group_ = group;
  op_ = op;
  in_collective_ = true;
  sign_of_life();
}

void RankStatus::end_collective() {
  std::lock_guard lock(mutex_);
  in_collective_ = false;
  collective_micro_batch_.reset();
  sign_of_life();
}

void RankStatus::set_waiting(bool waiting) {
  std::lock_guard lock(mutex_);
  waiting_ = waiting;
  sign_of_life();
}

void RankStatus::end() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  sign_of_life();
}

void RankStatus::abort(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (!abort_reason_) abort_reason_ = reason;
}

std::optional<int64_t> RankStatus::current_micro_batch() const {
  std::lock_guard lock(mutex_);
  return micro_batch_;
}

RankStatus::Snapshot RankStatus::snapshot() const {
  std::lock_guard lock(mutex_);
  return {.phase = phase_,
          .micro_batch = collective_micro_batch_ ? collective_micro_batch_ : micro_batch_,
          .collective = op_ == nullptr ? "" : std::string(group_) + "." + op_,
          .in_collective = in_collective_,
          .waiting = waiting_,
          .ended = ended_,
          .last_sign = last_sign_};
}

}  // namespace verlcpp::parallel
