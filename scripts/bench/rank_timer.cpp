#include "rank_timer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

#include "base/error.h"

namespace verlcpp::bench {

namespace {

/// Seconds of a clock that all threads share.
double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::vector<double> RankTimer::samples(const std::function<void()>& body) {
  double estimate = 0;
  for (int64_t i = 0; i < options_.warmup; ++i) estimate = timed(1, body);
  int64_t times = 1;  // the same on all ranks, as the estimate is
  if (estimate > 0) {
    times = std::clamp(static_cast<int64_t>(options_.sample_milliseconds / 1e3 / estimate),
                       int64_t{1}, int64_t{200});
  }
  std::vector<double> samples;
  for (int64_t i = 0; i < options_.repeat; ++i) samples.push_back(timed(times, body));
  return samples;
}

/// The ranks start at a moment they agree on, since a wait for each other ends up to a fraction of
/// a millisecond later on some; none goes on before all have finished.
double RankTimer::timed(int64_t times, const std::function<void()>& body) {
  constexpr double kAgreement = 200e-6;
  backend_.synchronize();
  const double start = slowest(now() + kAgreement);
  while (now() < start) {
  }
  for (int64_t i = 0; i < times; ++i) body();
  backend_.synchronize();
  return slowest(now() - start) / static_cast<double>(times);
}

double RankTimer::slowest(double mine) const {
  double most = 0;
  for (const auto& bytes : comm_.world.all_gather_bytes(std::as_bytes(std::span(&mine, 1)))) {
    double theirs = 0;
    expects(bytes.size() == sizeof theirs, "a rank gave no time");
    std::memcpy(&theirs, bytes.data(), sizeof theirs);
    most = std::max(most, theirs);
  }
  return most;
}

}  // namespace verlcpp::bench
