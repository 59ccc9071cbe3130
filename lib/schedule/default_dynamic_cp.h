#pragma once

#include <cstdint>
#include <span>

#include "schedule/plan.h"

namespace verlcpp::schedule {

struct DynamicCpOptions {
  int64_t pool = 2;                 // DPxCP ranks (T)
  int64_t max_seqlen_per_rank = 0;  // max_seqlen_per_dp_cp_rank (m)
  int64_t min_cp = 1;               // min_dynamic_context_parallel_size
};

/// Megatron-Core's DefaultDynamicCPScheduler (#5154, d2e7ec5b), with three repairs where upstream
/// fails on pools that are not a power of two (see the .cpp). Sample ids are 0..n-1.
/// Throws DataError for an empty batch, a length < 1 or a sequence longer than pool * m.
Plan schedule_default_dynamic_cp(std::span<const int64_t> lengths, const DynamicCpOptions& options);

}  // namespace verlcpp::schedule
