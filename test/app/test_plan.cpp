#include "run_binary.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using verlcpp::test::Outcome;
using verlcpp::test::run_binary;
using verlcpp::test::TemporaryFolder;

namespace {

const std::string kActor = "actor_rollout_ref.actor.";
const std::string kMegatron = kActor + "megatron.";

Outcome plan(const std::string& lengths, const std::vector<std::string>& more) {
  const TemporaryFolder folder;
  std::vector<std::string> arguments = {"--plan", folder.write("lengths.json", lengths)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_binary(arguments);
}

const std::vector<std::string> kDynamic = {
    "trainer.n_gpus_per_node=4", kMegatron + "context_parallel_size=2",
    kMegatron + "dynamic_context_parallel=True", kMegatron + "max_seqlen_per_dp_cp_rank=10"};

std::vector<std::string> dynamic(const std::vector<std::string>& more) {
  std::vector<std::string> all = kDynamic;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void check_refused(const Outcome& outcome, const std::string& text) {
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, StartsWith("error: ") && ContainsSubstring(text));
}

}  // namespace

TEST_CASE("a dynamic plan, by hand, as JSON") {
  // 20 tokens need two ranks of 10; the two others take one each and one micro-batch holds all.
  const Outcome outcome = plan("[7, 20, 5]", dynamic({"--format", "json"}));
  CHECK(outcome.err.empty());
  CHECK(outcome.out ==
        R"({"pool":4,"micro_batches":[{"ranks":[[1],[1],[0],[2]],)"
        R"("groups":[{"ranks":[0,1],"samples":[1]},{"ranks":[2],"samples":[0]},)"
        R"({"ranks":[3],"samples":[2]}],"tokens":[10,10,7,5],"padded_tokens":[10,10,7,5]}],)"
        R"("total_tokens":32,"total_padded_tokens":32})"
        "\n");
}

TEST_CASE("a dynamic plan as text") {
  const Outcome outcome = plan("[7, 20, 5]", kDynamic);
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, StartsWith("pool of 4: 3 samples in 1 micro-batches, 32 tokens"));
}

TEST_CASE("min_dynamic_context_parallel_size") {
  const std::string key =
      "+" + kMegatron + "override_transformer_config.min_dynamic_context_parallel_size=";
  const Outcome outcome = plan("[7, 20, 5]", dynamic({"--format=json", key + "4"}));
  CHECK_THAT(outcome.out, ContainsSubstring(R"("ranks":[0,1,2,3])"));
  check_refused(plan("[7]", dynamic({key + "8"})), "of at most the DPxCP world size 4");
}

TEST_CASE("a plan balanced by a cost model, by hand") {
  // A document costs one, its tokens next to nothing, and a group of two one more, so counts are
  // balanced: 900 and one of 100 fill a rank of 1000, and the other takes what is left. By default
  // the rank of 900 takes no more.
  const TemporaryFolder folder;
  const std::string terms = R"({"micro_batch": 0, "document": 1, "linear": 1e-9, "quadratic": 0,)"
                            R"( "exchange": 1, "exchanged": 0})";
  const std::string file =
      folder.write("cost.json", R"({"version": 1, "subject": "a model", "seconds": {"update": )" +
                                    terms + R"(, "log_prob": )" + terms + R"(, "mini_batch": 0}})");
  const std::vector<std::string> layout = {
      "--format=json", "trainer.n_gpus_per_node=2", kMegatron + "dynamic_context_parallel=True",
      kMegatron + "max_seqlen_per_dp_cp_rank=1000", kMegatron + "dynamic_cp_cost_model=" + file};
  const auto ranks = [&](const std::string& scheduler) {
    std::vector<std::string> arguments = layout;
    arguments.push_back(kMegatron + "dynamic_cp_scheduler=" + scheduler);
    const Outcome outcome = plan("[900, 500, 100, 100, 100, 100]", arguments);
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    return outcome.out;
  };
  CHECK_THAT(ranks("default"), ContainsSubstring("\"tokens\":[900,900]"));
  CHECK_THAT(ranks("balanced"), ContainsSubstring("\"tokens\":[1000,800]"));
  check_refused(plan("[7]", dynamic({kMegatron + "dynamic_cp_scheduler=best"})),
                kMegatron + "dynamic_cp_scheduler = 'best' (override 5): must be default");
}

TEST_CASE("what the balanced scheduler cannot do in a plan is warned of, once") {
  const auto warned = [](const std::vector<std::string>& more) {
    const Outcome outcome = plan("[7]", dynamic(more));
    INFO(outcome.err);
    CHECK(outcome.code == 0);
    return outcome.err;
  };
  const std::string balanced = kMegatron + "dynamic_cp_scheduler=balanced";
  CHECK(warned({}).empty());
  CHECK_THAT(warned({balanced}),
             StartsWith("warning: " + kMegatron +
                        "dynamic_cp_scheduler = 'balanced' (override 5) without "
                        "dynamic_cp_cost_model balances by verl's workload"));
  CHECK(warned({balanced, kMegatron + "dynamic_context_parallel=False",
                kActor + "ppo_micro_batch_size_per_gpu=1"}) ==
        "warning: " + kMegatron +
            "dynamic_cp_scheduler = 'balanced' (override 5) has no effect: "
            "dynamic_context_parallel is off\n");
}

TEST_CASE("static plans: fixed micro-batches and token budgets") {
  const std::vector<std::string> layout = {"--format=json", "trainer.n_gpus_per_node=4",
                                           kMegatron + "context_parallel_size=2"};
  SECTION("fixed size") {
    std::vector<std::string> arguments = layout;
    arguments.push_back(kActor + "ppo_micro_batch_size_per_gpu=1");
    const Outcome outcome = plan("[8, 8, 8, 8]", arguments);
    CHECK(outcome.code == 0);
    size_t micro_batches = 0;
    for (size_t at = 0; (at = outcome.out.find("\"groups\"", at)) != std::string::npos; ++at) {
      ++micro_batches;
    }
    CHECK(micro_batches == 2);  // two replicas, one sample each at a time
  }
  SECTION("the per-GPU budget, times CP, from data.max_token_len_per_gpu") {
    std::vector<std::string> arguments = layout;
    arguments.push_back(kActor + "use_dynamic_bsz=True");
    arguments.emplace_back("data.max_token_len_per_gpu=8");
    CHECK_THAT(plan("[8, 8, 8, 8]", arguments).out, ContainsSubstring("\"tokens\":[8,8,8,8]"));
    check_refused(plan("[17, 1]", arguments), "17");
  }
  SECTION("neither") {
    check_refused(plan("[8]", layout), kActor + "ppo_micro_batch_size_per_gpu");
  }
}

TEST_CASE("a refused batch exits 2 with its message") {
  check_refused(plan("[41]", kDynamic), "41");
  check_refused(plan("[]", kDynamic), "empty");
  check_refused(plan("[3, 0]", kDynamic), "0");
}

TEST_CASE("a bad file exits 2 and says what it must hold") {
  check_refused(plan("{\"a\": 1}", kDynamic), "holds a JSON object; must hold a JSON array");
  check_refused(plan("[1, 2.5]", kDynamic), "element 1 is 2.5");
  check_refused(plan("[true]", kDynamic), "element 0 is true");
  check_refused(plan("[1,", kDynamic), "not JSON: line 1, column 4");
  check_refused(run_binary({"--plan", "/none.json", kActor + "use_dynamic_bsz=True"}),
                "--plan /none.json does not exist");
  check_refused(run_binary({"--plan", "/tmp", kActor + "use_dynamic_bsz=True"}),
                "--plan /tmp is a folder");
}

TEST_CASE("the preconditions of the keys a plan reads") {
  check_refused(plan("[1]", dynamic({kMegatron + "max_seqlen_per_dp_cp_rank=null"})),
                "max_seqlen_per_dp_cp_rank must be a positive integer when "
                "dynamic_context_parallel is enabled");
  check_refused(plan("[1]", dynamic({"trainer.n_gpus_per_node=6",
                                     kMegatron + "pipeline_model_parallel_size=2",
                                     kMegatron + "context_parallel_size=3"})),
                "got DPxCP=3.");
  check_refused(plan("[1]", dynamic({"trainer.n_gpus_per_node=5"})), "must be divisible");
  check_refused(plan("[1]", dynamic({"trainer.nnodes=0"})), "trainer.nnodes = 0 (override 5)");
}
