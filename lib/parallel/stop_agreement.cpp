#include "parallel/stop_agreement.h"

#include <algorithm>

#include "base/error.h"

namespace verlcpp::parallel {

StopAgreement::StopAgreement(int64_t members, const std::atomic<bool>* stop)
    : stop_(stop), passed_(static_cast<size_t>(members)) {
  expects(members >= 1, "an agreement needs at least one member");
}

bool StopAgreement::here(int64_t member) {
  std::lock_guard lock(mutex_);
  if (!stop_at_ && stop_ != nullptr && stop_->load()) {
    // Whoever came to an earlier point was told to go on.
    stop_at_ = *std::max_element(passed_.begin(), passed_.end()) + 1;
  }
  return ++passed_.at(static_cast<size_t>(member)) >= stop_at_.value_or(INT64_MAX);
}

}  // namespace verlcpp::parallel
