// The calibration on CPU ranks.

#include <algorithm>
#include <set>

#include "base/error.h"
#include "cpu/cpu_backend.h"
#include "parallel/thread_ranks.h"
#include "setup.h"
#include "support/catch.h"
#include "train/calibrate.h"
#include "train/calibrate_cases.h"
#include "train/cost_subject.h"
#include "train/recompute.h"

using namespace verlcpp;
using namespace verlcpp::train;
using Catch::Matchers::StartsWith;
using test::configured;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";

/// Dynamic CP over `pool` ranks of 256 tokens; sequences of up to 300.
test::Configured run_of(int pool, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"trainer.n_gpus_per_node=" + std::to_string(pool),
                               kMegatron + "context_parallel_size=1",
                               kMegatron + "max_seqlen_per_dp_cp_rank=256",
                               kA + "model.random_init=True",
                               "data.max_prompt_length=100",
                               "data.max_response_length=200"};
  all.insert(all.end(), more.begin(), more.end());
  return configured(test::valid_dynamic_run(), all);
}

Calibration calibrated(const test::Configured& run, const CalibrateOptions& options) {
  const TrainConfig& config = run.config;
  Inputs inputs;
  inputs.model_folder = config.actor_rollout_ref.model.path;
  inputs.model = model::read_model_config(inputs.model_folder);
  const MegatronConfig& megatron = config.actor_rollout_ref.actor.megatron;
  Calibration out;
  parallel::run_thread_ranks(
      batching_rule(config, Pass::kActorUpdate).sizes,
      [&](const parallel::Topology& topology, const parallel::RankCommunicators& comm) {
        cpu::CpuBackend backend;
        const model::Transformer transformer =
            make_transformer(backend, inputs.model, dtype_named(megatron.dtype).value(),
                             config.actor_rollout_ref, comm);
        const Engine engine{backend, transformer, topology, comm,
                            recompute_policy(megatron, inputs.model.layers)};
        Calibration mine = calibrate(engine, config, inputs, options);
        if (topology.rank() == 0) out = std::move(mine);
      });
  return out;
}

/// A time and a prediction; lengths within the limit of the group.
void check_timed(const TimedMicroBatch& m) {
  CHECK((m.pass == kUpdateCost || m.pass == kLogProbCost));
  CHECK(m.seconds > 0);
  CHECK(m.predicted > 0);
  int64_t tokens = 0;
  for (const int64_t length : m.lengths) tokens += length;
  CHECK(tokens > 0);
  CHECK(tokens <= 256 * m.cp);
}

std::string refusal(const test::Configured& run, const std::vector<CheckedLengths>& checks) {
  try {
    expect_fits(run.config, checks);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a calibration times both passes in groups of every size, and checks itself") {
  const int pool = GENERATE(1, 2);
  INFO("pool " << pool);
  // DCP needs two ranks; one rank packs static micro-batches.
  const test::Configured run =
      pool == 1 ? run_of(1, {kMegatron + "dynamic_context_parallel=False",
                             kA + "actor.use_dynamic_bsz=True", "data.max_token_len_per_gpu=256"})
                : run_of(2);
  const Calibration c = calibrated(run, {.checks = {{"lengths.json", {200, 30, 7, 120, 90, 1}}},
                                         .repeats = 3,
                                         .clock = thread_cpu_seconds});
  std::set<std::pair<std::string, int64_t>> kinds;
  std::set<std::vector<int64_t>> fillings;
  for (const TimedMicroBatch& m : c.fitted) {
    check_timed(m);
    CHECK(*std::min_element(m.lengths.begin(), m.lengths.end()) >= 16);
    kinds.insert({m.pass, m.cp});
    if (m.cp == 1) fillings.insert(m.lengths);
  }
  std::set<std::pair<std::string, int64_t>> all_kinds;
  for (int64_t cp = 1; cp <= pool; ++cp) {
    all_kinds.insert({kUpdateCost, cp});
    all_kinds.insert({kLogProbCost, cp});
  }
  CHECK(kinds == all_kinds);
  // The whole limit, a half, a quarter and a sixteenth, in documents of equal lengths.
  CHECK(fillings.contains({256}));
  CHECK(fillings.contains(std::vector<int64_t>(16, 16)));
  CHECK(fillings.contains({32, 32, 32, 32}));
  CHECK(fillings.contains({16}));

  CHECK(c.costs.measured);
  CHECK(c.costs.mini_batch > 0);
  for (const schedule::CostModel& model : {c.costs.update, c.costs.log_prob}) {
    for (const double term : model.terms()) CHECK(term >= 0);
    CHECK(model.linear + model.quadratic > 0);
    if (pool == 1) CHECK(model.exchange + model.exchanged == 0);
  }
  CHECK_THAT(c.costs.subject, StartsWith("Qwen3ForCausalLM, "));
  CHECK_THAT(c.costs.subject, Catch::Matchers::EndsWith(", float32, TP 1, recompute none"));

  REQUIRE(c.checks.size() == 1);
  CHECK(c.checks[0].file == "lengths.json");
  REQUIRE_FALSE(c.checks[0].micro_batches.empty());
  CHECK(cost_error(c.checks[0].micro_batches, kUpdateCost).count ==
        cost_error(c.checks[0].micro_batches, kLogProbCost).count);
  for (const TimedMicroBatch& m : c.checks[0].micro_batches) check_timed(m);
}

TEST_CASE("what is timed: equal documents up to the limit, none too short, none too long") {
  using Fillings = std::vector<std::vector<int64_t>>;
  CHECK(fillings(64, 1000) == Fillings{{64}, {16, 16, 16, 16}, {32}, {16}});
  CHECK(fillings(64, 40) == Fillings{{40}, {16, 16, 16, 16}, {32}, {16}});
  CHECK(fillings(15, 1000).empty());
  const CalibrationCase c = same_in_all_groups(4, 2, {7, 9});
  CHECK(c.lengths == std::vector<int64_t>{7, 9, 7, 9});
  REQUIRE(c.micro_batch.groups.size() == 2);
  CHECK(c.micro_batch.groups[1].ranks == std::vector<int>{2, 3});
  CHECK(c.micro_batch.groups[1].samples == std::vector<int>{2, 3});
}

TEST_CASE("times that never grow are measured again, then refused") {
  const test::Configured run =
      run_of(1, {kMegatron + "dynamic_context_parallel=False", kA + "actor.use_dynamic_bsz=True",
                 "data.max_token_len_per_gpu=32"});
  int64_t reads = 0;
  const auto clock = [&] { return static_cast<double>(++reads); };
  CHECK_THROWS_WITH(calibrated(run, {.checks = {}, .repeats = 1, .clock = clock}),
                    StartsWith("--calibrate: the times measured, the last ones 9 times over, do "
                               "not grow with the tokens: a rank holds too few (at most 32, in "
                               "documents of at most 300)"));
}

TEST_CASE("ranks that are left over hold one shortest document") {
  const CalibrationCase c = same_in_all_groups(6, 4, {50, 60});
  CHECK(c.lengths == std::vector<int64_t>{50, 60, 16});
  REQUIRE(c.micro_batch.groups.size() == 2);
  CHECK(c.micro_batch.groups[1].ranks == std::vector<int>{4, 5});
  CHECK(c.micro_batch.groups[1].samples == std::vector<int>{2});
}

TEST_CASE("groups of every size that dynamic CP may form are timed") {
  const auto sizes = [](int64_t pool, std::optional<int64_t> min_cp) {
    BatchingRule rule{.sizes = {.world = pool}, .dcp = {}};
    if (min_cp) rule.dcp = DcpSettings{.min_cp = *min_cp};
    return group_sizes(rule);
  };
  CHECK(sizes(1, {}) == std::vector<int64_t>{1});
  CHECK(sizes(6, 1) == std::vector<int64_t>{1, 2, 3, 4, 6});
  CHECK(sizes(8, 4) == std::vector<int64_t>{4, 8});
  CHECK(sizes(10, 3) == std::vector<int64_t>{4, 5, 8, 10});
}

TEST_CASE("a group holds no more than the run has, however high the limit is") {
  const std::string limit = kMegatron + "max_seqlen_per_dp_cp_rank=";
  // A mini-batch of 4 prompts x 4 responses of up to 300 tokens.
  const auto most = [&](const std::string& tokens, int64_t cp) {
    const TrainConfig config = run_of(4, {limit + tokens}).config;
    return group_limit(config, batching_rule(config, Pass::kActorUpdate), cp);
  };
  CHECK(most("256", 1) == 256);
  CHECK(most("256", 4) == 1024);
  CHECK(most("1000000", 1) == 4 * 300);
  CHECK(most("1000000", 2) == 8 * 300);
  CHECK(most("1000000", 4) == 16 * 300);
  const TrainConfig wide = run_of(32, {limit + "1000000"}).config;
  CHECK(group_limit(wide, batching_rule(wide, Pass::kActorUpdate), 1) == 300);
}

TEST_CASE("what a file holds for: model, dtype, TP, recompute, head") {
  model::ModelConfig model;
  model.architecture = "LlamaForCausalLM";
  model.layers = 3;
  const auto subject = [&](const std::vector<std::string>& more) {
    return cost_subject(model, run_of(4, more).config);
  };
  CHECK_THAT(subject({}), StartsWith("LlamaForCausalLM, 3 layers, "));
  std::set<std::string> all{subject({})};
  const std::string override = kMegatron + "override_transformer_config.";
  CHECK(all.insert(subject({override + "recompute_granularity=full",
                            override + "recompute_method=uniform",
                            override + "recompute_num_layers=1"}))
            .second);
  CHECK(all.insert(
               subject({override + "recompute_granularity=full",
                        override + "recompute_method=block", override + "recompute_num_layers=1"}))
            .second);
  CHECK(all.insert(subject({kMegatron + "tensor_model_parallel_size=2",
                            kMegatron + "sequence_parallel=False"}))
            .second);
  for (const std::string& change :
       {"+" + override + "cp_comm_type=all_gather", kMegatron + "dtype=float64",
        kMegatron + "tensor_model_parallel_size=2",
        kMegatron + "override_transformer_config.recompute_granularity=selective",
        kA + "model.use_fused_kernels=True"}) {
    INFO(change);
    CHECK(all.insert(subject({change})).second);
  }
  // Where a rank's tokens go changes no cost of theirs.
  CHECK(subject({kMegatron + "max_seqlen_per_dp_cp_rank=512"}) == subject({}));
}

TEST_CASE("lengths that the run could not take are refused before the work") {
  CHECK(refusal(run_of(2), {{"a.json", {300, 1, 256}}}) == "none");
  CHECK(refusal(run_of(2), {{"a.json", {1}}, {"b.json", {3, 301}}}) ==
        "--calibrate-check b.json: element 1 is 301, but data.max_prompt_length + "
        "data.max_response_length is 300");
  const test::Configured fixed =
      run_of(2, {kMegatron + "dynamic_context_parallel=False", kA + "actor.use_dynamic_bsz=True",
                 "data.max_token_len_per_gpu=256"});
  CHECK_THAT(refusal(fixed, {{"a.json", {290}}}),
             StartsWith("--calibrate-check a.json: max_token_len must be greater than the sequence "
                        "length: sample 0 has 290 tokens"));
  CHECK_THAT(refusal(run_of(2), {{"a.json", {}}}),
             StartsWith("--calibrate-check a.json: Dynamic CP cannot schedule an empty batch"));
}

TEST_CASE("a limit below the shortest document that is measured is refused") {
  CHECK(refusal(run_of(32, {kMegatron + "max_seqlen_per_dp_cp_rank=15"}), {}) ==
        "--calibrate: documents of 16 tokens are the shortest measured, but a rank holds one of at "
        "most 15; raise " +
            kMegatron + "max_seqlen_per_dp_cp_rank to at least 16");
}
