#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "train/checkpoint_tensors.h"
#include "train/digest.h"
#include "train/generation_dump.h"
#include "train/initial_weights.h"
#include "train/resume.h"
#include "train/warm_up.h"

namespace verlcpp::train {

namespace fs = std::filesystem;

Trainer::Trainer(const Engine& engine, const TrainConfig& config, const Inputs& inputs,
                 Report* report, const std::atomic<int>& stop_signal)
    : engine_(engine),
      config_(config),
      inputs_(inputs),
      report_(report),
      stop_signal_(stop_signal),
      beat_([&engine] { engine.comm.status.beat(); }),
      checkpoints_(config.trainer.default_local_dir),
      dtype_(dtype_named(config.actor_rollout_ref.actor.megatron.dtype).value()),
      layout_(inputs.model, engine.topology.sizes().pool(), engine.transformer.tp_place()),
      weights_(engine.backend, layout_, dtype_, MemoryTag::kWeights),
      grad_(engine.backend, layout_, model::statistics_dtype(dtype_), MemoryTag::kMainGrad),
      optimizer_(engine, layout_, dtype_, optimizer_options(config.actor_rollout_ref.actor)),
      lr_(lr_schedule(config.actor_rollout_ref.actor.optim, inputs.total_steps)),
      kl_(config.algorithm.kl_ctrl.type, config.algorithm.kl_ctrl.kl_coef,
          config.algorithm.kl_ctrl.target_kl, config.algorithm.kl_ctrl.horizon),
      validation_(engine, config, inputs, report != nullptr) {
  const std::string warning =
      load_initial_weights(engine.backend, config, inputs, weights_, [this] { start_beat(); });
  if (report != nullptr && !warning.empty()) log::warning(warning);
  if (report != nullptr) report->phase("weights");
  optimizer_.take_master(weights_);
  if (config.uses_reference()) {
    reference_ = std::make_unique<model::ParameterBuffer>(engine.backend, layout_, dtype_,
                                                          MemoryTag::kWeights);
    engine.backend.copy(reference_->flat(), weights_.flat());
  }
  engine.backend.synchronize();
  if (report != nullptr) report->phase("optimizer");
}

bool Trainer::run() {
  const std::optional<std::string> resumed = resume();
  if (engine_.comm.world_stop.here()) throw StoppedAtStart();
  if (report_ != nullptr) report_->phase("resume");
  begin(resumed);
  if (validation_.before_training()) {
    const std::optional<Metrics> found = validate_weights();
    if (!found) return false;
    if (report_ != nullptr) report_->first_validation(done_steps_, *found);
  }
  if (config_.trainer.val_only) return true;
  if (report_ != nullptr) report_->training_starts();
  while (done_steps_ < inputs_.total_steps) {
    if (train_step(done_steps_)) continue;
    end_stopped();
    return false;
  }
  return true;
}

/// A sign of life during the start, where a stop needs no agreement.
void Trainer::start_beat() const {
  beat_();
  if (stop_signal_ != 0) throw StoppedAtStart();
}

/// From here on files change; the checks come first, and the tracker before rows are cut, so that a
/// kill in between leaves no checkpoint of one run beside rows of another.
void Trainer::begin(const std::optional<std::string>& resumed) {
  if (report_ == nullptr) return;
  report_->check_files();
  if (config_.trainer.val_before_train && inputs_.validation.rows.empty()) {
    log::warning(
        "trainer.val_before_train=True: no validation before training, for data.val_files is not "
        "set");
  }
  if (config_.trainer.val_only) return;
  const RolloutConfig& rollout = config_.actor_rollout_ref.rollout;
  int64_t kept = 0;
  if (rollout.record_path) {
    kept = kept_rows(*rollout.record_path, recorded_rows_, done_steps_,
                     config_.data.train_batch_size * rollout.n);
  }
  take_over(resumed);
  if (rollout.record_path) recorder_.emplace(*rollout.record_path, kept);
  report_->begin(done_steps_, inputs_.total_steps);
  notice_.emplace(stop_signal_);
}

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

/// False: the ranks agreed to stop, and nothing of this step remains.
bool Trainer::train_step(int64_t step) {
  if (engine_.comm.world_stop.here()) return false;
  PhaseTimer timer(engine_.comm.status);
  std::optional<StepExperience> experience;
  std::vector<MiniBatchResult> updates;
  ScheduleStats schedule;
  const double lr = lr_.at(step);
  timer.time("step", [&] {
    experience = collect(step, timer);
    if (!experience) return;
    announce("update", done_steps_ + 1);
    if (recorder_) recorder_->write_step(experience->experience.batch);
    timer.time("update_actor", [&] {
      const Planner planner = make_planner(batching_rule(config_, Pass::kActorUpdate));
      updates = update_pass(engine_, {weights_, grad_, optimizer_}, experience->experience,
                            update_options(config_), planner, step, lr, schedule);
    });
    done_steps_ = step + 1;
    if (!is_save_step(done_steps_)) return;
    announce("save", done_steps_);
    timer.time("save_checkpoint", [&] { write_checkpoint(); });
  });
  if (!experience) return false;
  update_seconds_ = timer.seconds().at("update_actor");
  std::optional<Metrics> validation;
  if (validation_.after(done_steps_, inputs_.total_steps)) {
    timer.time("testing", [&] { validation = validate_weights(); });
  }
  if (report_ != nullptr && config_.trainer.rollout_data_dir) {
    timer.time("dump_rollout_generations", [&] {
      dump_generations(kRolloutDataDir, *config_.trainer.rollout_data_dir, done_steps_,
                       *inputs_.tokenizer, training_rollout(config_, inputs_, step),
                       experience->experience.batch);
    });
  }
  if (report_ != nullptr) {
    report_->step({.step = done_steps_,
                   .epoch = step / inputs_.steps_per_epoch,
                   .experience = *experience,
                   .updates = updates,
                   .schedule = schedule,
                   .lr = lr,
                   .peak_bytes = engine_.backend.peak_bytes().total,
                   .reserved_bytes = engine_.backend.reserved_bytes(),
                   .timer = timer,
                   .validation = validation});
  }
  if (is_save_step(done_steps_)) publish_checkpoint();
  if (notice_) notice_->set("");  // the next stop point is near
  return true;
}

/// Nothing when the ranks agreed to stop: what has been trained stays as it is.
std::optional<Metrics> Trainer::validate_weights() {
  engine_.comm.status.enter("testing");
  if (notice_) notice_->set("");
  std::optional<Metrics> metrics = validation_.run(weights_, done_steps_);
  if (!metrics && report_ != nullptr) {
    log::info(fmt::format("{}: dropping the validation after step {}", signal_name(stop_signal_),
                          done_steps_));
  }
  return metrics;
}

/// What comes before the update: nothing of it lasts, so it is dropped when the ranks stop.
std::optional<StepExperience> Trainer::collect(int64_t step, PhaseTimer& timer) {
  std::optional<std::vector<data::Trajectory>> batch;
  std::optional<StepExperience> experience;
  ProgramStats program;
  timer.time("gen", [&] { batch = rollout_batch(engine_, weights_, config_, inputs_, step); });
  if (batch && !engine_.comm.world_stop.here()) {
    timer.time("reward", [&] { program = score_batch(engine_, config_, inputs_, step, *batch); });
    if (!warm_) warm_up_attention(engine_, config_, *batch, step, report_ != nullptr);
    warm_ = true;
    experience = make_experience(engine_, weights_, reference_.get(), config_, std::move(*batch),
                                 kl_, timer);
    if (experience && config_.reward.custom_reward_function.path) experience->program = program;
  }
  if (!experience && report_ != nullptr) {
    const std::string phase = engine_.comm.status.snapshot().phase;
    log::info(fmt::format("{}: dropping the {} of step {}", signal_name(stop_signal_),
                          phase == "gen" ? "rollout" : "log-probs", step + 1));
  }
  return experience;
}

/// What a stop signal means while `work` (update, save) is under way, with the grace it needs as
/// far as it is known.
void Trainer::announce(const std::string& work, int64_t step) {
  if (!notice_) return;
  std::string message = fmt::format("finishing the {} of step {}", work, step);
  if (work == "update") message += ", then saving";
  if (update_seconds_ > 0)
    message += fmt::format("; the last update took {:.2f} s", update_seconds_);
  if (save_seconds_ > 0) message += fmt::format("; the last save took {:.2f} s", save_seconds_);
  notice_->set(message);
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
