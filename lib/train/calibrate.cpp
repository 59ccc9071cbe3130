#include "train/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "schedule/cost_fit.h"
#include "train/calibrate_cases.h"
#include "train/cost_subject.h"
#include "train/initial_weights.h"
#include "train/log_prob_pass.h"
#include "train/optimizer.h"
#include "train/update_pass.h"
#include "train/validate.h"

namespace verlcpp::train {
namespace {

constexpr int64_t kMore = 2;          // micro-batches that are added to one
constexpr size_t kCheckedAtMost = 8;  // micro-batches of a file
constexpr double kTinyLr = 1e-12;     // the weights stay what they are

constexpr int kAttempts = 3;  // at times that say nothing, each of three times as many

/// 0 of nothing.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// By the model of every pass.
bool tokens_cost(const PassCosts& costs) {
  return costs.update.linear + costs.update.quadratic > 0 &&
         costs.log_prob.linear + costs.log_prob.quadratic > 0;
}

class Calibrator {
 public:
  Calibrator(const Engine& engine, const TrainConfig& config, const Inputs& inputs,
             const CalibrateOptions& options)
      : engine_(engine),
        config_(config),
        vocab_(inputs.model.vocab),
        options_(options),
        rule_(batching_rule(config, Pass::kActorUpdate)),
        update_(update_options(config)),
        layout_(inputs.model, engine.topology.sizes().pool(), engine.transformer.tp_place()),
        weights_(engine.backend, layout_, dtype(), MemoryTag::kWeights),
        grad_(engine.backend, layout_, model::statistics_dtype(dtype()), MemoryTag::kMainGrad),
        optimizer_(engine, layout_, dtype(), optimizer_options(config.actor_rollout_ref.actor)) {
    engine.comm.status.enter("weights");
    const std::string warning = load_initial_weights(engine.backend, config, inputs, weights_,
                                                     [&] { engine.comm.status.beat(); });
    if (engine.topology.rank() == 0 && !warning.empty()) log::warning(warning);
    optimizer_.take_master(weights_);
    engine.comm.status.enter("calibrate");
  }

  /// Times agree on all ranks (agreed), and so does what is done about them.
  Calibration run() {
    Calibration out;
    repeats_ = options_.repeats;
    for (int attempt = 0; attempt < kAttempts; ++attempt, repeats_ *= 3) {
      fit_all(out);
      if (tokens_cost(out.costs)) break;
    }
    repeats_ = options_.repeats;
    out.costs.measured = true;
    out.costs.mini_batch = median(besides_) + optimizer_seconds();
    for (TimedMicroBatch& m : out.fitted) m.predicted = predicted(out.costs, m);
    if (!tokens_cost(out.costs)) return out;  // refused
    for (const CheckedLengths& check : options_.checks) {
      out.checks.push_back({check.file, checked(check.lengths, out.costs)});
    }
    return out;
  }

 private:
  DType dtype() const {
    return dtype_named(config_.actor_rollout_ref.actor.megatron.dtype).value();
  }
  int64_t tp() const { return rule_.sizes.tp; }

  /// Times every case anew.
  void fit_all(Calibration& out) {
    out.fitted.clear();
    besides_.clear();
    for (const int64_t cp : group_sizes(rule_)) {
      const int64_t limit = group_limit(config_, rule_, cp);
      for (const auto& documents : fillings(limit, longest_sequence(config_))) {
        const CalibrationCase c = same_in_all_groups(rule_.sizes.pool(), cp, documents);
        for (const char* pass : {kUpdateCost, kLogProbCost}) {
          out.fitted.push_back(
              {.pass = pass, .lengths = documents, .cp = cp, .seconds = time(c, pass)});
        }
      }
    }
    out.costs.update = fit(out.fitted, kUpdateCost);
    out.costs.log_prob = fit(out.fitted, kLogProbCost);
  }

  schedule::CostModel fit(const std::vector<TimedMicroBatch>& timed, const char* pass) const {
    std::vector<schedule::MeasuredGroup> measured;
    for (const TimedMicroBatch& m : timed) {
      if (m.pass == pass) measured.push_back({m.lengths, m.cp, m.seconds});
    }
    return schedule::fit_cost(measured, tp());
  }

  double predicted(const PassCosts& costs, const TimedMicroBatch& m) const {
    const auto terms = (m.pass == kUpdateCost ? costs.update : costs.log_prob).terms();
    const auto counts = schedule::cost_counts(m.lengths, tp(), m.cp);
    return std::inner_product(terms.begin(), terms.end(), counts.begin(), 0.0);
  }

  /// Micro-batches of the actor's plan for these lengths, evenly chosen.
  std::vector<TimedMicroBatch> checked(const std::vector<int64_t>& lengths,
                                       const PassCosts& costs) {
    const schedule::Plan plan = make_planner(rule_)(lengths);
    const size_t count = std::min(kCheckedAtMost, plan.micro_batches.size());
    std::vector<TimedMicroBatch> out;
    for (size_t i = 0; i < count; ++i) {
      const CalibrationCase c{plan.micro_batches[i * plan.micro_batches.size() / count], lengths};
      for (const char* pass : {kUpdateCost, kLogProbCost}) {
        TimedMicroBatch slowest{.pass = pass, .lengths = {}, .seconds = time(c, pass)};
        for (const schedule::PlanGroup& group : c.micro_batch.groups) {
          TimedMicroBatch m = slowest;
          m.lengths.clear();
          for (int sample : group.samples) {
            m.lengths.push_back(lengths[static_cast<size_t>(sample)]);
          }
          m.cp = static_cast<int64_t>(group.ranks.size());
          m.predicted = predicted(costs, m);
          if (m.predicted > slowest.predicted) slowest = m;
        }
        out.push_back(slowest);
      }
    }
    return out;
  }

  data::Trajectory document(int64_t length, uint32_t number) const {
    const double share = static_cast<double>(config_.data.max_prompt_length) /
                         static_cast<double>(longest_sequence(config_));
    const auto wanted = static_cast<int64_t>(share * static_cast<double>(length));
    const int64_t prompt = std::clamp(wanted, int64_t{1}, std::max<int64_t>(length - 1, 1));
    const PhiloxKey key = rng_key(7, RngPurpose::kSampling);
    data::Trajectory t;
    t.uid = "document " + std::to_string(number);
    for (int64_t i = 0; i < length; ++i) {
      const uint32_t word = philox4x32({number, static_cast<uint32_t>(i), 0, 0}, key)[0];
      (i < prompt ? t.prompt_ids : t.response_ids)
          .push_back(static_cast<int32_t>(word % static_cast<uint64_t>(vocab_)));
    }
    t.response_mask.assign(t.response_ids.size(), 1);
    return t;
  }

  /// The case `copies` times in a row, every sample a document of its own.
  struct Work {
    schedule::Plan plan;
    Experience experience;
    std::vector<int> samples;
  };
  Work repeated(const CalibrationCase& c, int64_t copies) const {
    Work work;
    work.plan.pool = static_cast<int>(rule_.sizes.pool());
    Experience& e = work.experience;
    for (int64_t copy = 0; copy < copies; ++copy) {
      schedule::MicroBatch& micro_batch = work.plan.micro_batches.emplace_back(c.micro_batch);
      for (schedule::PlanGroup& group : micro_batch.groups) {
        for (int& sample : group.samples) {
          const int64_t length = c.lengths[static_cast<size_t>(sample)];
          sample = static_cast<int>(e.batch.size());
          work.samples.push_back(sample);
          e.batch.push_back(document(length, static_cast<uint32_t>(sample)));
          const std::vector<double> zeros(e.batch.back().response_ids.size(), 0.0);
          e.old_log_prob.push_back(zeros);
          e.ref_log_prob.push_back(zeros);
          e.advantage.emplace_back(zeros.size(), 1.0);
        }
      }
    }
    return work;
  }

  double seconds_of(const std::function<void()>& body) {
    std::vector<double> seconds;
    for (int64_t i = 0; i < repeats_; ++i) {
      engine_.backend.synchronize();
      engine_.comm.world.barrier();
      const double start = options_.clock();
      body();
      engine_.backend.synchronize();
      engine_.comm.world.barrier();
      seconds.push_back(options_.clock() - start);
    }
    return agreed(median(seconds));
  }

  /// The largest of all ranks' numbers.
  double agreed(double mine) const {
    const std::span<const double, 1> one(&mine, 1);
    double largest = mine;
    for (const auto& bytes : engine_.comm.world.all_gather_bytes(std::as_bytes(one))) {
      double other = 0;
      expects(bytes.size() == sizeof(double), "a rank sent another number of bytes");
      std::memcpy(&other, bytes.data(), sizeof(double));
      largest = std::max(largest, other);
    }
    return largest;
  }

  void run_pass(const Work& work, const std::string& pass) {
    if (pass == kLogProbCost) {
      expects(log_prob_pass(engine_, weights_, work.experience.batch, work.plan).has_value(),
              "nobody stops the ranks of a calibration");
      return;
    }
    ScheduleStats stats;
    accumulate_gradient(
        engine_, {weights_, grad_, optimizer_}, work.experience, work.samples, update_,
        [&](std::span<const int64_t>) { return work.plan; }, stats);
  }

  /// What a micro-batch more adds.
  double time(const CalibrationCase& c, const std::string& pass) {
    const Work one = repeated(c, 1), several = repeated(c, 1 + kMore);
    run_pass(one, pass);  // makes attention plans
    const int64_t repeats = repeats_;
    double alone = 0, together = 0, each = 0;
    for (int attempt = 0; attempt < kAttempts && each <= 0; ++attempt, repeats_ *= 3) {
      alone = seconds_of([&] { run_pass(one, pass); });
      together = seconds_of([&] { run_pass(several, pass); });
      each = (together - alone) / static_cast<double>(kMore);
    }
    repeats_ = repeats;
    // Noise longer than the work: what is left is an average.
    if (each <= 0) return together / static_cast<double>(1 + kMore);
    if (pass == kUpdateCost) besides_.push_back(std::max(0.0, alone - each));
    return each;
  }

  double optimizer_seconds() {
    return seconds_of([&] { optimizer_.step(weights_, grad_, kTinyLr); });
  }

  const Engine& engine_;
  const TrainConfig& config_;
  int64_t vocab_;
  const CalibrateOptions& options_;
  BatchingRule rule_;
  UpdateOptions update_;
  model::ParameterLayout layout_;
  model::ParameterBuffer weights_, grad_;
  Optimizer optimizer_;
  int64_t repeats_ = 1;          // of each timing now
  std::vector<double> besides_;  // seconds of an update of one micro-batch that are not its own
};

/// A file of anything else would not be read again.
void expect_tokens_cost(const TrainConfig& config, const PassCosts& costs) {
  if (tokens_cost(costs)) return;
  throw ConfigError(fmt::format(
      "--calibrate: the times measured, the last ones {} times over, do not grow with the tokens: "
      "a rank holds too few (at most {}, in documents of at most {}), or the machine has other "
      "work; raise the token limit or the longest sequence, or measure on an idle machine",
      kAttempts * kAttempts, rank_limit(config, batching_rule(config, Pass::kActorUpdate)),
      longest_sequence(config)));
}

}  // namespace

void expect_fits(const TrainConfig& config, const std::vector<CheckedLengths>& checks) {
  const BatchingRule rule = batching_rule(config, Pass::kActorUpdate);
  const int64_t most = std::min(rank_limit(config, rule), longest_sequence(config));
  if (most < kShortestTimed) {
    const bool by_limit = rank_limit(config, rule) < longest_sequence(config);
    throw ConfigError(fmt::format(
        "--calibrate: documents of {} tokens are the shortest measured, but {} of at most {}; "
        "raise {} to at least {}",
        kShortestTimed, by_limit ? "a rank holds one" : "the run has one", most,
        !by_limit  ? "data.max_prompt_length + data.max_response_length"
        : rule.dcp ? "actor_rollout_ref.actor.megatron.max_seqlen_per_dp_cp_rank"
                   : "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
        kShortestTimed));
  }
  const Planner planner = make_planner(rule);
  const int64_t longest = longest_sequence(config);
  for (const CheckedLengths& check : checks) {
    for (size_t i = 0; i < check.lengths.size(); ++i) {
      if (check.lengths[i] <= longest) continue;
      throw ConfigError(
          fmt::format("--calibrate-check {}: element {} is {}, but data."
                      "max_prompt_length + data.max_response_length is {}",
                      check.file, i, check.lengths[i], longest));
    }
    try {
      planner(check.lengths);
    } catch (const DataError& e) {
      throw ConfigError("--calibrate-check " + check.file + ": " + e.what());
    }
  }
}

Calibration calibrate(const Engine& engine, const TrainConfig& config, const Inputs& inputs,
                      const CalibrateOptions& options) {
  Calibration out = Calibrator(engine, config, inputs, options).run();
  out.costs.subject = cost_subject(inputs.model, config);
  if (engine.topology.rank() != 0) return out;
  expect_tokens_cost(config, out.costs);
  for (const std::string& warning : fit_warnings(out.fitted)) log::warning(warning);
  return out;
}

}  // namespace verlcpp::train
