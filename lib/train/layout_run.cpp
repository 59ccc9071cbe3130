#include "train/layout_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "algo/aggregate.h"
#include "algo/kl.h"
#include "model/weights_io.h"
#include "parallel/thread_ranks.h"
#include "train/optimizer.h"
#include "train/pipeline.h"
#include "train/recompute.h"
#include "train/update_pass.h"

namespace verlcpp::train {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Sum of the absolute terms of a mini-batch's policy loss at ratio one.
double loss_scale(const Experience& experience, std::span<const int> samples,
                  const UpdateOptions& options) {
  algo::AggregateTotals totals{
      .tokens = 0, .sequences = static_cast<int64_t>(samples.size()), .horizon = options.horizon};
  const auto mask = [&](int sample) -> const std::vector<uint8_t>& {
    return experience.batch[static_cast<size_t>(sample)].response_mask;
  };
  for (int sample : samples)
    totals.tokens += std::accumulate(mask(sample).begin(), mask(sample).end(), int64_t{0});
  double scale = 0;
  for (int sample : samples) {
    const auto weight = algo::token_weights(options.loss_agg_mode, mask(sample), totals);
    const std::vector<double>& advantage = experience.advantage[static_cast<size_t>(sample)];
    for (size_t t = 0; t < weight.size(); ++t) scale += std::abs(weight[t] * advantage[t]);
  }
  return scale;
}

/// One rank's buffers of a layout under test.
class RankRun {
 public:
  RankRun(const LayoutRun& run, const Engine& engine)
      : run_(run),
        engine_(engine),
        layout_(run.model, engine.topology.sizes().pool(), engine.transformer.tp_place()),
        weights_(engine.backend, layout_, run.dtype, MemoryTag::kWeights),
        grad_(engine.backend, layout_, model::statistics_dtype(run.dtype), MemoryTag::kMainGrad),
        optimizer_(engine, layout_, run.dtype,
                   optimizer_options(run.config.actor_rollout_ref.actor)) {
    run.load_weights(engine.backend, weights_, false);
    optimizer_.take_master(weights_);
    if (run.config.uses_reference()) {
      reference_ = std::make_unique<model::ParameterBuffer>(engine.backend, layout_, run.dtype,
                                                            MemoryTag::kWeights);
      run.load_weights(engine.backend, *reference_, true);
    }
  }

  LayoutResult updates() {
    const KlCtrlConfig& kl_config = run_.config.algorithm.kl_ctrl;
    algo::KlController kl(kl_config.type, kl_config.kl_coef, kl_config.target_kl,
                          kl_config.horizon);
    Planner planner = make_planner(batching_rule(run_.config, Pass::kActorUpdate));
    if (run_.change_planner) planner = run_.change_planner(std::move(planner));
    planner = observed(std::move(planner));
    for (int64_t step = 0; step < run_.updates; ++step) {
      PhaseTimer timer;
      const auto experience = make_experience(engine_, weights_, reference_.get(), run_.config,
                                              {run_.batch.begin(), run_.batch.end()}, kl, timer);
      const UpdateOptions options = update_options(run_.config);
      for (const auto& samples :
           mini_batches(static_cast<int64_t>(run_.batch.size()), options, step)) {
        result_.loss_scales.push_back(loss_scale(experience.value().experience, samples, options));
      }
      ScheduleStats stats;
      const auto done =
          update_pass(engine_, {weights_, grad_, optimizer_}, experience.value().experience,
                      options, planner, step, run_.config.actor_rollout_ref.actor.optim.lr, stats);
      for (const MiniBatchResult& m : done) {
        result_.losses.push_back(m.loss);
        result_.grad_norms.push_back(m.grad_norm);
        result_.clipped_tokens += m.sums.clipped;
      }
    }
    result_.gradients.push_back(whole(grad_));
    result_.weights = whole(weights_);
    return std::move(result_);
  }

 private:
  /// On rank 0, whose result counts; nothing on the others.
  GlobalTensors whole(const model::ParameterBuffer& buffer) const {
    return model::gather_hf_tensors(engine_.backend, engine_.comm.world, buffer,
                                    layout_.share(engine_.pool_rank()));
  }

  /// A planner that first keeps the gradient which the mini-batch before has left behind.
  Planner observed(Planner inner) {
    return
        [this, first = true, inner = std::move(inner)](std::span<const int64_t> lengths) mutable {
          if (!first) result_.gradients.push_back(whole(grad_));
          first = false;
          return inner(lengths);
        };
  }

  const LayoutRun& run_;
  const Engine& engine_;
  model::ParameterLayout layout_;
  model::ParameterBuffer weights_, grad_;
  std::unique_ptr<model::ParameterBuffer> reference_;
  Optimizer optimizer_;
  LayoutResult result_;
};

/// Sums of squares of a - b and of b.
struct Squares {
  double difference = 0, norm = 0;
  void add(std::span<const double> a, std::span<const double> b) {
    if (a.size() != b.size()) difference = kInf;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      norm += b[i] * b[i];
    }
  }
  double relative(double floor) const {
    const double ratio = std::sqrt(difference) / std::max(std::sqrt(norm), floor);
    return std::isnan(ratio) ? kInf : ratio;  // a NaN compares as if it were small
  }
};

}  // namespace

LayoutResult run_layout(const LayoutRun& run) {
  LayoutResult result;
  const MegatronConfig& megatron = run.config.actor_rollout_ref.actor.megatron;
  const parallel::AxisSizes sizes = batching_rule(run.config, Pass::kActorUpdate).sizes;
  std::vector<MemoryBytes> peaks(static_cast<size_t>(sizes.world));
  parallel::run_thread_ranks(
      sizes, [&](const parallel::Topology& topology, parallel::RankCommunicators comm) {
        const parallel::RankDevice device = run.make_device(topology, comm);
        Backend& backend = *device.backend;
        const model::Transformer transformer = make_transformer(
            backend, run.model, run.dtype, run.config.actor_rollout_ref, device.comm);
        const Engine engine{backend, transformer, topology, device.comm,
                            recompute_policy(megatron, run.model.layers)};
        LayoutResult mine = RankRun(run, engine).updates();
        peaks[static_cast<size_t>(topology.rank())] = backend.peak_bytes();
        if (topology.rank() == 0) result = std::move(mine);
      });
  for (const MemoryBytes& peak : peaks) result.peak_bytes.raise_to(peak);
  return result;
}

double relative_difference(std::span<const double> a, std::span<const double> b, double floor) {
  Squares squares;
  squares.add(a, b);
  return squares.relative(floor);
}

double relative_difference(const GlobalTensors& a, const GlobalTensors& b, double floor) {
  Squares squares;
  if (a.size() != b.size()) return kInf;
  for (const auto& [name, values] : b) {
    const auto other = a.find(name);
    if (other == a.end()) return kInf;
    squares.add(other->second, values);
  }
  return squares.relative(floor);
}

double LayoutDifference::largest() const {
  return std::max({losses, grad_norms, gradients, weights});
}

LayoutDifference difference(const LayoutResult& got, const LayoutResult& want, double floor) {
  double terms = 0;
  for (double scale : want.loss_scales) terms += scale * scale;
  const double loss_floor = std::max(floor, std::sqrt(terms));
  LayoutDifference d{.losses = relative_difference(got.losses, want.losses, loss_floor),
                     .grad_norms = relative_difference(got.grad_norms, want.grad_norms, floor),
                     .gradients = got.gradients.size() == want.gradients.size() ? 0 : kInf,
                     .weights = relative_difference(got.weights, want.weights, floor)};
  for (size_t i = 0; i < std::min(got.gradients.size(), want.gradients.size()); ++i) {
    d.gradients =
        std::max(d.gradients, relative_difference(got.gradients[i], want.gradients[i], floor));
  }
  return d;
}

}  // namespace verlcpp::train
