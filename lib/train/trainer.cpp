#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "model/weights_io.h"
#include "train/checkpoint.h"

namespace verlcpp::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* kOptimizerFile = "actor/optimizer/dist_ckpt/optimizer.safetensors";
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
    log::info(fmt::format("{} has no weights: starting from random ones, seed {}",
                          inputs.model_folder, seed));
  }
}

}  // namespace

Trainer::Trainer(const Engine& engine, const TrainConfig& config, const Inputs& inputs,
                 Report* report)
    : engine_(engine),
      config_(config),
      inputs_(inputs),
      report_(report),
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
  if (report != nullptr && record_path) {
    recorder_.emplace(*record_path, done_steps_ * config.data.train_batch_size *
                                        config.actor_rollout_ref.rollout.n);
  }
}

void Trainer::run() {
  if (report_ != nullptr) {
    report_->phase("ranks and weights");
    report_->begin(done_steps_, inputs_.total_steps);
  }
  while (done_steps_ < inputs_.total_steps) train_step(done_steps_);
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

// Every rank holds the whole state, so rank 0 writes it alone; the others wait until it is on disk.
void Trainer::save() {
  if (report_ != nullptr) {
    const CheckpointFolder folder(config_.trainer.default_local_dir);
    const auto& contents = config_.actor_rollout_ref.actor.checkpoint.save_contents;
    const std::string saved =
        folder.save({.step = done_steps_,
                     .optimizer_steps = optimizer_.steps(),
                     .kl_coef = kl_.value(),
                     .config_digest = sha256(report_->config_text())},
                    {.architecture = inputs_.model.architecture,
                     .world_size = config_.world_size(),
                     .save_contents = contents},
                    config_.trainer.max_actor_ckpt_to_keep, [&](const std::string& aside) {
                      if (contains(contents, "model") || contains(contents, "hf_model")) {
                        model::export_hf_folder(engine_.backend, inputs_.model_folder,
                                                (fs::path(aside) / kModelFolder).string(),
                                                inputs_.model, weights_, dtype_);
                      }
                      if (contains(contents, "optimizer")) write_optimizer(aside);
                    });
    report_->checkpoint_saved(saved, (fs::path(saved) / kModelFolder).string());
  }
  engine_.comm.grad.barrier();
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

void Trainer::resume() {
  const CheckpointFolder root(config_.trainer.default_local_dir);
  if (report_ != nullptr) {
    for (const std::string& name : root.remove_leftovers()) {
      log::warning("removed " + name + ", left behind by an interrupted save");
    }
  }
  engine_.comm.grad.barrier();
  const auto folder = root.find(config_.trainer.resume_mode, config_.trainer.resume_from_path);
  if (!folder) return;
  const CheckpointState state = read_checkpoint(*folder);
  const auto& contents = config_.actor_rollout_ref.actor.checkpoint.load_contents;
  const fs::path optimizer = fs::path(*folder) / kOptimizerFile;
  if (contains(contents, "optimizer") && fs::exists(optimizer)) {
    const model::SafetensorsReader reader(optimizer.string());
    model::load_hf_tensors(engine_.backend, reader, ".master", weights_);
    model::load_hf_tensors(engine_.backend, reader, ".exp_avg", optimizer_.exp_avg());
    model::load_hf_tensors(engine_.backend, reader, ".exp_avg_sq", optimizer_.exp_avg_sq());
    optimizer_.set_steps(state.optimizer_steps);
  } else if (contains(contents, "model")) {
    model::load_hf_weights(engine_.backend, (fs::path(*folder) / kModelFolder).string(), weights_);
  }
  kl_.set_value(state.kl_coef);
  done_steps_ = state.step;
  if (report_ != nullptr) {
    log::info(fmt::format("Resuming from {} (step {})", *folder, state.step));
    if (state.config_digest != sha256(report_->config_text())) {
      log::info("the configuration is not the one that wrote this checkpoint");
    }
  }
}

}  // namespace verlcpp::train
