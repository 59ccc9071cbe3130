#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/replay.h"
#include "train/checkpoint.h"
#include "train/engine.h"
#include "train/inputs.h"
#include "train/pipeline.h"
#include "train/report.h"

namespace verlcpp::train {

/// verl's PPO loop on one rank (SPMD: every rank runs it, rank 0 reports and writes). Owns counters
/// and checkpoints; no maths, no YAML, no CUDA.
class Trainer {
 public:
  /// Loads weights, and the checkpoint that resume_mode names. `report` is rank 0's, null
  /// elsewhere. `stop` is set from outside (a signal).
  Trainer(const Engine& engine, const TrainConfig& config, const Inputs& inputs, Report* report,
          const std::atomic<bool>& stop);
  /// Runs to the last step: true. Or, once any rank sees `stop`, to the end of the step under way,
  /// saves and returns false.
  bool run();

 private:
  void train_step(int64_t step);
  bool is_save_step(int64_t step) const;
  void save();
  void write_optimizer(const std::string& folder) const;
  void resume();
  /// The checkpoint's folder by resume_mode, or "": rank 0 looks and checks, the others hear of it.
  std::string find_checkpoint() const;
  void check_resumable(const std::string& folder, const CheckpointState& state) const;
  void load_tensors(const std::string& folder, const CheckpointState& state);
  CheckpointState state() const;
  bool stop_agreed() const;

  const Engine& engine_;
  const TrainConfig& config_;
  const Inputs& inputs_;
  Report* report_;
  const std::atomic<bool>& stop_;
  DType dtype_;
  model::ParameterLayout layout_;
  model::ParameterBuffer weights_, grad_;
  std::unique_ptr<model::ParameterBuffer> reference_;
  Optimizer optimizer_;
  LrSchedule lr_;
  algo::KlController kl_;
  std::optional<data::ReplayWriter> recorder_;  // rollout.record_path, rank 0
  int64_t done_steps_ = 0;  // finished steps; the next one is done_steps_ (0-based)
};

}  // namespace verlcpp::train
