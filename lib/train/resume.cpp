#include "train/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "data/replay.h"
#include "train/checkpoint_tensors.h"
#include "train/config_changes.h"

namespace verlcpp::train {

namespace fs = std::filesystem;

namespace {

void check_resumable(const TrainConfig& config, const std::string& folder,
                     const CheckpointState& saved, const CheckpointState& now) {
  if (saved.model_digest != now.model_digest) {
    throw ConfigError(fmt::format(
        "trainer.resume_mode={}: {} was written for another model than "
        "actor_rollout_ref.model.path={} (config.json differs); set "
        "trainer.default_local_dir to a folder of this run's own and trainer.experiment_name to a "
        "new name, which keeps the other run's metrics, or trainer.resume_mode=disable",
        config.trainer.resume_mode, folder, config.actor_rollout_ref.model.path));
  }
  const auto& contents = config.actor_rollout_ref.actor.checkpoint.load_contents;
  if (!names_weights(contents) && !names_optimizer(contents)) {
    throw ConfigError(fmt::format(
        "actor_rollout_ref.actor.checkpoint.load_contents=[{}] names neither model nor optimizer, "
        "so nothing of {} would be loaded; add one, or set trainer.resume_mode=disable",
        fmt::join(contents, ", "), folder));
  }
  for (const std::string& name : contents) {
    const char* file = name == "optimizer" ? kOptimizerFile : kModelFolder;
    if (name == "extra" || fs::exists(fs::path(folder) / file)) continue;
    throw ConfigError(
        fmt::format("actor_rollout_ref.actor.checkpoint.load_contents names {}, which {} does not "
                    "hold; leave it out of load_contents to continue without",
                    name, folder));
  }
  if (!names_optimizer(contents)) {
    log::warning(fmt::format(
        "{}: only the weights are loaded (actor_rollout_ref.actor.checkpoint.load_contents=[{}]): "
        "AdamW's moments and its count of steps begin at zero",
        folder, fmt::join(contents, ", ")));
  }
  if (saved.data_order == now.data_order) return;
  log::warning(
      fmt::format("{} stopped in another order of samples ({}; now {}): the next samples "
                  "are not the ones it would have taken",
                  folder, saved.data_order, now.data_order));
}

}  // namespace

std::optional<std::string> find_checkpoint(const TrainConfig& config, const CheckpointState& now,
                                           const std::string& config_text,
                                           const std::function<void()>& beat) {
  const CheckpointFolder root(config.trainer.default_local_dir);
  const auto folder = root.find(config.trainer.resume_mode, config.trainer.resume_from_path);
  if (!folder) return {};
  check_resumable(config, *folder, read_checkpoint(*folder, beat), now);
  const std::string changes = changed_keys((fs::path(*folder) / kConfigFile).string(), config_text);
  if (!changes.empty()) log::info("changed since that checkpoint: " + changes);
  return folder;
}

int64_t kept_rows(const std::string& path, const std::optional<int64_t>& recorded,
                  int64_t done_steps, int64_t rows_per_step) {
  std::error_code failed;
  const bool empty = !fs::exists(path) || (fs::file_size(path, failed) == 0 && !failed);
  if (empty) {
    if (done_steps > 0) log::warning(fmt::format("{} begins with step {}", path, done_steps + 1));
    return 0;
  }
  if (done_steps == 0) {
    log::warning(path + ": an earlier recording is overwritten, for this run starts from scratch");
    return 0;
  }
  if (!recorded) {
    throw DataError(fmt::format(
        "actor_rollout_ref.rollout.record_path: {} holds recorded rows, but the checkpoint of step "
        "{} was saved by a run that recorded none; set it to a file of its own, or remove the file",
        path, done_steps));
  }
  data::ReplayWriter::check(path, *recorded);
  if (*recorded % rows_per_step != 0) {
    log::warning(fmt::format(
        "{}: its first {} rows are no whole number of steps of data.train_batch_size x "
        "actor_rollout_ref.rollout.n = {} rows: a replay of the file will not match this run",
        path, *recorded, rows_per_step));
  }
  return *recorded;
}

}  // namespace verlcpp::train
