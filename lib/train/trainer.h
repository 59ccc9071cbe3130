#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/replay.h"
#include "train/checkpoint.h"
#include "train/checkpoint_draft.h"
#include "train/checkpoint_lock.h"
#include "train/checkpoint_tensors.h"
#include "train/engine.h"
#include "train/inputs.h"
#include "train/pipeline.h"
#include "train/report.h"
#include "train/stop_notice.h"
#include "train/validation.h"

namespace verlcpp::train {

/// verl's PPO loop on one rank (SPMD: every rank runs it, rank 0 reports and writes). Owns counters
/// and checkpoints; no maths, no YAML, no CUDA.
///
/// A finished step N on the disk, in this order, so that a kill at any moment loses no row and
/// doubles none: checkpoint N aside, the dump of step N, row N of the metrics and step N's recorded
/// rollouts, checkpoint N renamed, the tracker; then the validation after it, its dump, and what it
/// found added to row N. On resume rows beyond the tracker's step are cut, dumps of steps that are
/// done again replaced, and a validation that row N lacks is made up for.
class Trainer {
 public:
  /// Loads or makes the first weights. `report` is rank 0's, null elsewhere. `stop_signal`
  /// is the number of the signal that sets what the stop points of engine.comm look at, 0 before.
  /// StoppedAtStart, here and from run() before training begins, when there is one.
  Trainer(const Engine& engine, const TrainConfig& config, const Inputs& inputs, Report* report,
          const std::atomic<int>& stop_signal);
  /// Resumes by resume_mode and runs to the last step: true. When the ranks agree to stop: drops a
  /// step that has not come to its update, finishes one that has, saves what is not saved yet and
  /// returns false. A stop that is seen before training begins, in a first validation too, changes
  /// no file; one before the first step only what beginning changes: leftovers removed, the
  /// tracker, rows cut. With trainer.val_only it validates and ends, and nothing changes but the
  /// metrics.
  bool run();

 private:
  void check_files() const;
  bool begins_with_validation(bool resumed) const;
  void begin(const std::optional<std::string>& resumed);
  void start_beat() const;
  bool train_step(int64_t step);
  std::optional<StepExperience> collect(int64_t step, PhaseTimer& timer);
  std::optional<Metrics> validate_weights();
  bool end_step(PhaseTimer& timer);
  std::exception_ptr dump_rollout(int64_t step, std::span<const data::Trajectory> batch,
                                  PhaseTimer& timer) const;
  void end_stopped();
  void take_over(const std::optional<std::string>& resumed);
  void take_folder();
  bool is_save_step(int64_t step) const;
  void write_checkpoint();
  void publish_checkpoint();
  std::optional<std::string> resume();
  RunTensors tensors();
  CheckpointState state() const;
  void announce(const std::string& work, int64_t step);

  const Engine& engine_;
  const TrainConfig& config_;
  const Inputs& inputs_;
  Report* report_;
  const std::atomic<int>& stop_signal_;
  std::function<void()> beat_;
  CheckpointFolder checkpoints_;
  DType dtype_;
  model::ParameterLayout layout_;
  model::ParameterBuffer weights_, grad_;
  std::unique_ptr<model::ParameterBuffer> reference_;
  Optimizer optimizer_;
  LrSchedule lr_;
  algo::KlController kl_;
  Validation validation_;
  bool warm_ = false;                     // warm_up_attention has run
  int64_t done_steps_ = 0;                // finished steps; the next one is done_steps_ (0-based)
  int64_t saved_steps_ = 0;               // of them, on the disk
  std::optional<int64_t> previous_;       // the run's last checkpoint in checkpoints_
  std::optional<int64_t> recorded_rows_;  // of rollout.record_path up to done_steps_ at the start
  std::optional<data::ReplayWriter> recorder_;  // rollout.record_path, rank 0
  std::optional<CheckpointLock>
      lock_;  // rank 0 with save_freq <= 0, when it must change the folder
  std::optional<CheckpointDraft> draft_;          // rank 0, from write_ to publish_checkpoint
  std::optional<StopNotice> notice_;              // rank 0, while training
  double update_seconds_ = 0, save_seconds_ = 0;  // of the last one, for the notice
};

}  // namespace verlcpp::train
