#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace verlcpp::parallel {

/// How ranks that are threads of one process agree where to stop, without a collective. The members
/// pass numbered points in the same order, each at its own pace. As soon as one of them sees the
/// flag at a point, the place is fixed: the first point that no member has passed yet. So all stop
/// before the same piece of work, and nobody ever waits here: a member may be inside of a
/// collective that another one has still to reach.
class StopAgreement {
 public:
  /// `stop` is set from outside (a signal) and stays set; null means never.
  StopAgreement(int64_t members, const std::atomic<bool>* stop);
  /// Member `member` is at its next point: true = stop here. Stays true from the first time on.
  bool here(int64_t member);
  bool wanted() const { return stop_ != nullptr && stop_->load(); }

 private:
  const std::atomic<bool>* stop_;
  std::mutex mutex_;
  std::vector<int64_t> passed_;  // points that each member has come to
  std::optional<int64_t> stop_at_;
};

/// One member's place in an agreement; a value, its copies count on together. SPMD: every member
/// calls here() before each piece of work, the same number of times. Where loops differ in length
/// between groups (decoding on different pool coordinates), each group needs an agreement of its
/// own, and a group that has stopped must say so in the next collective it shares with the others:
/// they may have ended their loops before the flag was set.
class StopPoint {
 public:
  StopPoint() = default;  // never stops
  StopPoint(StopAgreement& agreement, int64_t member) : agreement_(&agreement), member_(member) {}
  bool here() const { return agreement_ != nullptr && agreement_->here(member_); }
  /// Whether a stop is asked for, which the ranks have not agreed on.
  bool wanted() const { return agreement_ != nullptr && agreement_->wanted(); }

 private:
  StopAgreement* agreement_ = nullptr;
  int64_t member_ = 0;
};

}  // namespace verlcpp::parallel
