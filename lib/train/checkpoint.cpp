#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "model/synced_file.h"
#include "model/weights_io.h"
#include "train/digest.h"
#include "train/remove_tree.h"

namespace verlcpp::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPrefix = "global_step_";

/// N of "global_step_N", or nothing.
std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  const std::string digits = name.substr(std::strlen(kPrefix));
  int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  return step;
}

/// Of a save that did not end: a folder aside, one being removed, a tracker.
bool is_leftover(const std::string& name) {
  if (name == std::string(kTracker) + ".tmp") return true;
  return name.starts_with(std::string(".") + kPrefix) &&
         (name.ends_with(".tmp") || name.ends_with(".old"));
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw DataError("checkpoint file " + path.string() + " cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

nlohmann::json read_object(const std::string& folder, const char* name) {
  const std::string path = (fs::path(folder) / name).string();
  nlohmann::json json = nlohmann::json::parse(read_text(path), nullptr, false);
  if (!json.is_object()) throw DataError("checkpoint file " + path + " is not a JSON object");
  return json;
}

/// The folder as one without a trailing slash.
fs::path without_slash(const std::string& path) {
  const fs::path folder(path);
  return folder.filename().empty() ? folder.parent_path() : folder;
}

bool same_folder(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  return fs::equivalent(a.empty() ? "." : a, b.empty() ? "." : b, failed) && !failed;
}

std::string find_by_path(const std::optional<std::string>& path) {
  if (!path || path->find(kPrefix) == std::string::npos) {
    throw ConfigError("trainer.resume_from_path=" + path.value_or("null") +
                      " must name a folder called global_step_N when trainer.resume_mode="
                      "resume_path");
  }
  const fs::path folder = without_slash(*path);
  if (!step_of_folder(folder.string()) || !fs::is_directory(folder)) {
    throw ConfigError("trainer.resume_from_path=" + *path +
                      " is not a folder called global_step_N");
  }
  return folder.string();
}

/// A checkpoint of another program; the user can still start from its weights, which verl keeps in
/// actor/model/huggingface, or, in its older layout, in actor/huggingface.
[[noreturn]] void throw_foreign(const fs::path& folder, const std::string& why) {
  std::string weights;
  for (const char* name : {"actor/model/huggingface", "actor/huggingface"}) {
    const std::string path = (folder / name).string();
    if (weights.empty() && model::has_weights(path)) weights = path;
  }
  throw DataError("checkpoint " + folder.string() + " was not saved by this program (" + why +
                  "), so a run cannot go on from it; to start from its weights set " +
                  (weights.empty() ? "actor_rollout_ref.model.path to a Hugging Face export of them"
                                   : "actor_rollout_ref.model.path=" + weights) +
                  ", trainer.resume_mode=disable and trainer.default_local_dir to a folder of the "
                  "new run's own");
}

}  // namespace

std::optional<int64_t> step_of_folder(const std::string& path) {
  return step_of(without_slash(path).filename().string());
}

std::string CheckpointFolder::final_folder(int64_t step) const {
  return (fs::path(root_) / (kPrefix + std::to_string(step))).string();
}

std::string CheckpointFolder::aside_folder(int64_t step) const {
  return (fs::path(root_) / ("." + (kPrefix + std::to_string(step)) + ".tmp")).string();
}

std::string CheckpointFolder::old_folder(int64_t step) const {
  return (fs::path(root_) / ("." + (kPrefix + std::to_string(step)) + ".old")).string();
}

std::vector<std::string> CheckpointFolder::remove_leftovers(
    const std::function<void()>& beat) const {
  std::vector<std::string> removed;
  if (!fs::is_directory(root_)) return removed;
  try {
    for (const auto& entry : fs::directory_iterator(root_)) {
      const std::string name = entry.path().filename().string();
      if (is_leftover(name)) removed.push_back(name);
    }
    std::sort(removed.begin(), removed.end());
  } catch (const fs::filesystem_error& e) {
    throw DeviceError("checkpoint folder " + root_ + " cannot be cleaned: " + e.what());
  }
  for (const std::string& name : removed) {
    std::error_code failed;
    remove_tree(fs::path(root_) / name, beat, failed);
    if (failed) {
      throw DeviceError("checkpoint folder " + root_ + " cannot be cleaned of " + name + ": " +
                        failed.message());
    }
  }
  return removed;
}

std::optional<int64_t> CheckpointFolder::tracked() const {
  const fs::path tracker = fs::path(root_) / kTracker;
  if (!fs::exists(tracker)) return {};
  std::string text = read_text(tracker);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  if (const auto step = step_of(kPrefix + text)) return step;
  throw DataError("checkpoint file " + tracker.string() + " must hold a step number, got '" + text +
                  "'");
}

/// Steps of the folders that were published whole, ascending.
std::vector<int64_t> CheckpointFolder::complete_steps() const {
  std::vector<int64_t> steps;
  if (!fs::is_directory(root_)) return steps;
  for (const auto& entry : fs::directory_iterator(root_)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && fs::exists(entry.path() / kManifest)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::optional<std::string> CheckpointFolder::find(
    const std::string& resume_mode, const std::optional<std::string>& resume_from_path) const {
  if (resume_mode == "disable") return {};
  if (resume_mode == "resume_path") return find_by_path(resume_from_path);
  const std::string tracker = (fs::path(root_) / kTracker).string();
  const auto step = tracked();
  std::vector<int64_t> complete = complete_steps();
  if (!step) {
    if (complete.empty()) return {};
    log::warning(root_ + " holds " + fs::path(final_folder(complete.back())).filename().string() +
                 " but no " + kTracker +
                 ": starting from scratch; trainer.resume_mode=resume_path goes on from it");
    return {};
  }
  if (fs::is_directory(final_folder(*step))) return final_folder(*step);
  const std::string gone =
      "checkpoint " + final_folder(*step) + ", which " + tracker + " names, is not there; ";
  std::erase_if(complete, [&](int64_t other) { return other > *step; });
  if (complete.empty()) {
    log::warning(gone + "no earlier one either: starting from scratch");
    return {};
  }
  log::warning(gone + "going on from the newest one before it, step " +
               std::to_string(complete.back()));
  return final_folder(complete.back());
}

std::vector<int64_t> CheckpointFolder::restore_replaced() const {
  std::vector<int64_t> steps;
  if (!fs::is_directory(root_)) return steps;
  try {
    for (const auto& entry : fs::directory_iterator(root_)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(".") || !name.ends_with(".old")) continue;
      const auto step = step_of(name.substr(1, name.size() - 5));
      // Without a whole one that was to replace it, it is a checkpoint being removed.
      if (step && fs::exists(fs::path(aside_folder(*step)) / kManifest) &&
          !fs::exists(final_folder(*step))) {
        steps.push_back(*step);
      }
    }
    for (const int64_t step : steps) fs::rename(old_folder(step), final_folder(step));
  } catch (const fs::filesystem_error& e) {
    throw DeviceError("checkpoint folder " + root_ + " cannot be mended: " + e.what());
  }
  return steps;
}

/// The step of `resumed` where it lies in this folder.
std::optional<int64_t> CheckpointFolder::step_within(
    const std::optional<std::string>& resumed) const {
  if (!resumed || !same_folder(without_slash(*resumed).parent_path(), root_)) return {};
  return step_of_folder(*resumed);
}

bool CheckpointFolder::leads_elsewhere(const std::optional<std::string>& resumed) const {
  const fs::path tracker = fs::path(root_) / kTracker;
  if (!fs::exists(tracker)) return false;  // a run that was given up stays so
  const std::optional<int64_t> wanted = step_within(resumed);
  return !wanted || read_text(tracker) != std::to_string(*wanted);
}

std::string CheckpointFolder::continue_from(const std::optional<std::string>& resumed) const {
  if (!leads_elsewhere(resumed)) return "";
  const std::optional<int64_t> wanted = step_within(resumed);
  const fs::path tracker = fs::path(root_) / kTracker;
  const std::string before = read_text(tracker);
  const std::string run = "trainer.default_local_dir=" + root_ + " held a run saved up to step " +
                          before + "; its folders stay until this run saves the same steps, and " +
                          "resume_mode=auto now goes on from ";
  try {
    if (wanted) {
      model::write_synced(tracker.string() + ".tmp", std::to_string(*wanted));
      fs::rename(tracker.string() + ".tmp", tracker);
    } else {
      fs::remove(tracker);
    }
    model::sync_folder(root_);
  } catch (const fs::filesystem_error& e) {
    throw DeviceError("checkpoint file " + tracker.string() + " cannot be changed: " + e.what());
  }
  return run + (wanted ? "step " + std::to_string(*wanted) : "this run's first save");
}

void CheckpointFolder::remove_older(int64_t step, int64_t keep,
                                    const std::function<void()>& beat) const {
  std::vector<int64_t> run{step};  // newest first
  try {
    while (const auto previous = read_state(final_folder(run.back())).previous) {
      if (*previous >= run.back() || !fs::is_directory(final_folder(*previous))) break;
      run.push_back(*previous);
    }
  } catch (const DataError&) {
    // Its last folder is not one of ours any more; what lies before it is nobody's to remove.
  }
  // Oldest first, and away under another name first: a kill leaves no half checkpoint, no gap.
  while (static_cast<int64_t>(run.size()) > std::max<int64_t>(keep, 1)) {
    const fs::path folder = final_folder(run.back()), old = old_folder(run.back());
    std::error_code failed;  // the new checkpoint is good: no reason to stop a run
    fs::rename(folder, old, failed);
    if (!failed) remove_tree(old, beat, failed);
    if (failed) {
      log::warning("checkpoint " + folder.string() + " cannot be removed: " + failed.message());
    }
    run.pop_back();
  }
}

CheckpointState read_state(const std::string& folder) {
  const nlohmann::json json = read_object(folder, kStateFile);
  try {
    CheckpointState state{.step = json.at("step").get<int64_t>(),
                          .optimizer_steps = json.at("optimizer_steps").get<int64_t>(),
                          .kl_coef = json.at("kl_coef").get<double>(),
                          .previous = {},
                          .data_order = json.at("data_order").get<std::string>(),
                          .model_digest = json.at("model_digest").get<std::string>(),
                          .config_digest = json.at("config_digest").get<std::string>()};
    const nlohmann::json previous = json.value("previous_step", nlohmann::json());
    if (!previous.is_null()) state.previous = previous.get<int64_t>();
    return state;
  } catch (const nlohmann::json::exception& e) {
    throw DataError("checkpoint " + folder + ": state.json is incomplete: " + e.what());
  }
}

CheckpointState read_checkpoint(const std::string& folder, const std::function<void()>& beat) {
  const fs::path root(folder);
  if (!fs::exists(root / kManifest) && !fs::exists(root / kStateFile)) {
    throw_foreign(root, std::string("it has no ") + kManifest);
  }
  const nlohmann::json manifest = read_object(folder, kManifest);
  if (manifest.value("schema_version", nlohmann::json()) != 2 ||
      !manifest.value("sha256", nlohmann::json()).is_object()) {
    throw_foreign(root,
                  std::string("its ") + kManifest + " is not of schema_version 2 with sha256");
  }
  for (const auto& [name, digest] : manifest["sha256"].items()) {
    const std::string path = (fs::path(folder) / name).string();
    if (digest == nlohmann::json(sha256_of_file(path, beat))) continue;
    throw DataError("checkpoint file " + path +
                    " differs from the SHA-256 in its manifest; resume from another global_step_N "
                    "with trainer.resume_mode=resume_path, or remove the folder");
  }
  return read_state(folder);
}

}  // namespace verlcpp::train
