#include "train/trainer.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "train/generation_dump.h"
#include "train/initial_weights.h"
#include "train/resume.h"
#include "train/warm_up.h"

namespace verlcpp::train {

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
  check_files();
  std::optional<Metrics> validation;
  if (begins_with_validation(resumed.has_value())) {
    validation = validate_weights();
    if (!validation) return false;
  }
  begin(resumed);
  if (validation && report_ != nullptr) report_->first_validation(done_steps_, *validation);
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

void Trainer::check_files() const {
  if (report_ == nullptr) return;
  report_->check_files();
  if (config_.trainer.val_before_train && inputs_.validation.rows.empty() && !inputs_.recorded) {
    log::warning(
        "trainer.val_before_train=True: no validation before training, for data.val_files is not "
        "set");
  }
}

/// As the run asks for, or because an earlier part of this run ended between a step's row and its
/// validation. All ranks call it.
bool Trainer::begins_with_validation(bool resumed) const {
  if (validation_.before_training()) return true;
  if (!resumed || !validation_.after(done_steps_, inputs_.total_steps)) return false;
  const bool lacks = report_ != nullptr && report_->lacks_validation(done_steps_);
  const std::string mine = lacks ? "lacks" : "";
  return !engine_.comm.world.all_gather_bytes(std::as_bytes(std::span(mine)))[0].empty();
}

/// From here on files change: the tracker before rows are cut, so that a kill in between leaves no
/// checkpoint of one run beside rows of another.
void Trainer::begin(const std::optional<std::string>& resumed) {
  if (report_ == nullptr || config_.trainer.val_only) return;
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

/// False: the ranks agreed to stop, and nothing of this step remains, or all of it but its
/// validation.
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
  // What fails from here on costs nothing of a finished step.
  const std::exception_ptr failed = dump_rollout(step, experience->experience.batch, timer);
  if (report_ != nullptr) {
    report_->step({.step = done_steps_,
                   .epoch = step / inputs_.steps_per_epoch,
                   .experience = *experience,
                   .updates = updates,
                   .schedule = schedule,
                   .lr = lr,
                   .peak_bytes = engine_.backend.peak_bytes().total,
                   .reserved_bytes = engine_.backend.reserved_bytes(),
                   .timer = timer});
  }
  if (is_save_step(done_steps_)) publish_checkpoint();
  if (failed) std::rethrow_exception(failed);
  const bool whole = end_step(timer);
  if (notice_) notice_->set("");  // the next stop point is near
  return whole;
}

/// The step's validation, where it has one, and its line. False: the validation was dropped.
bool Trainer::end_step(PhaseTimer& timer) {
  const bool validates = validation_.after(done_steps_, inputs_.total_steps);
  std::optional<Metrics> found;
  try {
    if (validates) timer.time("testing", [&] { found = validate_weights(); });
  } catch (...) {
    if (report_ != nullptr) report_->end_step({});
    throw;
  }
  if (found) found->set("timing_s/testing", timer.seconds().at("testing"));
  if (report_ != nullptr) report_->end_step(found);
  return found || !validates;
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

/// What kept it from being written, if anything.
std::exception_ptr Trainer::dump_rollout(int64_t step, std::span<const data::Trajectory> batch,
                                         PhaseTimer& timer) const {
  const auto& folder = config_.trainer.rollout_data_dir;
  if (report_ == nullptr || !folder) return {};
  try {
    timer.time("dump_rollout_generations", [&] {
      dump_generations(kRolloutDataDir, *folder, step + 1, *inputs_.tokenizer,
                       training_rollout(config_, inputs_, step), batch);
    });
  } catch (...) {
    return std::current_exception();
  }
  return {};
}

/// What comes before the update: nothing of it lasts, so it is dropped when the ranks stop.
std::optional<StepExperience> Trainer::collect(int64_t step, PhaseTimer& timer) {
  std::optional<std::vector<data::Trajectory>> batch;
  std::optional<StepExperience> experience;
  std::optional<ProgramStats> program;
  timer.time("gen", [&] { batch = rollout_batch(engine_, weights_, config_, inputs_, step); });
  if (batch && !engine_.comm.world_stop.here()) {
    timer.time("reward", [&] { program = score_batch(engine_, config_, inputs_, step, *batch); });
  }
  if (program) {
    if (!warm_) warm_up_attention(engine_, config_, *batch, step, report_ != nullptr);
    warm_ = true;
    experience = make_experience(engine_, weights_, reference_.get(), config_, std::move(*batch),
                                 kl_, timer);
    if (experience && config_.reward.custom_reward_function.path) experience->program = program;
  }
  if (!experience && report_ != nullptr) {
    const std::string phase = engine_.comm.status.snapshot().phase;
    const std::string what = phase == "gen"      ? "rollout"
                             : phase == "reward" ? "rewards"
                                                 : "log-probs";
    log::info(
        fmt::format("{}: dropping the {} of step {}", signal_name(stop_signal_), what, step + 1));
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

}  // namespace verlcpp::train
