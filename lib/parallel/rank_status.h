#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace verlcpp::parallel {

/// Where one rank is in its work. Written by the rank's own thread and by its communicators, read
/// by the watchdog of run_thread_ranks. All names are string literals: only the pointer is kept.
///
/// Every call is a sign of life. Work that takes long calls beat() at each piece (a layer, a token,
/// a tensor written), more often than actor_rollout_ref.nccl_timeout, or the rank is held to be
/// stuck; time spent waiting in a collective does not count. Costs an uncontended lock and a clock.
class RankStatus {
 public:
  using Clock = std::chrono::steady_clock;

  /// What the watchdog sees.
  struct Snapshot {
    const char* phase = "start";
    std::optional<int64_t> micro_batch = {};
    std::string collective = {};  // "grad.all_reduce", under way or the last; "": none yet
    bool in_collective = false;   // it is under way
    bool waiting = false;         // ... and waits for other ranks
    bool ended = false;           // its body has returned or thrown
    Clock::time_point last_sign = {};
  };

  /// The rank enters a phase ("gen", "update_actor", "save_checkpoint"); no micro-batch yet. This
  /// and the next two throw DeviceError with the abort's reason once the ranks were aborted, so
  /// that a loop without collectives stops early as well.
  void enter(const char* phase);
  /// Micro-batch `number` of the phase begins; messages show the number as it is given, so count
  /// from 1.
  void micro_batch(int64_t number);
  void beat();

  // --- for communicators and run_thread_ranks; none of these throws
  // -------------------------------
  /// `micro_batch`: the one it belongs to where the host has gone on to a later one.
  void begin_collective(const char* group, const char* op,
                        std::optional<int64_t> micro_batch = std::nullopt);
  void end_collective();
  void set_waiting(bool waiting);
  void end();
  void abort(const std::string& reason);
  std::optional<int64_t> current_micro_batch() const;
  Snapshot snapshot() const;

 private:
  void sign_of_life();
  void throw_if_aborted() const;

  mutable std::mutex mutex_;
  const char* phase_ = "start";
  std::optional<int64_t> micro_batch_, collective_micro_batch_;
  const char* group_ = nullptr;
  const char* op_ = nullptr;
  bool in_collective_ = false, waiting_ = false, ended_ = false;
  Clock::time_point last_sign_ = Clock::now();
  std::optional<std::string> abort_reason_;
};

}  // namespace verlcpp::parallel
