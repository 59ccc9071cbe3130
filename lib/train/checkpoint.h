#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace verlcpp::train {

/// What a run needs besides tensors to continue as if it had not stopped (state.json).
struct CheckpointState {
  int64_t step = 0;             // finished steps; the data position follows from it
  int64_t optimizer_steps = 0;  // for AdamW's bias correction
  double kl_coef = 0;           // of the KL controller
  std::string data_order;       // what the order of samples follows from, as text
  std::string model_digest;     // SHA-256 of the model's config.json
  std::string config_digest;    // SHA-256 of the resolved configuration (config.yaml)
};

/// What the manifest (actor/ckpt_contents.json, verl's schema 2) says of the checkpoint.
struct CheckpointManifest {
  std::string architecture;
  int64_t world_size = 1;
  std::vector<std::string> save_contents;
};

/// A run's checkpoint folder (trainer.default_local_dir) in verl's layout:
///   latest_checkpointed_iteration.txt
///   global_step_N/state.json
///   global_step_N/actor/ckpt_contents.json, model/huggingface/, optimizer/dist_ckpt/
/// A checkpoint is written aside, synced and renamed; the tracker file is last; older ones are
/// deleted only afterwards. DeviceError names the path; the previous checkpoint stays valid.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string root) : root_(std::move(root)) {}

  /// Removes what an interrupted save left behind; returns the removed names.
  std::vector<std::string> remove_leftovers() const;

  /// DeviceError unless the folder can be made and written, so that it is known before training.
  void check_writable() const;

  /// Folder to resume from by trainer.resume_mode (auto, disable, resume_path), or nothing to start
  /// from scratch. Throws ConfigError naming the key for a missing or misnamed resume_from_path.
  std::optional<std::string> find(const std::string& resume_mode,
                                  const std::optional<std::string>& resume_from_path) const;

  /// `write(folder)` puts the tensor files under folder/actor. Returns the final folder.
  std::string save(const CheckpointState& state, const CheckpointManifest& manifest,
                   const std::optional<int64_t>& max_to_keep,
                   const std::function<void(const std::string&)>& write) const;

 private:
  std::string root_;
};

/// Reads state.json of global_step_N.
CheckpointState read_state(const std::string& folder);
/// The same, and checks every file of the manifest against its SHA-256.
/// DataError names the file that is missing or differs.
CheckpointState read_checkpoint(const std::string& folder);

/// Hexadecimal SHA-256.
std::string sha256(const std::string& bytes);
std::string sha256_of_file(const std::string& path);

}  // namespace verlcpp::train
