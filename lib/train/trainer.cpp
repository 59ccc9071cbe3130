#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "model/weights_io.h"
#include "train/config_changes.h"

namespace verlcpp::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* kOptimizerFile = "actor/optimizer/dist_ckpt/optimizer.safetensors";
constexpr const char* kConfigFile = "config.yaml";
constexpr const char* kModelFolder = "actor/model/huggingface";

bool contains(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Weights of the model folder. A folder without any starts from random ones; validate() has
/// checked that random_init allows it.
void load_initial_weights(Backend& backend, const TrainConfig& config, const Inputs& inputs,
                          const model::ParameterBuffer& weights, bool say) {
  if (model::has_weights(inputs.model_folder)) {
    model::load_hf_weights(backend, inputs.model_folder, weights);
    return;
  }
  const int64_t seed = config.actor_rollout_ref.actor.megatron.seed;
  model::initialize(backend, weights, static_cast<uint64_t>(seed));
  if (say) {
    log::warning(fmt::format("{} has no weights: starting from random ones, seed {}",
                             inputs.model_folder, seed));
  }
}

}  // namespace

Trainer::Trainer(const Engine& engine, const TrainConfig& config, const Inputs& inputs,
                 Report* report, const std::atomic<bool>& stop)
    : engine_(engine),
      config_(config),
      inputs_(inputs),
      report_(report),
      stop_(stop),
      dtype_(dtype_named(config.actor_rollout_ref.actor.megatron.dtype).value()),
      layout_(inputs.model, engine.topology.sizes().pool()),
      weights_(engine.backend, layout_, dtype_, MemoryTag::kWeights),
      grad_(engine.backend, layout_, dtype_, MemoryTag::kMainGrad),
      optimizer_(engine.backend, layout_, dtype_,
                 optimizer_options(config.actor_rollout_ref.actor.optim)),
      lr_(lr_schedule(config.actor_rollout_ref.actor.optim, inputs.total_steps)),
      kl_(config.algorithm.kl_ctrl.type, config.algorithm.kl_ctrl.kl_coef,
          config.algorithm.kl_ctrl.target_kl, config.algorithm.kl_ctrl.horizon) {
  load_initial_weights(engine.backend, config, inputs, weights_, report != nullptr);
  if (config.uses_reference()) {
    reference_ = std::make_unique<model::ParameterBuffer>(engine.backend, layout_, dtype_,
                                                          MemoryTag::kWeights);
    engine.backend.copy(reference_->flat(), weights_.flat());
  }
  resume();
  const auto& record_path = config.actor_rollout_ref.rollout.record_path;
  if (report == nullptr || !record_path) return;
  int64_t kept = done_steps_ * config.data.train_batch_size * config.actor_rollout_ref.rollout.n;
  if (kept > 0 && !fs::exists(*record_path)) {
    log::warning(fmt::format("{} begins with step {}", *record_path, done_steps_ + 1));
    kept = 0;
  }
  recorder_.emplace(*record_path, kept);
}

bool Trainer::run() {
  if (report_ != nullptr) {
    report_->phase("ranks and weights");
    report_->begin(done_steps_, inputs_.total_steps);
  }
  while (done_steps_ < inputs_.total_steps) {
    train_step(done_steps_);
    if (done_steps_ == inputs_.total_steps || !stop_agreed()) continue;
    if (!is_save_step(done_steps_)) save();
    return false;
  }
  return true;
}

bool Trainer::stop_agreed() const {
  const double seen[] = {stop_.load() ? 1.0 : 0.0};
  return engine_.sum_over_pool(seen)[0] > 0;
}

void Trainer::train_step(int64_t step) {
  PhaseTimer timer;
  std::optional<StepExperience> experience;
  std::vector<MiniBatchResult> updates;
  ScheduleStats schedule;
  const double lr = lr_.at(step);
  timer.time("step", [&] {
    std::vector<data::Trajectory> batch;
    timer.time("gen", [&] { batch = rollout_batch(engine_, weights_, config_, inputs_, step); });
    timer.time("reward", [&] { score_batch(config_, inputs_, step, batch); });
    if (recorder_) recorder_->write_step(batch);
    experience.emplace(make_experience(engine_, weights_, reference_.get(), config_,
                                       std::move(batch), kl_, timer));
    timer.time("update_actor", [&] {
      const Planner planner = make_planner(batching_rule(config_, Pass::kActorUpdate));
      updates = update_pass(engine_, {weights_, grad_, optimizer_}, experience->experience,
                            update_options(config_), planner, step, lr, schedule);
    });
    done_steps_ = step + 1;
    if (is_save_step(done_steps_)) timer.time("save_checkpoint", [&] { save(); });
  });
  if (report_ == nullptr) return;
  report_->step({.step = done_steps_,
                 .epoch = step / inputs_.steps_per_epoch,
                 .experience = *experience,
                 .updates = updates,
                 .schedule = schedule,
                 .lr = lr,
                 .peak_bytes = engine_.backend.peak_bytes(),
                 .timer = timer});
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
          .data_order = inputs_.recorded
                            ? "replay"
                            : fmt::format("{} prompts, train_batch_size {}, shuffle {}, seed {}",
                                          inputs_.rows.size(), d.train_batch_size, d.shuffle,
                                          d.seed.value_or(0)),
          .model_digest = sha256(inputs_.model.json),
          .config_digest = sha256(report_->config_text())};
}

// Every rank holds the whole state, so rank 0 writes it alone; the others wait until it is on disk.
void Trainer::save() {
  if (report_ != nullptr) {
    const CheckpointFolder folder(config_.trainer.default_local_dir);
    const auto& contents = config_.actor_rollout_ref.actor.checkpoint.save_contents;
    const bool exports = contains(contents, "model") || contains(contents, "hf_model");
    const std::string saved =
        folder.save(state(),
                    {.architecture = inputs_.model.architecture,
                     .world_size = config_.world_size(),
                     .save_contents = contents},
                    config_.trainer.max_actor_ckpt_to_keep, [&](const std::string& aside) {
                      if (exports) {
                        model::export_hf_folder(engine_.backend, inputs_.model_folder,
                                                (fs::path(aside) / kModelFolder).string(),
                                                inputs_.model, weights_, dtype_);
                      }
                      if (contains(contents, "optimizer")) write_optimizer(aside);
                      std::ofstream(fs::path(aside) / kConfigFile) << report_->config_text();
                    });
    report_->checkpoint_saved(saved, exports ? (fs::path(saved) / kModelFolder).string() : "");
  }
  engine_.comm.world.barrier();
}

void Trainer::write_optimizer(const std::string& folder) const {
  const fs::path file = fs::path(folder) / kOptimizerFile;
  fs::create_directories(file.parent_path());
  std::vector<model::TensorToWrite> tensors;
  for (const auto& [buffer, suffix] :
       {std::pair{&weights_, ".master"}, std::pair{&optimizer_.exp_avg(), ".exp_avg"},
        std::pair{&optimizer_.exp_avg_sq(), ".exp_avg_sq"}}) {
    auto more = model::hf_tensors(engine_.backend, *buffer, dtype_, suffix);
    std::move(more.begin(), more.end(), std::back_inserter(tensors));
  }
  model::write_safetensors(file.string(), tensors);
}

std::string Trainer::find_checkpoint() const {
  std::string mine;
  if (report_ != nullptr) {
    const CheckpointFolder root(config_.trainer.default_local_dir);
    if (config_.trainer.save_freq > 0) root.check_writable();
    for (const std::string& name : root.remove_leftovers()) {
      log::warning("removed " + name + ", left behind by an interrupted save");
    }
    mine = root.find(config_.trainer.resume_mode, config_.trainer.resume_from_path).value_or("");
    if (!mine.empty()) check_resumable(mine, read_checkpoint(mine));
  }
  const auto all = engine_.comm.world.all_gather_bytes(std::as_bytes(std::span(mine)));
  return {reinterpret_cast<const char*>(all[0].data()), all[0].size()};
}

void Trainer::check_resumable(const std::string& folder, const CheckpointState& state) const {
  if (state.model_digest != this->state().model_digest) {
    throw ConfigError(fmt::format(
        "trainer.resume_mode={}: {} was written for another model than "
        "actor_rollout_ref.model.path={} (config.json differs); set trainer.experiment_name or "
        "trainer.default_local_dir to a folder of this run's own, or trainer.resume_mode=disable",
        config_.trainer.resume_mode, folder, inputs_.model_folder));
  }
  const auto& contents = config_.actor_rollout_ref.actor.checkpoint.load_contents;
  for (const auto& [name, file] :
       {std::pair{"optimizer", kOptimizerFile}, {"model", kModelFolder}}) {
    if (!contains(contents, name) || fs::exists(fs::path(folder) / file)) continue;
    throw ConfigError(
        fmt::format("actor_rollout_ref.actor.checkpoint.load_contents names {}, which {} does not "
                    "hold; leave it "
                    "out of load_contents to continue without",
                    name, folder));
  }
  if (state.data_order != this->state().data_order) {
    log::warning(
        fmt::format("{} stopped in another order of samples ({}; now {}): the next samples "
                    "are not the ones it would have taken",
                    folder, state.data_order, this->state().data_order));
  }
  const std::string changes =
      changed_keys((fs::path(folder) / kConfigFile).string(), report_->config_text());
  if (!changes.empty()) log::info("changed since that checkpoint: " + changes);
}

void Trainer::load_tensors(const std::string& folder, const CheckpointState& state) {
  const auto& contents = config_.actor_rollout_ref.actor.checkpoint.load_contents;
  if (contains(contents, "optimizer")) {
    const model::SafetensorsReader reader((fs::path(folder) / kOptimizerFile).string());
    model::load_hf_tensors(engine_.backend, reader, ".master", weights_);
    model::load_hf_tensors(engine_.backend, reader, ".exp_avg", optimizer_.exp_avg());
    model::load_hf_tensors(engine_.backend, reader, ".exp_avg_sq", optimizer_.exp_avg_sq());
    optimizer_.set_steps(state.optimizer_steps);
  } else if (contains(contents, "model")) {
    model::load_hf_weights(engine_.backend, (fs::path(folder) / kModelFolder).string(), weights_);
  }
}

void Trainer::resume() {
  const std::string folder = find_checkpoint();
  if (folder.empty()) return;
  const CheckpointState state = read_state(folder);
  load_tensors(folder, state);
  kl_.set_value(state.kl_coef);
  done_steps_ = state.step;
  if (report_ != nullptr) {
    log::info(fmt::format("Resuming from {} (step {})", folder, state.step));
  }
}

}  // namespace verlcpp::train
