#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "model/synced_file.h"
#include "train/remove_tree.h"

namespace verlcpp::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPrefix = "global_step_";

/// The number that `digits` are, and nothing but digits.
std::optional<int64_t> number_of(const std::string& digits) {
  if (digits.starts_with('-')) return {};
  int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  return step;
}

/// N of "global_step_N", or nothing.
std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  return number_of(name.substr(std::strlen(kPrefix)));
}

/// N of ".global_step_N" and `ending`, or nothing.
std::optional<int64_t> hidden_step_of(const std::string& name, const std::string& ending) {
  if (!name.starts_with(".") || !name.ends_with(ending)) return {};
  return step_of(name.substr(1, name.size() - 1 - ending.size()));
}

/// Of a save that did not end: a folder aside, one being removed, a tracker.
bool is_leftover(const std::string& name) {
  return name == std::string(kTracker) + ".tmp" || hidden_step_of(name, ".tmp") ||
         hidden_step_of(name, ".old");
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
  const std::string about = "trainer.resume_from_path=" + *path;
  if (!step_of_folder(folder.string())) {
    throw ConfigError(about + " is not a folder called global_step_N");
  }
  if (!fs::exists(folder)) throw ConfigError(about + " does not exist");
  if (!fs::is_directory(folder)) throw ConfigError(about + " is not a folder");
  return folder.string();
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

/// What the tracker holds, without blanks around it; nothing where there is none.
std::optional<std::string> CheckpointFolder::tracker_text() const {
  const fs::path tracker = fs::path(root_) / kTracker;
  if (!fs::exists(tracker)) return {};
  if (!fs::is_regular_file(tracker)) {
    throw DataError("checkpoint file " + tracker.string() +
                    " is not a file, so it names no step; remove it" + other_ways(root_, {}));
  }
  std::ifstream in(tracker, std::ios::binary);
  if (!in) throw DataError("checkpoint file " + tracker.string() + " cannot be read");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  constexpr const char* kBlanks = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

std::optional<int64_t> CheckpointFolder::tracked() const {
  const std::optional<std::string> text = tracker_text();
  if (!text) return {};
  const std::optional<int64_t> step = number_of(*text);
  if (step && *step >= 1) return step;
  throw DataError("checkpoint file " + (fs::path(root_) / kTracker).string() +
                  " must hold a step number, got '" + *text + "'" + other_ways(root_, {}));
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

std::optional<std::string> CheckpointFolder::newest_before(
    const std::optional<int64_t>& step) const {
  std::vector<int64_t> complete = complete_steps();
  if (step) std::erase_if(complete, [&](int64_t other) { return other >= *step; });
  if (complete.empty()) return {};
  return final_folder(complete.back());
}

std::string other_ways(const std::string& root, const std::optional<int64_t>& before) {
  const std::string scratch = "trainer.resume_mode=disable starts from scratch";
  const auto newest = CheckpointFolder(root).newest_before(before);
  if (newest) {
    return "; to go on from the newest complete checkpoint" +
           std::string(before ? " before it" : " there") +
           " set trainer.resume_mode=resume_path and trainer.resume_from_path=" + *newest + "; " +
           scratch;
  }
  return "; there is no " + std::string(before ? "earlier" : "other") +
         " complete checkpoint to go on from; " + scratch;
}

std::optional<std::string> CheckpointFolder::find(
    const std::string& resume_mode, const std::optional<std::string>& resume_from_path) const {
  tracker_text();  // one that cannot be replaced is known before anything is changed
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
      const auto step = hidden_step_of(name, ".old");
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
  const std::optional<std::string> text = tracker_text();
  if (!text) return false;  // a run that was given up stays so
  const std::optional<int64_t> wanted = step_within(resumed);
  return !wanted || number_of(*text) != wanted;
}

std::string CheckpointFolder::continue_from(const std::optional<std::string>& resumed) const {
  if (!leads_elsewhere(resumed)) return "";
  const std::optional<int64_t> wanted = step_within(resumed);
  const fs::path tracker = fs::path(root_) / kTracker;
  const std::string before = tracker_text().value_or("");
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

}  // namespace verlcpp::train
