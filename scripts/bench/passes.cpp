// The passes of training: log_prob_pass, and update_pass with one mini-batch.

#include <numeric>

#include "rig.h"
#include "roofline.h"
#include "train/log_prob_pass.h"
#include "train/update_pass.h"

namespace verlcpp::bench {
namespace {

/// The gradient of the mean -log p over the head's rows: advantage 1, and a ratio to the old
/// log-probs that no clipping ever stops.
train::UpdateOptions mean_log_prob_loss(const Options& options) {
  train::UpdateOptions update;
  update.loss.clip_ratio_low = update.loss.clip_ratio_high = 1e9;
  update.mini_batch_size = static_cast<int64_t>(options.lengths.size());
  return update;
}

class Passes {
 public:
  Passes(const Options& options, const train::Engine& engine)
      : options_(options),
        engine_(engine),
        layout_(options.model, 1),
        weights_(engine.backend, layout_, options.dtype, MemoryTag::kWeights),
        planner_(planner_of(options)) {
    random_weights(engine.backend, weights_, 1);
    experience_.batch = random_documents(options);
    plan_ = planner_(options.lengths);
    head_rows_ = head_rows(experience_.batch);
    tokens_ = std::accumulate(options.lengths.begin(), options.lengths.end(), int64_t{0});
  }

  std::vector<Row> log_prob() {
    add("log_prob_pass", forward_flops(options_.model, options_.lengths, head_rows_),
        [&] { train::log_prob_pass(engine_, weights_, experience_.batch, plan_); });
    return std::move(rows_);
  }

  /// The whole step, then its two parts.
  std::vector<Row> step() {
    experience_.old_log_prob =
        train::log_prob_pass(engine_, weights_, experience_.batch, plan_).value().log_prob;
    for (const auto& values : experience_.old_log_prob) {
      experience_.advantage.emplace_back(values.size(), 1.0);
    }
    const model::ParameterBuffer grad(
        engine_.backend, layout_, model::statistics_dtype(options_.dtype), MemoryTag::kMainGrad);
    train::Optimizer optimizer(engine_, layout_, options_.dtype,
                               {.weight_decay = 0.01, .clip_grad = 1.0, .distributed = false});
    optimizer.take_master(weights_);
    const train::ActorState actor{weights_, grad, optimizer};
    const train::UpdateOptions update = mean_log_prob_loss(options_);
    std::vector<int> samples(experience_.batch.size());
    std::iota(samples.begin(), samples.end(), 0);
    const double flops = step_flops(options_.model, options_.lengths, head_rows_);
    train::ScheduleStats stats;
    add("update_pass", flops,
        [&] { train::update_pass(engine_, actor, experience_, update, planner_, 0, kLr, stats); });
    add("  forward and backward", flops, [&] {
      train::accumulate_gradient(engine_, actor, experience_, samples, update, planner_, stats);
    });
    add("  optimizer", 0, [&] { optimizer.step(weights_, grad, kLr); });
    rows_.back().bound = Bound::kBandwidth;
    rows_.back().bytes = optimizer_bytes(weights_, grad, optimizer);
    return std::move(rows_);
  }

 private:
  static constexpr double kLr = 1e-6;

  /// The gradient is read for its norm and again; master weights and moments are read and written,
  /// weights apart from their master written.
  static double optimizer_bytes(const model::ParameterBuffer& weights,
                                const model::ParameterBuffer& grad,
                                const train::Optimizer& optimizer) {
    const Tensor& master = optimizer.master(weights).flat();
    const int64_t updated =
        master.bytes() + optimizer.exp_avg().flat().bytes() + optimizer.exp_avg_sq().flat().bytes();
    const int64_t stored = master.data() == weights.flat().data() ? 0 : weights.flat().bytes();
    return static_cast<double>(2 * grad.flat().bytes() + 2 * updated + stored);
  }

  /// FLOPs of 0: no pass over the tokens.
  void add(const std::string& name, double flops, const std::function<void()>& body) {
    engine_.backend.reset_peak_bytes();
    Row row{.name = name, .seconds = measure(engine_.backend, options_, true, body)};
    row.flops = flops;
    row.peak_bytes = engine_.backend.peak_bytes().total;
    if (flops > 0) {
      row.bound = Bound::kMatmul;
      row.tokens = tokens_;
      row.whole_pass = true;
    }
    rows_.push_back(std::move(row));
  }

  const Options& options_;
  const train::Engine& engine_;
  model::ParameterLayout layout_;
  model::ParameterBuffer weights_;
  train::Planner planner_;
  train::Experience experience_;
  schedule::Plan plan_;
  int64_t head_rows_ = 0, tokens_ = 0;
  std::vector<Row> rows_;
};

}  // namespace

std::vector<Row> run_log_prob(const Options& options) {
  std::vector<Row> rows;
  with_engine(options, [&](const train::Engine& e) { rows = Passes(options, e).log_prob(); });
  return rows;
}

std::vector<Row> run_step(const Options& options) {
  std::vector<Row> rows;
  with_engine(options, [&](const train::Engine& e) { rows = Passes(options, e).step(); });
  return rows;
}

}  // namespace verlcpp::bench
