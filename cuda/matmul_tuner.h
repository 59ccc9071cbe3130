#pragma once

#include <cstddef>
#include <vector>

namespace verlcpp::cuda {

/// Which of a library's algorithms multiplies matrices of one kind fastest, learnt from the
/// products that a run makes anyway: each candidate takes a few of them in turn and is timed, then
/// the fastest takes all. A heuristic's first choice is up to a third slower than its best.
class MatmulTuner {
 public:
  /// Candidates 0..candidates-1, the likeliest first; at least one.
  explicit MatmulTuner(int candidates);

  struct Turn {
    int candidate;
    bool timed;  // its time is to be reported
  };
  Turn next();
  /// Seconds per operation of a timed turn, or that there is no time to come.
  void report(int candidate, double seconds_per_flop);
  void forget(int candidate);
  /// This candidate cannot compute what it is asked for. The last one stays.
  void drop(int candidate);
  /// By the times so far.
  int fastest() const;
  bool decided() const;

 private:
  static constexpr int kSamples = 3;
  /// One this much slower than the fastest after two turns gets no third. The first time may hold
  /// the loading of the kernel.
  static constexpr double kHopeless = 1.3;
  struct Candidate {
    int asked = 0, told = 0;
    double fastest = 0;  // of the times told
    bool dropped = false;
  };
  bool wants_turn(const Candidate& candidate) const;

  std::vector<Candidate> candidates_;
};

}  // namespace verlcpp::cuda
