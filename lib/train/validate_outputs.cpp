#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/prompts.h"
#include "data/replay.h"
#include "train/generation_dump.h"
#include "train/metrics.h"
#include "train/outputs.h"
#include "train/prompt_scan.h"
#include "train/validate.h"
#include "train/validate_checks.h"
#include "train/writable.h"

namespace verlcpp::train {
namespace {

namespace fs = std::filesystem;

/// Where a name leads, through links; the name itself where that cannot be found out.
fs::path real_place(const std::string& name) {
  std::error_code failed;
  const fs::path path = fs::weakly_canonical(fs::absolute(name, failed), failed);
  if (failed) return name;
  return path.has_filename() ? path : path.parent_path();  // a name may end with /
}

bool same_file(const std::string& a, const std::string& b) {
  return real_place(a) == real_place(b);
}

/// The metrics file with what decides where it goes (metrics_path).
NamedFile named_metrics_file(const TrainerConfig& trainer, const Findings& findings) {
  const std::string path = metrics_path(trainer.project_name, trainer.experiment_name);
  std::string from;
  if (std::getenv("VERL_FILE_LOGGER_PATH") != nullptr) {
    from = "environment variable VERL_FILE_LOGGER_PATH";
  } else {
    const char* root = std::getenv("VERL_FILE_LOGGER_ROOT");
    if (root != nullptr) from = std::string("environment variable VERL_FILE_LOGGER_ROOT, ");
    from +=
        findings.about("trainer.project_name") + ", " + findings.about("trainer.experiment_name");
  }
  return {"the metrics file " + (path.empty() ? "''" : path) + " (" + from + ")", path};
}

/// What the run writes, if it writes any.
std::vector<NamedFile> written_files(const TrainConfig& config, const Findings& findings) {
  std::vector<NamedFile> written;
  if (contains(config.trainer.logger, "file")) {
    written.push_back(named_metrics_file(config.trainer, findings));
  }
  if (const auto& record = config.actor_rollout_ref.rollout.record_path) {
    written.push_back({findings.about("actor_rollout_ref.rollout.record_path"), *record});
  }
  return written;
}

/// Rows and recordings that the run reads.
std::vector<NamedFile> read_files(const TrainConfig& config, const Findings& findings) {
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  std::vector<NamedFile> files;
  const std::string replay_key = "actor_rollout_ref.rollout.replay_path";
  if (rollout.replay_path) files.push_back({findings.about(replay_key), *rollout.replay_path});
  if (const auto& tools = config.data.tool_config_path) {
    files.push_back({findings.about("data.tool_config_path"), *tools});
  }
  for (const PromptFiles& prompts : prompt_files(config, findings.tree())) {
    for (const auto& file : prompts.files) files.push_back({findings.about(prompts.key), file});
  }
  return files;
}

/// config.json, weights, tokenizer and chat template.
std::vector<NamedFile> model_files(const TrainConfig& config, const Findings& findings) {
  const std::string& folder = config.actor_rollout_ref.model.path;
  const std::string about = findings.about("actor_rollout_ref.model.path");
  std::vector<NamedFile> files;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    const bool ours = name == "config.json" || name == "generation_config.json" ||
                      name.starts_with("tokenizer") || name.starts_with("chat_template") ||
                      name.starts_with("model.safetensors") || name.ends_with(".safetensors");
    if (ours) files.push_back({name + " of " + about, it->path().string()});
  }
  return files;
}

std::vector<NamedFile> cost_files(const TrainConfig& config, const Findings& findings) {
  std::vector<NamedFile> files;
  for (const Role& role : roles(config)) {
    const auto& file = role.megatron->dynamic_cp_cost_model;
    if (file)
      files.push_back(
          {findings.about(role.key + ".dynamic_cp_cost_model"), data::expand_home(*file)});
  }
  return files;
}

std::string why_not_apart(const NamedFile& output, const NamedFile& other) {
  return output.about + " is the same file as " + other.about +
         ": writing it would destroy the other; must be a file of its own";
}

/// What a run writes is none of what it reads, and no two writers share a file. Whether that holds.
bool check_apart(const TrainConfig& config, const std::vector<NamedFile>& written,
                 Findings& findings) {
  std::vector<NamedFile> others = read_files(config, findings);
  bool apart = true;
  for (const NamedFile& output : written) {
    for (const NamedFile& other : others) {
      if (!same_file(output.path, other.path)) continue;
      apart = false;
      findings.add_text(why_not_apart(output, other));
    }
    others.push_back(output);
  }
  return apart;
}

/// What keeps a folder from being made: itself or the one thing above it that is there, when that
/// is no folder. "" when nothing does.
fs::path what_blocks(const fs::path& folder) {
  std::error_code ignored;
  fs::path existing = fs::current_path(ignored) / folder;
  while (!fs::exists(existing, ignored) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  return fs::is_directory(existing, ignored) ? fs::path() : existing.lexically_normal();
}

/// Whether a name leads below `folder`; nothing does below "".
bool lies_below(const fs::path& path, const fs::path& folder) {
  const fs::path inside = path.lexically_normal().lexically_relative(folder.lexically_normal());
  return !folder.empty() && !inside.empty() && *inside.begin() != "..";
}

/// `unmade`, here and below: a folder that cannot be written and has been named; what would lie in
/// it is not tried.
void check_writable_names(const std::vector<NamedFile>& written, const fs::path& unmade,
                          Findings& findings) {
  for (const NamedFile& output : written) {
    std::error_code ignored;
    const fs::path blocking = what_blocks(fs::path(output.path).parent_path());
    if (output.path.find("://") != std::string::npos) {
      findings.add_text(output.about + ": addresses are not written; must be a file here");
    } else if (output.path.empty()) {
      findings.add_text(output.about + ": must not be empty (an unset variable of the shell?)");
    } else if (lies_below(output.path, unmade)) {
      continue;
    } else if (!blocking.empty()) {
      findings.add_text(output.about + ": cannot be made: " + blocking.string() +
                        " is not a folder");
    } else if (fs::exists(output.path, ignored) && !fs::is_regular_file(output.path, ignored)) {
      findings.add_text(output.about + ": " + why_no_file(output.path) +
                        "; must be a file, or not be there yet");
    } else if (const std::string reason = unwritable_file_reason(output.path); !reason.empty()) {
      findings.add_text(output.about + ": cannot be written (" + reason +
                        "); must be a file in a folder that can");
    }
  }
}

/// What is there is not recorded over unless it is a recording itself.
void check_record(const TrainConfig& config, Findings& findings) {
  const auto& path = config.actor_rollout_ref.rollout.record_path;
  std::error_code ignored;
  if (!path || !fs::is_regular_file(*path, ignored)) return;  // other kinds have been named
  if (const std::string why = data::ReplayWriter::why_foreign(*path); !why.empty()) {
    findings.add("actor_rollout_ref.rollout.record_path",
                 why + "; must be a recording, or not be there yet");
  }
}

bool is_dump_name(const fs::path& name) {
  const std::string stem = name.stem().string();
  return name.extension() == ".jsonl" && !stem.empty() &&
         stem.find_first_not_of("0123456789") == std::string::npos;
}

/// Folders for <step>.jsonl: can be written, are two, and hold nothing else of that name that the
/// run reads or writes.
void check_dump_folders(const TrainConfig& config, const std::vector<NamedFile>& written,
                        const fs::path& unmade, Findings& findings) {
  const TrainerConfig& trainer = config.trainer;
  std::vector<NamedFile> others = read_files(config, findings);
  others.insert(others.end(), written.begin(), written.end());
  const auto check = [&](const std::optional<std::string>& folder, const std::string& key) {
    if (!folder) return;
    const bool tried = !folder->empty() && !lies_below(*folder, unmade);
    const std::string reason = tried ? unwritable_reason(*folder) : "";
    findings.require(!folder->empty(), key, "must name a folder, or be null");
    findings.require(reason.empty(), key, "cannot be written (" + reason + "); must be a folder");
    for (const NamedFile& other : others) {
      const fs::path path = other.path;
      if (folder->empty() || !is_dump_name(path.filename())) continue;
      if (!same_file((fs::path(*folder) / path.filename()).string(), other.path)) continue;
      findings.add(key, "a dump would be written over " + other.about +
                            "; must be a folder without such a file");
    }
  };
  check(trainer.rollout_data_dir, kRolloutDataDir);
  check(trainer.validation_data_dir, kValidationDataDir);
  if (trainer.rollout_data_dir && config.actor_rollout_ref.rollout.name == "replay") {
    findings.add(kRolloutDataDir, "rollout.name=replay generates nothing to dump; must be null");
  }
  if (trainer.rollout_data_dir && trainer.validation_data_dir &&
      same_file(*trainer.rollout_data_dir, *trainer.validation_data_dir)) {
    findings.add(kValidationDataDir, "is the same folder as " + findings.about(kRolloutDataDir) +
                                         "; must be another one, for both hold <step>.jsonl");
  }
}

/// Whether what lies in it can be made.
bool check_run_folder(const std::string& folder, Findings& findings) {
  if (folder.empty()) return true;
  const fs::path blocking = what_blocks(folder);
  const std::string reason =
      blocking.empty() ? unwritable_reason(folder) : blocking.string() + " is not a folder";
  if (reason.empty()) return true;
  findings.add_text(
      "the run's folder " + folder + ": cannot be written (" + reason +
      "); hydra.run.dir, or hydra.sweep.dir of a sweep, must name a folder that can be written");
  return false;
}

void check_trainer_names(const TrainerConfig& trainer, const fs::path& unmade, Findings& findings) {
  const auto named = [&](const std::string& value, const std::string& field) {
    findings.require(!value.empty(), "trainer." + field,
                     "must not be empty (an unset variable of the shell?)");
  };
  named(trainer.project_name, "project_name");
  named(trainer.experiment_name, "experiment_name");
  named(trainer.default_local_dir, "default_local_dir");
  findings.require(trainer.default_local_dir.find("://") == std::string::npos,
                   "trainer.default_local_dir", "addresses are not written; must be a folder here");
  if (trainer.save_freq <= 0) return;  // only a stop saves, which a run need not meet
  if (lies_below(trainer.default_local_dir, unmade)) return;
  const fs::path blocking = what_blocks(trainer.default_local_dir);
  if (blocking.empty()) {
    const std::string reason = unwritable_reason(trainer.default_local_dir);
    findings.require(reason.empty(), "trainer.default_local_dir",
                     "cannot be written (" + reason + "); must be a folder for checkpoints");
    return;
  }
  std::error_code ignored;
  const bool itself = fs::exists(trainer.default_local_dir, ignored);
  findings.add("trainer.default_local_dir",
               itself ? "exists but is not a folder; must be a folder for checkpoints"
                      : "cannot be made: " + blocking.string() + " is not a folder");
}

}  // namespace

void place_outputs(TrainConfig& config, const std::string& folder) {
  if (folder.empty()) return;
  config.run_folder = folder;
  const auto place = [&](std::string& path) {
    if (!path.empty()) path = (fs::path(folder) / path).string();  // an absolute one stays
  };
  TrainerConfig& trainer = config.trainer;
  place(trainer.default_local_dir);
  place(trainer.project_name);  // whose one use is the metrics file's folder
  for (auto* path : {&trainer.rollout_data_dir, &trainer.validation_data_dir,
                     &config.actor_rollout_ref.rollout.record_path}) {
    if (*path) place(**path);
  }
}

std::string metrics_file(const TrainConfig& config) {
  const TrainerConfig& trainer = config.trainer;
  if (!contains(trainer.logger, "file")) return "";
  return metrics_path(trainer.project_name, trainer.experiment_name);
}

std::vector<NamedFile> outputs(const TrainConfig& config, const config::Node& tree) {
  const Findings findings(tree);
  std::vector<NamedFile> all = written_files(config, findings);
  const TrainerConfig& trainer = config.trainer;
  all.push_back({findings.about("trainer.default_local_dir"), trainer.default_local_dir});
  for (const auto& [key, folder] : {std::pair{kRolloutDataDir, &trainer.rollout_data_dir},
                                    std::pair{kValidationDataDir, &trainer.validation_data_dir}}) {
    if (*folder) all.push_back({findings.about(key), **folder});
  }
  for (NamedFile& each : all) each.path = real_place(each.path).string();
  return all;
}

void check_outputs(const TrainConfig& config, Findings& findings) {
  const bool run_folder = check_run_folder(config.run_folder, findings);
  const fs::path unmade = run_folder ? "" : config.run_folder;
  check_trainer_names(config.trainer, unmade, findings);
  const std::vector<NamedFile> written = written_files(config, findings);
  check_writable_names(written, unmade, findings);
  check_dump_folders(config, written, unmade, findings);
  if (check_apart(config, written, findings)) check_record(config, findings);
}

void expect_apart(const NamedFile& output, const std::vector<NamedFile>& more,
                  const TrainConfig& config, const config::Node& tree) {
  const Findings findings(tree);
  std::vector<NamedFile> others = more;
  for (const auto& files : {read_files(config, findings), model_files(config, findings),
                            cost_files(config, findings), written_files(config, findings)}) {
    others.insert(others.end(), files.begin(), files.end());
  }
  for (const NamedFile& other : others) {
    if (same_file(output.path, other.path)) throw ConfigError(why_not_apart(output, other));
  }
}

}  // namespace verlcpp::train
