#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/tree.h"
#include "train/metrics.h"
#include "train/pipeline.h"
#include "train/train_config.h"
#include "train/update_pass.h"

namespace verlcpp::train {

/// What one step did, as the trainer hands it over.
struct StepOutcome {
  int64_t step = 0;  // 1-based, verl's global_step
  int64_t epoch = 0;
  const StepExperience& experience;
  const std::vector<MiniBatchResult>& updates;
  ScheduleStats schedule;  // of the update
  double lr = 0;
  int64_t peak_bytes = 0, reserved_bytes = 0;  // of rank 0's backend
  const PhaseTimer& timer;
};

/// Rank 0's voice: start-up times, verl's console line and JSONL metrics file, the progress bar,
/// and the closing summary.
class Report {
 public:
  Report(const TrainConfig& config, const config::Node& tree,
         std::chrono::steady_clock::time_point start);
  ~Report();

  /// The start-up phase `name` ends now.
  void phase(const std::string& name);
  /// Errors of the metrics file that are known before anything is changed (MetricsFile::check).
  void check_files() const;
  /// The run goes on after `done_steps` of `total_steps`; cuts metrics of later steps.
  void begin(int64_t done_steps, int64_t total_steps);
  /// Whether the metrics file has a row of `step` without a validation.
  bool lacks_validation(int64_t step) const;
  /// A validation before training, after `step` steps (MetricsFile::add_validation).
  void first_validation(int64_t step, const Metrics& metrics);
  /// The first training step comes next.
  void training_starts();
  /// A step's row of the metrics file. end_step() comes next, when its validation is over.
  void step(const StepOutcome& outcome);
  /// The step's console line, with its validation if there was one, which also goes into its row.
  void end_step(const std::optional<Metrics>& validation);
  /// Whether there is a metrics file.
  bool keeps_rows() const;
  /// Brings the metrics so far to the disk: a checkpoint must not be there before its steps' rows.
  void sync() const;
  void checkpoint_saved(const std::string& folder, const std::string& export_folder);
  /// Where everything is, how to go on after a stop, and a small plot of the reward. `stopped_by`
  /// is the signal's name, "" at the last step.
  void finish(const std::string& stopped_by);
  /// The resolved configuration as YAML: its digest goes into checkpoints.
  const std::string& config_text() const { return config_text_; }

 private:
  struct State;
  const TrainConfig& config_;
  std::string config_text_;
  std::unique_ptr<State> state_;
};

}  // namespace verlcpp::train
