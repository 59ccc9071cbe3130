#include "train/compare_dcp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "train/compare_predict.h"
#include "train/initial_weights.h"
#include "train/optimizer.h"
#include "train/pipeline.h"
#include "train/recompute.h"
#include "train/update_pass.h"

namespace verlcpp::train {
namespace {

constexpr const char* kNoStop = "nobody stops the ranks of a comparison";

/// The actor of one rank, which can go back to where it began.
class ActorSnapshot {
 public:
  ActorSnapshot(const Engine& engine, const TrainConfig& config, const Inputs& inputs)
      : backend_(engine.backend),
        dtype_(dtype_named(config.actor_rollout_ref.actor.megatron.dtype).value()),
        layout_(inputs.model, engine.topology.sizes().pool(), engine.transformer.tp_place()),
        weights_(backend_, layout_, dtype_, MemoryTag::kWeights),
        grad_(backend_, layout_, model::statistics_dtype(dtype_), MemoryTag::kMainGrad),
        optimizer_(engine, layout_, dtype_, optimizer_options(config.actor_rollout_ref.actor)) {
    engine.comm.status.enter("weights");
    const std::string warning = load_initial_weights(backend_, config, inputs, weights_,
                                                     [&] { engine.comm.status.beat(); });
    if (engine.topology.rank() == 0 && !warning.empty()) log::warning(warning);
    optimizer_.take_master(weights_);
    if (config.uses_reference()) {
      reference_ =
          std::make_unique<model::ParameterBuffer>(backend_, layout_, dtype_, MemoryTag::kWeights);
      backend_.copy(reference_->flat(), weights_.flat());
    }
    for (const Tensor& live : state()) {
      saved_.push_back(backend_.allocate(live.dtype(), live.shape(), MemoryTag::kWorkspace));
      backend_.copy(saved_.back(), live);
    }
    steps_ = optimizer_.steps();
  }

  void restore() {
    const std::vector<Tensor> live = state();
    for (size_t i = 0; i < live.size(); ++i) backend_.copy(live[i], saved_[i]);
    optimizer_.set_steps(steps_);
  }

  const model::ParameterBuffer& weights() const { return weights_; }
  const model::ParameterBuffer* reference() const { return reference_.get(); }
  ActorState actor() { return {weights_, grad_, optimizer_}; }
  int64_t copy_bytes() const {
    int64_t sum = 0;
    for (const Tensor& copy : saved_) sum += copy.bytes();
    return sum;
  }

 private:
  /// All that a step changes and the next one reads.
  std::vector<Tensor> state() const {
    return {weights_.flat(), optimizer_.master(weights_).flat(), optimizer_.exp_avg().flat(),
            optimizer_.exp_avg_sq().flat()};
  }

  Backend& backend_;
  DType dtype_;
  model::ParameterLayout layout_;
  model::ParameterBuffer weights_, grad_;
  std::unique_ptr<model::ParameterBuffer> reference_;
  Optimizer optimizer_;
  std::vector<Tensor> saved_;
  int64_t steps_ = 0;
};

/// What one step of an arm did on this rank.
struct StepRecord {
  std::map<std::string, ScheduleStats> passes;
  std::vector<double> work;  // predicted, of every pool rank
  std::vector<double> losses, grad_norms;
};

class Comparer {
 public:
  Comparer(const Engine& engine, BusyMeter& meter, std::span<const CompareArm> arms,
           const Inputs& inputs)
      : engine_(engine),
        meter_(meter),
        arms_(arms),
        inputs_(inputs),
        costs_(compare_costs(arms.front().config, inputs.model)),
        snapshot_(engine, arms.front().config, inputs) {
    const TrainConfig& config = arms.front().config;
    std::optional<std::vector<data::Trajectory>> batch =
        rollout_batch(engine, snapshot_.weights(), config, inputs, 0);
    expects(batch.has_value(), kNoStop);
    batch_ = std::move(*batch);
    score_batch(engine, config, inputs, 0, batch_);
    check_same_samples(arms, batch_);
  }

  Comparison run(const CompareOptions& options) {
    Comparison out;
    out.lengths = lengths_of(batch_);
    for (const CompareArm& arm : arms_) out.arms.emplace_back().name = arm.name;
    for (int64_t round = 0; round < options.warmup + options.steps; ++round) {
      for (size_t i = 0; i < arms_.size(); ++i) {
        timed_step(arms_[i], round >= options.warmup, out.arms[i]);
      }
    }
    check_same_tokens(out.arms);
    out.predicted_from = costs_.subject;
    out.predicted = predict_steps(arms_, out.lengths, costs_);
    out.exchanges_cost = costs_.update.exchange + costs_.update.exchanged > 0;
    for (size_t i = 0; i < arms_.size(); ++i) {
      if (costs_.measured) {
        out.arms[i].predicted_seconds = predicted_step(arms_[i], out.lengths, costs_);
      }
      measure_balance(arms_[i], out.arms[i]);
    }
    return out;
  }

 private:
  void timed_step(const CompareArm& arm, bool counts, ArmResult& result) {
    snapshot_.restore();
    Backend& backend = engine_.backend;
    backend.synchronize();
    backend.reset_peak_bytes();
    engine_.comm.world.barrier();
    const double start = wall_seconds();
    const StepRecord record = step(arm);
    backend.synchronize();
    engine_.comm.world.barrier();
    const double seconds = wall_seconds() - start;
    if (!counts) return;
    const std::vector<double> peaks =
        gathered(static_cast<double>(backend.peak_bytes().total - snapshot_.copy_bytes()));
    result.peak_bytes = std::max(
        result.peak_bytes, static_cast<int64_t>(*std::max_element(peaks.begin(), peaks.end())));
    for (size_t i = 0; i < result.losses.size(); ++i) {
      result.loss_drift =
          std::max(result.loss_drift, std::abs(result.losses[i] - record.losses.at(i)));
    }
    result.step_seconds.push_back(seconds);
    result.passes = record.passes;
    result.losses = record.losses;
    result.grad_norms = record.grad_norms;
    result.predicted_balance = schedule::imbalance(record.work);
  }

  /// A round of its own: synchronizing around every transfer slows it down.
  void measure_balance(const CompareArm& arm, ArmResult& result) {
    snapshot_.restore();
    engine_.comm.world.barrier();
    meter_.start();
    step(arm);
    result.measured_balance = schedule::imbalance(gathered(meter_.stop()));
  }

  /// The log-prob passes and the updates of one training step, less rollout and reward.
  StepRecord step(const CompareArm& arm) {
    StepRecord record;
    record.work.resize(static_cast<size_t>(engine_.topology.sizes().pool()));
    const auto planner_of = [&](Pass pass) {
      return recording(arm_planner(arm, pass), pass, record);
    };
    const KlCtrlConfig& kl_ctrl = arm.config.algorithm.kl_ctrl;
    algo::KlController kl(kl_ctrl.type, kl_ctrl.kl_coef, kl_ctrl.target_kl, kl_ctrl.horizon);
    PhaseTimer timer(engine_.comm.status);
    const std::optional<StepExperience> experience =
        make_experience(engine_, snapshot_.weights(), snapshot_.reference(), arm.config, batch_, kl,
                        timer, planner_of);
    expects(experience.has_value(), kNoStop);
    const LrSchedule lr =
        lr_schedule(arm.config.actor_rollout_ref.actor.optim, inputs_.total_steps);
    ScheduleStats of_update;  // recorded by the planner already
    std::vector<MiniBatchResult> updates;
    timer.time("update_actor", [&] {
      updates = update_pass(engine_, snapshot_.actor(), experience->experience,
                            update_options(arm.config), planner_of(Pass::kActorUpdate), 0, lr.at(0),
                            of_update);
    });
    for (const MiniBatchResult& update : updates) {
      record.losses.push_back(update.loss);
      record.grad_norms.push_back(update.grad_norm);
    }
    return record;
  }

  /// `inner`, with what it planned on record.
  Planner recording(Planner inner, Pass pass, StepRecord& record) const {
    return [this, inner = std::move(inner), pass, &record](std::span<const int64_t> lengths) {
      schedule::Plan plan = inner(lengths);
      const int64_t tp = engine_.topology.sizes().tp;
      record.passes[pass_name(pass)].add(plan, lengths, tp);
      const schedule::CostModel& cost =
          pass == Pass::kActorUpdate ? costs_.update : costs_.log_prob;
      const auto work = schedule::rank_costs(cost, plan, lengths, tp);
      for (size_t i = 0; i < work.size(); ++i) record.work[i] += work[i];
      return plan;
    };
  }

  std::vector<double> gathered(double mine) const {
    std::vector<double> values;
    const std::span<const double, 1> one(&mine, 1);
    for (const auto& bytes : engine_.comm.world.all_gather_bytes(std::as_bytes(one))) {
      expects(bytes.size() == sizeof(double), "a rank sent another number of bytes");
      std::memcpy(&values.emplace_back(), bytes.data(), sizeof(double));
    }
    return values;
  }

  const Engine& engine_;
  BusyMeter& meter_;
  std::span<const CompareArm> arms_;
  const Inputs& inputs_;
  PassCosts costs_;
  ActorSnapshot snapshot_;
  std::vector<data::Trajectory> batch_;
};

}  // namespace

Comparison compare_dcp(const Engine& engine, BusyMeter& meter, std::span<const CompareArm> arms,
                       const Inputs& inputs, const CompareOptions& options) {
  expects(!arms.empty() && options.steps >= 1 && options.warmup >= 0,
          "a comparison needs arms and a timed step");
  for (const CompareArm& arm : arms) {
    const std::vector<std::string> settings = differing_settings(arms.front(), arm);
    expects(settings.empty(), "the arms of a comparison differ in more than scheduling: " +
                                  (settings.empty() ? "" : settings.front()));
  }
  return Comparer(engine, meter, arms, inputs).run(options);
}

void check_same_tokens(std::span<const ArmResult> results) {
  std::string passes;
  for (const ArmResult& arm : results) {
    const ArmResult& first = results.front();
    std::map<std::string, ScheduleStats> all = first.passes;
    all.insert(arm.passes.begin(), arm.passes.end());
    for (const auto& [name, stats] : all) {
      const auto tokens = [&name = name](const ArmResult& of) {
        const auto found = of.passes.find(name);
        return found == of.passes.end() ? 0 : found->second.tokens;
      };
      if (tokens(first) == tokens(arm)) continue;
      passes += (passes.empty() ? "" : ", ") + name + " " + std::to_string(tokens(arm)) + " in " +
                arm.name + " and " + std::to_string(tokens(first)) + " in " + first.name;
    }
  }
  expects(passes.empty(), "the arms of a comparison processed other tokens: " + passes);
}

}  // namespace verlcpp::train
