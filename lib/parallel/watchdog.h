#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "parallel/rank_status.h"
#include "parallel/topology.h"

namespace verlcpp::parallel {

/// The message about ranks that cannot go on, or nothing while all is well. `ranks` holds one
/// snapshot a rank, in rank order; silence counts from the last sign of life, but from `since` at
/// the earliest. Two cases:
///  - a rank that neither waits nor has ended is silent for `limit`: the culprit (the longest
///    silent one), with its place and what the others do;
///  - all that have not ended wait, and nothing has moved for `limit`: they wait for each other, or
///    for one that has ended; each rank's place.
/// Pure.
std::optional<std::string> find_stuck_ranks(const AxisSizes& sizes,
                                            std::span<const RankStatus::Snapshot> ranks,
                                            RankStatus::Clock::time_point now,
                                            RankStatus::Clock::time_point since,
                                            std::chrono::milliseconds limit);

}  // namespace verlcpp::parallel
