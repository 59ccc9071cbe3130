#include "train/selftest_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "model/weights_io.h"
#include "train/initial_weights.h"
#include "train/memory_plan.h"
#include "train/update_pass.h"

namespace verlcpp::train {
namespace {

// design.md, "Numbers": relative, with a floor for what is as good as zero.
struct Tolerance {
  double relative, floor;
};
constexpr Tolerance kFloat64{1e-9, 1e-12}, kFloat32{1e-5, 1e-6};

// In float32, weights whose gradient is smaller than this share of its root mean square are left
// out: AdamW's first step divides a gradient by its own size, which brings the rounding of one that
// should be zero (a bias of k is one) to the size of any other.
constexpr double kResolvedGradient = 1e-3;
constexpr double kSmallestLr = 1e-3;  // so that weights move by more than their rounding
// A reference that equals the actor would make every KL term zero.
constexpr double kReferenceScale = 0.98;
constexpr int64_t kScaledAtOnce = int64_t{1} << 20;  // elements

/// What is run: the user's configuration with small sizes, the samples, the model.
struct Case {
  config::Node tree;
  Inputs inputs;
  SelftestSamples samples;
  DType dtype = DType::kFloat64;
  Tolerance tolerance = kFloat64;
};

void set(config::Node& tree, const std::string& key, const config::Scalar& value) {
  tree.set(key,
           config::Node(value, config::Origin{"--selftest-layout", config::Origin::Source::kFlag}));
}

/// Throws DeviceError when `bytes` are more than the machine's.
void expect_memory(int64_t bytes, const SelftestOptions& options) {
  if (bytes <= options.memory_bytes) return;
  throw DeviceError("the machine: --selftest-layout needs " + human_bytes(bytes) +
                    " for one rank alone; this machine has " + human_bytes(options.memory_bytes));
}

/// Batch sizes of the samples. In float64 the user's epochs (two at most) and, if there are
/// several, two mini-batches; in float32 a single update, since the second starts from AdamW's
/// first step.
void set_sizes(Case& c, const TrainConfig& config) {
  const ActorConfig& actor = config.actor_rollout_ref.actor;
  const bool exact = c.dtype == DType::kFloat64;
  const bool several = exact && actor.ppo_mini_batch_size < config.data.train_batch_size;
  const int64_t mini =
      several && c.samples.prompts % 2 == 0 ? c.samples.prompts / 2 : c.samples.prompts;
  const int64_t epochs = exact ? std::min<int64_t>(actor.ppo_epochs, 2) : 1;
  int64_t prompt = 0, response = 0;
  for (const data::Trajectory& t : c.samples.batch) {
    prompt = std::max(prompt, t.prompt_length());
    response = std::max(response, t.response_length());
  }
  set(c.tree, "data.train_batch_size", c.samples.prompts);
  set(c.tree, "actor_rollout_ref.rollout.n", c.samples.n);
  set(c.tree, "actor_rollout_ref.actor.rollout_n", c.samples.n);
  set(c.tree, "actor_rollout_ref.actor.ppo_mini_batch_size", mini);
  set(c.tree, "actor_rollout_ref.actor.ppo_epochs", epochs);
  set(c.tree, "actor_rollout_ref.actor.optim.lr", std::max(actor.optim.lr, kSmallestLr));
  set(c.tree, "data.max_prompt_length", prompt);
  set(c.tree, "data.max_response_length", response);
  set(c.tree, "actor_rollout_ref.rollout.prompt_length", prompt);
  set(c.tree, "actor_rollout_ref.rollout.response_length", response);
}

Case make_case(const config::Node& tree, const SelftestOptions& options) {
  Case c{.tree = tree, .inputs = {}, .samples = {}};
  const TrainConfig config = bind_train_config(c.tree);
  c.dtype = dtype_named(config.actor_rollout_ref.actor.megatron.dtype).value();
  if (c.dtype != DType::kFloat64 && c.dtype != DType::kFloat32) {
    throw ConfigError("--selftest-layout: actor_rollout_ref.actor.megatron.dtype = " +
                      config.actor_rollout_ref.actor.megatron.dtype +
                      "; must be float32 or float64, whose layouts have a known tolerance");
  }
  if (c.dtype == DType::kFloat32) c.tolerance = kFloat32;
  c.inputs = load_inputs(config, c.tree, {}, 1);  // plays back the first step alone
  // Weights, gradient and two moments; the rest is known once there are samples.
  expect_memory(4 * c.inputs.model.parameter_count() * size_of(c.dtype), options);
  c.samples = selftest_samples(config, c.inputs, options.make_device);
  set_sizes(c, config);
  return c;
}

int64_t total_tokens(const Case& c) {
  int64_t sum = 0;
  for (const data::Trajectory& t : c.samples.batch) sum += t.length();
  return sum;
}

int64_t longest_sample(const Case& c) {
  int64_t longest = 0;
  for (const data::Trajectory& t : c.samples.batch) longest = std::max(longest, t.length());
  return longest;
}

int64_t optimizer_steps(const TrainConfig& config, size_t samples) {
  return static_cast<int64_t>(
      mini_batches(static_cast<int64_t>(samples), update_options(config), 0).size());
}

/// All ranks of a layout, what they share, and the whole tensors that rank 0 keeps.
int64_t memory_of(const Case& c, const TrainConfig& config) {
  const MemoryPlan plan = memory_plan(c.inputs.model, config);
  const parallel::AxisSizes sizes = batching_rule(config, Pass::kActorUpdate).sizes;
  const int64_t ranks = sizes.world;
  // A group of threads holds a copy of what each of them gives it, and of the sum that all get:
  // gradients in the pool, rows between TP ranks, a piece of a tensor while rank 0 gathers it.
  const bool zero1 = config.actor_rollout_ref.actor.megatron.use_distributed_optimizer;
  int64_t shared = (ranks + (zero1 ? 0 : ranks / sizes.pool())) * plan.gradient;
  if (sizes.tp > 1) {
    shared += (ranks + ranks / sizes.tp) * plan.tokens_per_rank * c.inputs.model.hidden *
              size_of(c.dtype);
  }
  const auto wide = static_cast<int64_t>(sizeof(double));
  shared += (3 * ranks + 2) * std::min(model::kGatheredAtOnce, plan.parameters) * wide;
  // Gradients of each optimizer step and weights, of this layout and of the reference; compare()
  // picks from either's weights.
  const int64_t picked = c.dtype == DType::kFloat64 ? 0 : 2;
  const int64_t kept = 2 * (optimizer_steps(config, c.samples.batch.size()) + 1) + picked;
  return ranks * plan.total() + shared + kept * plan.parameters * wide;
}

int64_t micro_batches(const Case& c, const TrainConfig& config) {
  const Planner planner = make_planner(batching_rule(config, Pass::kActorUpdate));
  const std::vector<int64_t> all = lengths_of(c.samples.batch);
  int64_t count = 0;
  for (const auto& samples :
       mini_batches(static_cast<int64_t>(all.size()), update_options(config), 0)) {
    std::vector<int64_t> lengths;
    for (int sample : samples) lengths.push_back(all[static_cast<size_t>(sample)]);
    count += static_cast<int64_t>(planner(lengths).micro_batches.size());
  }
  return count;
}

/// In pieces, which take no memory worth counting.
void scale_weights(Backend& backend, const model::ParameterBuffer& weights, double factor) {
  const int64_t end = weights.range().end();
  for (int64_t first = weights.range().first; first < end; first += kScaledAtOnce) {
    const Tensor piece = weights.slice({first, std::min(kScaledAtOnce, end - first)});
    std::vector<double> values = download(backend, piece);
    for (double& v : values) v *= factor;
    backend.copy(piece,
                 upload_as(backend, piece.dtype(), values, piece.shape(), MemoryTag::kWorkspace));
  }
}

/// `say`: with a warning about the weights, for a layout of one rank.
LayoutResult run_case(const Case& c, const TrainConfig& config, const SelftestOptions& options,
                      bool say = false) {
  LayoutRun run{.config = config,
                .model = c.inputs.model,
                .batch = c.samples.batch,
                .dtype = c.dtype,
                .make_device = options.make_device};
  run.load_weights = [&](Backend& backend, const model::ParameterBuffer& weights, bool reference) {
    const std::string warning = load_initial_weights(backend, config, c.inputs, weights);
    if (say && !reference && !warning.empty()) log::warning(warning);
    if (reference) scale_weights(backend, weights, kReferenceScale);
  };
  return run_layout(run);
}

/// The weights whose gradient, by the reference, stands out of its rounding.
GlobalTensors resolved_weights(const GlobalTensors& weights, const GlobalTensors& gradient) {
  double squares = 0, count = 0;
  for (const auto& [name, values] : gradient) {
    for (double g : values) squares += g * g;
    count += static_cast<double>(values.size());
  }
  const double cutoff = kResolvedGradient * std::sqrt(squares / count);
  GlobalTensors kept;
  for (const auto& [name, values] : gradient) {
    const std::vector<double>& all = weights.at(name);
    std::vector<double>& some = kept[name];
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::abs(values[i]) >= cutoff) some.push_back(all[i]);
    }
  }
  return kept;
}

LayoutDifference compare(const Case& c, const LayoutResult& got, const LayoutResult& want) {
  LayoutDifference d = difference(got, want, c.tolerance.floor);
  if (c.dtype == DType::kFloat64) return d;
  const GlobalTensors& gradient = want.gradients.front();
  d.weights = relative_difference(resolved_weights(got.weights, gradient),
                                  resolved_weights(want.weights, gradient), c.tolerance.floor);
  return d;
}

void expect_finite(const LayoutResult& reference) {
  for (double norm : reference.grad_norms) {
    if (std::isfinite(norm)) continue;
    throw DataError(
        "--selftest-layout: on one rank the gradient of the samples is not finite already; the "
        "weights, the rewards or the learning rate make it so");
  }
}

std::vector<std::string> description(const Case& c, const TrainConfig& reference) {
  const ActorConfig& actor = reference.actor_rollout_ref.actor;
  std::vector<std::string> lines{
      fmt::format("layout self-test of {} in {}", c.inputs.model_folder, name_of(c.dtype)),
      c.samples.about,
      fmt::format(
          "one update, optimizer steps: {} (ppo_epochs {}, ppo_mini_batch_size {}), learning "
          "rate {}{}",
          optimizer_steps(reference, c.samples.batch.size()), actor.ppo_epochs,
          actor.ppo_mini_batch_size, actor.optim.lr,
          reference.uses_reference()
              ? fmt::format("; the reference is {} times the actor", kReferenceScale)
              : "")};
  if (c.dtype == DType::kFloat32) {
    lines.push_back(
        fmt::format("weights are compared where the gradient is at least {} of its root "
                    "mean square",
                    kResolvedGradient));
  }
  lines.push_back(fmt::format(
      "largest relative differences from one rank with one micro-batch, tolerance {:.0e}; losses "
      "relative to the size of their terms",
      c.tolerance.relative));
  return lines;
}

}  // namespace

bool SelftestReport::all_agree() const {
  return std::all_of(rows.begin(), rows.end(), [this](const SelftestRow& r) { return agrees(r); });
}

SelftestReport selftest_layout(const config::Node& resolved_tree, const SelftestOptions& options) {
  const Case c = make_case(resolved_tree, options);
  const TrainConfig one_rank = selftest_one_rank(c.tree, total_tokens(c));
  expect_memory(memory_of(c, one_rank), options);
  SelftestReport report{.about = description(c, one_rank),
                        .rows = {},
                        .skipped = {},
                        .tolerance = c.tolerance.relative};
  const auto start = std::chrono::steady_clock::now();
  const LayoutResult want = run_case(c, one_rank, options, true);
  const bool slow = std::chrono::steady_clock::now() - start > std::chrono::seconds(1);
  expect_finite(want);
  for (const SelftestLayout& layout :
       selftest_layouts(c.tree, c.inputs.model, longest_sample(c), report.skipped)) {
    const int64_t bytes = memory_of(c, layout.config);
    if (bytes > options.memory_bytes) {
      report.skipped.push_back(layout.name + ": its ranks need " + human_bytes(bytes) +
                               ", this machine has " + human_bytes(options.memory_bytes));
      continue;
    }
    if (slow) log::info("self-test: " + layout.name);
    report.rows.push_back({.name = layout.name,
                           .overrides = layout.overrides,
                           .ranks = layout.config.world_size(),
                           .micro_batches = micro_batches(c, layout.config),
                           .difference = compare(c, run_case(c, layout.config, options), want)});
  }
  if (report.rows.empty()) {
    throw DeviceError("the machine: --selftest-layout: no layout but the reference fits into " +
                      human_bytes(options.memory_bytes));
  }
  return report;
}

std::string to_text(const SelftestReport& report) {
  expects(!report.rows.empty(), "a self-test compares at least one layout");
  std::string text;
  for (const std::string& line : report.about) text += line + "\n";
  size_t width = 6, largest = 0, differing = 0;
  for (const SelftestRow& row : report.rows) width = std::max(width, row.name.size());
  text += fmt::format("\n{:>3}  {:<{}} {:>5} {:>13} {:>8} {:>9} {:>8} {:>8}  {:<7}  {}\n", "#",
                      "layout", width, "ranks", "micro-batches", "loss", "grad norm", "gradient",
                      "weights", "verdict", "overrides");
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const SelftestRow& row = report.rows[i];
    const LayoutDifference& d = row.difference;
    const std::string overrides =
        row.overrides.empty() ? "none" : fmt::format("{}", fmt::join(row.overrides, " "));
    const bool good = report.agrees(row);
    differing += good ? 0 : 1;
    if (d.largest() > report.rows[largest].difference.largest()) largest = i;
    text +=
        fmt::format("{:>3}  {:<{}} {:>5} {:>13} {:>8.1e} {:>9.1e} {:>8.1e} {:>8.1e}  {:<7}  {}\n",
                    i + 1, row.name, width, row.ranks, row.micro_batches, d.losses, d.grad_norms,
                    d.gradients, d.weights, good ? "agrees" : "DIFFERS", overrides);
  }
  for (const std::string& skipped : report.skipped) text += "not run: " + skipped + "\n";
  const std::string where = fmt::format("largest difference {:.1e} (layout {}, {})",
                                        report.rows[largest].difference.largest(), largest + 1,
                                        report.rows[largest].name);
  if (differing == 0)
    return text + fmt::format("{} layouts agree, {}\n", report.rows.size(), where);
  return text + fmt::format(
                    "{} of {} layouts differ, {}: a bug of ours, please report it with this "
                    "table\n",
                    differing, report.rows.size(), where);
}

}  // namespace verlcpp::train
