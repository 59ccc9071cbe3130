#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "train/checkpoint_tensors.h"
#include "train/digest.h"
#include "train/resume.h"
#include "train/trainer.h"
#include "train/writable.h"

// The trainer's part that has to do with checkpoints.

namespace verlcpp::train {

namespace fs = std::filesystem;

/// The checkpoint folder becomes this run's. One that does not save takes it only where another
/// run's checkpoints would lie beside its rows; it still saves when it is stopped.
void Trainer::take_over(const std::optional<std::string>& resumed) {
  const std::string& root = checkpoints_.root();
  if (!config_.trainer.saves()) {
    const std::string reason = unwritable_reason(root);
    if (!reason.empty()) {
      log::warning(
          fmt::format("trainer.default_local_dir={} cannot be written ({}): a run that is "
                      "stopped could not be saved",
                      root, reason));
    }
    if (!report_->keeps_rows() || !checkpoints_.leads_elsewhere(resumed)) return;
    lock_.emplace(root, "trainer.default_local_dir=" + root);
  }
  if (config_.trainer.saves()) {
    for (const std::string& name : checkpoints_.remove_leftovers(beat_)) {
      log::warning("removed " + name + ", left behind by an interrupted save");
    }
  }
  const std::string changed = checkpoints_.continue_from(resumed);
  if (!changed.empty()) log::warning(changed);
  // A save that was interrupted after the tracker has not removed what it made too old.
  const auto& most = config_.trainer.max_actor_ckpt_to_keep;
  if (most && previous_) checkpoints_.remove_older(*previous_, *most, beat_);
}

void Trainer::end_stopped() {
  if (done_steps_ == saved_steps_) return;
  if (report_ != nullptr) {
    if (!config_.trainer.saves() && !lock_) take_folder();
    log::info(fmt::format("{}: saving step {}", signal_name(stop_signal_), done_steps_));
  }
  engine_.comm.status.enter("save_checkpoint");
  write_checkpoint();
  publish_checkpoint();
}

/// A run that saves only when it is stopped has not taken its folder before.
void Trainer::take_folder() {
  const std::string& folder = checkpoints_.root();
  try {
    lock_.emplace(folder, fmt::format("{}: step {} cannot be saved: trainer.default_local_dir={}",
                                      signal_name(stop_signal_), done_steps_, folder));
  } catch (const ConfigError& e) {
    throw DeviceError(e.what());  // found too late for anybody to mend it
  }
}

bool Trainer::is_save_step(int64_t step) const {
  const int64_t every = config_.trainer.save_freq;
  return every > 0 && (step == inputs_.total_steps || step % every == 0);
}

CheckpointState Trainer::state() const {
  const DataConfig& d = config_.data;
  return {.step = done_steps_,
          .optimizer_steps = optimizer_.steps(),
          .kl_coef = kl_.value(),
          .previous = previous_,
          .recorded_rows = recorder_ ? std::optional(recorder_->rows()) : std::nullopt,
          .data_order = inputs_.recorded
                            ? "replay"
                            : fmt::format("{} prompts, train_batch_size {}, shuffle {}, seed {}",
                                          inputs_.rows.size(), d.train_batch_size, d.shuffle,
                                          d.seed.value_or(0)),
          .model_digest = model_digest(inputs_.model.json),
          .config_digest = sha256(report_->config_text())};
}

/// All that takes space and time, aside.
void Trainer::write_checkpoint() {
  const auto start = std::chrono::steady_clock::now();
  if (report_ != nullptr) {
    draft_.emplace(checkpoints_, state(),
                   CheckpointManifest{
                       .architecture = inputs_.model.architecture,
                       .world_size = config_.world_size(),
                       .save_contents = config_.actor_rollout_ref.actor.checkpoint.save_contents},
                   beat_);
  }
  engine_.comm.world.barrier();
  write_checkpoint_tensors(engine_, tensors(),
                           config_.actor_rollout_ref.actor.checkpoint.save_contents,
                           checkpoints_.aside_folder(done_steps_));
  if (report_ != nullptr) {
    draft_->add(kConfigFile, report_->config_text());
    draft_->seal();
  }
  engine_.comm.world.barrier();
  save_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// After the metrics of its steps. The others wait, so that no rank is ahead of the disk.
void Trainer::publish_checkpoint() {
  if (report_ != nullptr) {
    report_->sync();
    if (recorder_) recorder_->sync();
    const std::string saved = draft_->publish(config_.trainer.max_actor_ckpt_to_keep);
    draft_.reset();
    const bool exported = names_weights(config_.actor_rollout_ref.actor.checkpoint.save_contents);
    report_->checkpoint_saved(saved, exported ? (fs::path(saved) / kModelFolder).string() : "");
  }
  saved_steps_ = done_steps_;
  previous_ = done_steps_;
  engine_.comm.world.barrier();
}

RunTensors Trainer::tensors() {
  return {.model = inputs_.model,
          .source = {inputs_.model_folder, config_.actor_rollout_ref.model.custom_chat_template},
          .weights = weights_,
          .optimizer = optimizer_};
}

/// Rank 0 looks and checks, the others hear of it.
std::optional<std::string> Trainer::resume() {
  engine_.comm.status.enter("resume");
  const auto beat = [this] { start_beat(); };
  std::string mine;
  if (report_ != nullptr) {
    if (config_.trainer.saves()) {  // the folder is locked
      for (const int64_t step : checkpoints_.restore_replaced()) {
        log::warning(fmt::format("{}: the save that was to replace it was interrupted",
                                 checkpoints_.final_folder(step)));
      }
    }
    mine = find_checkpoint(config_, state(), report_->config_text(), beat).value_or("");
  }
  const auto all = engine_.comm.world.all_gather_bytes(std::as_bytes(std::span(mine)));
  const std::string folder{reinterpret_cast<const char*>(all[0].data()), all[0].size()};
  if (folder.empty()) return {};
  const CheckpointState saved = read_state(folder);
  const auto& contents = config_.actor_rollout_ref.actor.checkpoint.load_contents;
  load_checkpoint_tensors(engine_, tensors(), contents, folder, beat);
  if (names_optimizer(contents)) optimizer_.set_steps(saved.optimizer_steps);
  kl_.set_value(saved.kl_coef);
  done_steps_ = saved_steps_ = saved.step;
  recorded_rows_ = saved.recorded_rows;
  // resume_path begins a run of its own: retention leaves alone what the path may need again.
  if (config_.trainer.resume_mode == "auto") previous_ = saved.step;
  if (report_ != nullptr) {
    log::info(fmt::format("Resuming from {} (step {})", folder, saved.step));
  }
  return folder;
}

}  // namespace verlcpp::train
