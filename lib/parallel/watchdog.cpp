#include "parallel/watchdog.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace verlcpp::parallel {
namespace {

using Snapshot = RankStatus::Snapshot;

std::string time_text(std::chrono::milliseconds time) {
  const int64_t ms = time.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

/// "phase update_actor, micro-batch 3".
std::string phase_text(const Snapshot& rank) {
  std::string text = std::string("phase ") + rank.phase;
  if (rank.micro_batch) text += ", micro-batch " + std::to_string(*rank.micro_batch);
  return text;
}

std::string place_text(const Snapshot& rank) {
  if (rank.collective.empty()) return phase_text(rank) + ", before any collective";
  return phase_text(rank) + (rank.in_collective ? ", in " : ", last collective ") + rank.collective;
}

/// "; ranks 0, 1 wait in cp.exchange; rank 3 computes; rank 4 has ended": those other than `but`,
/// each kind at the place of its first rank.
std::string others_text(std::span<const Snapshot> ranks, size_t but) {
  struct Kind {
    std::string one, several;  // the verb for one rank and for several
    std::vector<size_t> ranks;
  };
  std::vector<Kind> kinds;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i == but) continue;
    const Snapshot& r = ranks[i];
    Kind kind{"computes", "compute", {i}};
    if (r.waiting) kind = {"waits in " + r.collective, "wait in " + r.collective, {i}};
    if (r.ended) kind = {"has ended", "have ended", {i}};
    const auto same =
        std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.one == kind.one; });
    if (same == kinds.end()) {
      kinds.push_back(std::move(kind));
    } else {
      same->ranks.push_back(i);
    }
  }
  std::string text;
  for (const Kind& kind : kinds) {
    const bool one = kind.ranks.size() == 1;
    std::string list;
    for (const size_t i : kind.ranks) list += (list.empty() ? "" : ", ") + std::to_string(i);
    text +=
        "; " + std::string(one ? "rank " : "ranks ") + list + " " + (one ? kind.one : kind.several);
  }
  return text;
}

std::string silent_text(const AxisSizes& sizes, std::span<const Snapshot> ranks, size_t silent,
                        const std::string& limit) {
  const Topology place(sizes, static_cast<int64_t>(silent));
  return "rank " + std::to_string(silent) + " (TP " + std::to_string(place.tp_rank()) +
         ", pool rank " + std::to_string(place.pool_rank()) + ") has not answered for " + limit +
         ": " + place_text(ranks[silent]) + others_text(ranks, silent);
}

std::string deadlock_text(std::span<const Snapshot> ranks, const std::string& limit) {
  std::string text = "no rank can go on, nothing has moved for " + limit;
  const char* separator = ": ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Snapshot& r = ranks[i];
    text += std::exchange(separator, "; ") + ("rank " + std::to_string(i));
    text += r.ended ? " has ended" : " waits in " + r.collective + " (" + phase_text(r) + ")";
  }
  return text;
}

}  // namespace

std::optional<std::string> find_stuck_ranks(const AxisSizes& sizes, std::span<const Snapshot> ranks,
                                            RankStatus::Clock::time_point now,
                                            RankStatus::Clock::time_point since,
                                            std::chrono::milliseconds limit) {
  std::optional<size_t> oldest;  // the longest silent one of those that neither wait nor have ended
  size_t live = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].ended) continue;
    ++live;
    if (ranks[i].waiting) continue;
    if (!oldest || ranks[i].last_sign < ranks[*oldest].last_sign) oldest = i;
  }
  if (live == 0) return {};
  const std::string limit_text = time_text(limit) + " (actor_rollout_ref.nccl_timeout)";
  const auto silent = [&](const Snapshot& rank) {
    return now - std::max(rank.last_sign, since) >= limit;
  };
  if (oldest) {
    if (!silent(ranks[*oldest])) return {};
    return silent_text(sizes, ranks, *oldest, limit_text);
  }
  if (!std::all_of(ranks.begin(), ranks.end(), silent)) return {};
  return deadlock_text(ranks, limit_text);
}

}  // namespace verlcpp::parallel
