#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/line_file.h"
#include "data/trajectory.h"

namespace verlcpp::data {

/// What a recorded trajectory must fit.
struct ReplayOptions {
  std::string path;              // actor_rollout_ref.rollout.replay_path
  int64_t train_batch_size = 1;  // groups a step
  int64_t n = 1;                 // rows a group
  int64_t vocab = 0;             // token ids lie in [0, vocab)
  int64_t max_prompt_length = 0, max_response_length = 0;
};

/// Recorded trajectories: JSONL rows {"uid", "prompt_ids", "response_ids", "response_mask"?,
/// "reward", "rollout_log_probs"?, "temperature"?, "data_source"?}. Step k (from 0) is the k-th run
/// of train_batch_size x n rows; within it every uid has exactly n rows.
class ReplayReader {
 public:
  /// Reads the whole file once and throws one DataError for all bad rows (20 are shown) with line,
  /// field, value and what is valid, or for broken groups with uid and counts. Keeps offsets only.
  explicit ReplayReader(ReplayOptions options);

  /// Whole steps in the file.
  int64_t steps() const { return rows_ / rows_per_step(); }
  /// Throws DataError with the counts when the file holds fewer steps than `wanted`.
  void require_steps(int64_t wanted) const;
  /// The trajectories of step `k`, in file order.
  std::vector<Trajectory> step(int64_t k) const;

 private:
  int64_t rows_per_step() const { return options_.train_batch_size * options_.n; }
  ReplayOptions options_;
  int64_t rows_ = 0;
  std::vector<int64_t> step_offset_;  // bytes, where each step's first row begins
};

/// Writes what ReplayReader reads (actor_rollout_ref.rollout.record_path), one step at a time.
class ReplayWriter {
 public:
  /// Why recording to `path` would destroy something else: its first line is no row of a recording,
  /// nor the torn begin of one. "" when it would not, or when there is no such file.
  static std::string why_foreign(const std::string& path);
  /// What the constructor throws for too few rows; changes nothing.
  static void check(const std::string& path, int64_t keep_rows);
  /// Keeps the file's first `keep_rows` rows (those of the steps before a resumed one) and drops
  /// the rest. DataError when it has fewer; DeviceError when it cannot be written.
  ReplayWriter(const std::string& path, int64_t keep_rows);
  /// One row a trajectory, all in one write; numbers read back to the same doubles.
  void write_step(std::span<const Trajectory> trajectories);
  /// Brings all rows to the disk.
  void sync() { file_.sync(); }
  /// Of the file.
  int64_t rows() const { return rows_; }

 private:
  LineWriter file_;
  int64_t rows_;
};

}  // namespace verlcpp::data
