#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace verlcpp::train {

constexpr const char* kTracker = "latest_checkpointed_iteration.txt";
constexpr const char* kManifest = "actor/ckpt_contents.json";
constexpr const char* kStateFile = "state.json";

/// What a run needs besides tensors to continue as if it had not stopped (state.json).
struct CheckpointState {
  int64_t step = 0;                 // finished steps; the data position follows from it
  int64_t optimizer_steps = 0;      // for AdamW's bias correction
  double kl_coef = 0;               // of the KL controller
  std::optional<int64_t> previous;  // step of the run's checkpoint before this one, same folder
  std::optional<int64_t>
      recorded_rows;          // of rollout.record_path, all steps so far; where there is one
  std::string data_order;     // what the order of samples follows from, as text
  std::string model_digest;   // model_digest() of the model's config.json
  std::string config_digest;  // SHA-256 of the resolved configuration (config.yaml)
};

/// A run's checkpoint folder (trainer.default_local_dir) in verl's layout:
///   latest_checkpointed_iteration.txt                      the tracker: N
///   global_step_N/state.json, config.yaml
///   global_step_N/actor/ckpt_contents.json, model/huggingface/, optimizer/dist_ckpt/
///   .global_step_N.tmp, .global_step_N.old                 being written, being removed
/// CheckpointDraft writes it. Pure where it says so; the rest throws DeviceError naming the path
/// when the folder cannot be read or written.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string root) : root_(std::move(root)) {}

  /// Pure functions of the folder's name and the step.
  const std::string& root() const { return root_; }
  std::string final_folder(int64_t step) const;
  std::string aside_folder(int64_t step) const;
  std::string old_folder(int64_t step) const;

  /// The newest complete checkpoint of a step before `step`, or of all; nothing where there is
  /// none.
  std::optional<std::string> newest_before(const std::optional<int64_t>& step) const;

  /// Removes what an interrupted save left behind; returns the removed names. `beat`, if
  /// any, is called all the while.
  std::vector<std::string> remove_leftovers(const std::function<void()>& beat = {}) const;

  /// Folder to resume from by trainer.resume_mode, or nothing to start from scratch. auto: the one
  /// the tracker names; where that one is gone, the newest complete one before it, with a warning.
  /// Throws ConfigError naming the key for a missing or misnamed resume_from_path, DataError for a
  /// tracker without the number of a step.
  std::optional<std::string> find(const std::string& resume_mode,
                                  const std::optional<std::string>& resume_from_path) const;

  /// A kill while a checkpoint of the same step was being replaced, where the file system cannot
  /// exchange two names, leaves it under old_folder() alone: it gets its name back. Returns the
  /// steps. For the run that holds the folder's lock, before find().
  std::vector<int64_t> restore_replaced() const;

  /// Whether the tracker leads to another checkpoint than `resumed` (what find() gave).
  bool leads_elsewhere(const std::optional<std::string>& resumed) const;
  /// From now on this folder belongs to a run that goes on from `resumed` (what find() gave), or
  /// from scratch: the tracker must not lead the next resume_mode=auto to a checkpoint of another
  /// run before this one's first save. Returns what was changed as a message, "" for nothing.
  std::string continue_from(const std::optional<std::string>& resumed) const;

  /// Retention: of the checkpoint of `step` and those before it in its run (CheckpointState::
  /// previous), the newest `keep` stay. Those of other runs are neither counted nor removed. One
  /// that cannot be removed is a warning. `beat`, if any, is called all the while.
  void remove_older(int64_t step, int64_t keep, const std::function<void()>& beat = {}) const;

 private:
  std::optional<std::string> tracker_text() const;
  std::optional<int64_t> tracked() const;
  std::vector<int64_t> complete_steps() const;
  std::optional<int64_t> step_within(const std::optional<std::string>& resumed) const;

  std::string root_;
};

/// N of a path called global_step_N, or nothing.
std::optional<int64_t> step_of_folder(const std::string& path);
/// The end of a message about a checkpoint, or a tracker, that cannot be used: what can be set
/// instead. `before`: the checkpoint's step.
std::string other_ways(const std::string& root, const std::optional<int64_t>& before);
/// Reads state.json of global_step_N.
CheckpointState read_state(const std::string& folder);
/// The same, and checks every file of the manifest against its SHA-256; `beat` is called all the
/// while, and that state.json is one of them and of the folder's step. DataError names the file
/// that is missing or differs, and the newest complete checkpoint before it.
CheckpointState read_checkpoint(const std::string& folder, const std::function<void()>& beat = {});

}  // namespace verlcpp::train
