#include "train/checkpoint_draft.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "model/synced_file.h"
#include "train/digest.h"
#include "train/remove_tree.h"

namespace verlcpp::train {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), folder));
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Every folder below `folder`, then itself: without its folders a file is not safe. The files
/// themselves are synced by their writers.
void sync_folders(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) model::sync_folder(entry.path().string());
  }
  model::sync_folder(folder.string());
}

/// Puts `aside` in the place of `target`. A `target` saved before is exchanged in one step, so that
/// the name never dangles, and removed afterwards.
void move_into_place(const fs::path& aside, const fs::path& target, const fs::path& old,
                     const std::function<void()>& beat) {
  if (!fs::exists(target)) return fs::rename(aside, target);
  if (!fs::is_directory(target)) {
    throw DeviceError("checkpoint " + target.string() + " cannot be saved: a file is in the way");
  }
  std::error_code failed;
  if (::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    fs::rename(aside, old, failed);
  } else if (errno == EINVAL || errno == ENOSYS) {  // a file system that cannot exchange
    fs::rename(target, old);
    fs::rename(aside, target);
  } else {
    throw DeviceError("checkpoint " + target.string() +
                      " cannot be replaced: " + std::strerror(errno));
  }
  remove_tree(old, beat, failed);
  if (!failed) return;
  log::warning("checkpoint " + old.string() + " cannot be removed: " + failed.message());
}

ordered_json state_json(const CheckpointState& state) {
  return {
      {"step", state.step},
      {"previous_step", state.previous ? ordered_json(*state.previous) : ordered_json()},
      {"recorded_rows", state.recorded_rows ? ordered_json(*state.recorded_rows) : ordered_json()},
      {"optimizer_steps", state.optimizer_steps},
      {"kl_coef", state.kl_coef},
      {"data_order", state.data_order},
      {"model_digest", state.model_digest},
      {"config_digest", state.config_digest}};
}

/// verl's manifest fields, and a digest of every file written so far.
ordered_json manifest_json(const fs::path& folder, int64_t step, const CheckpointManifest& manifest,
                           const std::function<void()>& beat) {
  ordered_json contents, digests;
  if (fs::exists(folder / "actor/model/huggingface")) {
    contents["model"] = {{"path", "model/huggingface"}, {"format", "huggingface"}};
    contents["hf_config"] = {{"path", "model/huggingface"}, {"format", "huggingface"}};
  }
  if (fs::exists(folder / "actor/optimizer/dist_ckpt")) {
    contents["optimizer"] = {{"path", "optimizer/dist_ckpt"}, {"format", "safetensors"}};
  }
  for (const fs::path& file : files_below(folder)) {
    digests[file.string()] = sha256_of_file((folder / file).string(), beat);
  }
  return {{"schema_version", 2},
          {"framework", "megatron"},
          {"role", "actor"},
          {"arch", manifest.architecture},
          {"global_step", step},
          {"world_size", manifest.world_size},
          {"save_contents", manifest.save_contents},
          {"contents", contents},
          {"sha256", digests}};
}

[[noreturn]] void fail(const std::string& folder, const fs::filesystem_error& e) {
  throw DeviceError("checkpoint " + folder + " cannot be saved: " + e.what());
}

}  // namespace

CheckpointDraft::CheckpointDraft(const CheckpointFolder& folder, const CheckpointState& state,
                                 CheckpointManifest manifest, std::function<void()> beat)
    : folder_(folder),
      state_(state),
      manifest_(std::move(manifest)),
      beat_(std::move(beat)),
      aside_(folder.aside_folder(state.step)),
      tracker_((fs::path(folder.root()) / kTracker).string()),
      tracker_aside_(tracker_ + ".tmp") {
  try {
    std::error_code failed;
    remove_tree(aside_, beat_, failed);
    if (failed) throw fs::filesystem_error("cannot be removed", aside_, failed);
    fs::create_directories(fs::path(aside_) / "actor");
  } catch (const fs::filesystem_error& e) {
    fail(folder_.final_folder(state_.step), e);
  }
}

CheckpointDraft::~CheckpointDraft() {
  std::error_code ignored;
  if (!moved_) fs::remove_all(aside_, ignored);
  fs::remove(tracker_aside_, ignored);  // renamed by now unless something failed
}

void CheckpointDraft::add(const std::string& name, const std::string& text) const {
  model::write_synced((fs::path(aside_) / name).string(), text);
}

void CheckpointDraft::seal() {
  try {
    add(kStateFile, state_json(state_).dump(1) + "\n");
    add(kManifest, manifest_json(aside_, state_.step, manifest_, beat_).dump(1) + "\n");
    sync_folders(aside_);
    model::write_synced(tracker_aside_, std::to_string(state_.step));
  } catch (const fs::filesystem_error& e) {
    fail(folder_.final_folder(state_.step), e);
  }
  sealed_ = true;
}

std::string CheckpointDraft::publish(const std::optional<int64_t>& max_to_keep) {
  expects(sealed_ && !moved_, "a draft is sealed, then published once");
  const std::string target = folder_.final_folder(state_.step);
  try {
    move_into_place(aside_, target, folder_.old_folder(state_.step), beat_);
    moved_ = true;
    model::sync_folder(folder_.root());
    fs::rename(tracker_aside_, tracker_);
    model::sync_folder(folder_.root());
  } catch (const fs::filesystem_error& e) {
    fail(target, e);
  }
  if (max_to_keep) folder_.remove_older(state_.step, *max_to_keep, beat_);
  return target;
}

}  // namespace verlcpp::train
