// Layouts, dynamic CP and batches: what validate() says of their sizes.

#include "setup.h"
#include "support/catch.h"
#include "train/validate.h"
#include "validate_case.h"

using namespace verlcpp;
using Catch::Matchers::ContainsSubstring;
using test::check_table;
using test::configured;
using test::failure;
using test::valid_dynamic_run;
using test::valid_run;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";
const std::string kLimitMessage =
    "max_seqlen_per_dp_cp_rank must be a positive integer when dynamic_context_parallel is enabled";

}  // namespace

TEST_CASE("max_seqlen_per_dp_cp_rank must be a positive int, actor and reference alike") {
  for (const std::string value : {"null", "0", "-1", "True", "'4096'", "4096.0"}) {
    INFO(value);
    const std::string actor =
        failure(valid_dynamic_run(), {kMegatron + "max_seqlen_per_dp_cp_rank=" + value});
    CHECK_THAT(actor, ContainsSubstring(kMegatron + "max_seqlen_per_dp_cp_rank = "));
    CHECK_THAT(actor, ContainsSubstring("(override 22): " + kLimitMessage));
    // The reference inherits the value; one line says it.
    CHECK_THAT(actor, ContainsSubstring("the configuration has 1 problem:"));
    const std::string ref =
        failure(valid_dynamic_run(), {kA + "ref.megatron.max_seqlen_per_dp_cp_rank=" + value});
    CHECK_THAT(ref, ContainsSubstring(kA + "ref.megatron.max_seqlen_per_dp_cp_rank = "));
    CHECK_THAT(ref, ContainsSubstring(kLimitMessage) &&
                        ContainsSubstring("the configuration has 1 problem:"));
  }
  SECTION("without dynamic CP the value is not looked at") {
    CHECK(failure(valid_run(), {kMegatron + "max_seqlen_per_dp_cp_rank='x'"}) == "valid");
  }
  SECTION("a reference of its own with dynamic CP") {
    CHECK_THAT(failure(valid_run(), {kA + "ref.megatron.dynamic_context_parallel=True"}),
               ContainsSubstring(kA + "ref.megatron.max_seqlen_per_dp_cp_rank") &&
                   ContainsSubstring(kLimitMessage));
  }
}

TEST_CASE("the DPxCP world must be even and at least two") {
  const auto world = [](int gpus) {
    return failure(
        valid_dynamic_run(),
        {"trainer.n_gpus_per_node=" + std::to_string(gpus), kMegatron + "context_parallel_size=1",
         "data.train_batch_size=42", kA + "actor.ppo_mini_batch_size=42", kA + "rollout.n=3",
         kMegatron + "max_seqlen_per_dp_cp_rank=256"});
  };
  for (const int good : {2, 6, 14}) CHECK(world(good) == "valid");
  for (const int bad : {1, 3, 7}) {
    CHECK_THAT(
        world(bad),
        ContainsSubstring("Dynamic CP requires the DPxCP world size to be an even integer of at "
                          "least two, got DPxCP=" +
                          std::to_string(bad) + ". n_gpus is " + std::to_string(bad) +
                          " = trainer.n_gpus_per_node"));
  }
}

TEST_CASE("sizes that are offered pass every check of the layout") {
  const auto offered = [](const std::vector<std::string>& more) {
    const std::string message = failure(valid_run(), more);
    const size_t at = message.find("nearest valid: ");
    return at == std::string::npos ? "none"
                                   : message.substr(at + 15, message.find('\n', at) - at - 15);
  };
  const std::string gpus = "trainer.n_gpus_per_node=", cp = kMegatron + "context_parallel_size=",
                    tp = kMegatron + "tensor_model_parallel_size=",
                    dynamic = kMegatron + "dynamic_context_parallel=True",
                    limit = kMegatron + "max_seqlen_per_dp_cp_rank=4096";
  CHECK(offered({gpus + "6", cp + "4"}) ==
        "trainer.n_gpus_per_node 4 or 8, or context_parallel_size 3 or 6");
  // An odd pool is none for dynamic CP: 3, 5 and 9 ranks are not offered, nor any CP size of 9.
  CHECK(offered({gpus + "4", cp + "3", dynamic, limit}) ==
        "trainer.n_gpus_per_node 6, or context_parallel_size 2 or 4");
  CHECK(offered({gpus + "9", cp + "2", dynamic, limit}) == "trainer.n_gpus_per_node 8 or 10");
  // The model has four heads and a feed-forward of 29: no TP but 1, and no world for TP 3.
  CHECK(offered({gpus + "4", cp + "2", tp + "3"}) == "tensor_model_parallel_size 1");
  // Ranks of a GPU and machines multiply.
  CHECK(offered({gpus + "3", cp + "8", "trainer.ranks_per_gpu=2"}) ==
        "trainer.n_gpus_per_node 4, or context_parallel_size 6");
}

TEST_CASE("dynamic CP preconditions, one message each") {
  const std::string overrides = "+" + kMegatron + "override_transformer_config.";
  check_table(valid_dynamic_run(),
              {{{kA + "model.use_remove_padding=False"},
                kA + "model.use_remove_padding = False",
                "Dynamic CP requires use_remove_padding=True"},
               {{kMegatron + "use_remove_padding=False"},
                kMegatron + "use_remove_padding = False",
                "Dynamic CP requires use_remove_padding=True"},
               {{kMegatron + "pad_to_length=True"},
                kMegatron + "pad_to_length",
                "Dynamic CP does not support pad_to_length"},
               {{"critic.enable=True"},
                "critic.enable",
                "Dynamic CP currently supports language models only"},
               {{"algorithm.adv_estimator=gae"},
                "algorithm.adv_estimator",
                "Dynamic CP currently supports language models only"},
               {{overrides + "fp8=hybrid"},
                kMegatron + "override_transformer_config.fp8",
                "Dynamic CP does not support FP8"},
               {{kMegatron + "virtual_pipeline_model_parallel_size=2"},
                kMegatron + "virtual_pipeline_model_parallel_size",
                "Dynamic CP does not support virtual pipeline parallelism"},
               {{"distillation.enabled=True"},
                "distillation.enabled",
                "Dynamic CP does not support distillation"},
               {{kMegatron + "router_replay.mode=R4"},
                kMegatron + "router_replay.mode",
                "Invalid router_replay mode: R4"},
               {{kMegatron + "router_replay.mode=R2"},
                kMegatron + "router_replay.mode",
                "router replay needs a mixture-of-experts model"},
               {{overrides + "min_dynamic_context_parallel_size=16"},
                "min_dynamic_context_parallel_size = 16",
                "of at most the DPxCP world size 8"},
               {{overrides + "min_dynamic_context_parallel_size=0"},
                "min_dynamic_context_parallel_size = 0",
                "must be a positive integer"},
               {{kMegatron + "dynamic_cp_scheduler=optimal"},
                kMegatron + "dynamic_cp_scheduler = 'optimal'",
                "must be default (Megatron-Core's) or balanced (by the cost model)"},
               {{kA + "actor.use_kl_loss=True", kA + "ref.megatron.dynamic_cp_scheduler=Default"},
                kA + "ref.megatron.dynamic_cp_scheduler = 'Default'",
                "must be default (Megatron-Core's) or balanced (by the cost model)"},
               {{kA + "actor.use_kl_loss=True", kA + "ref.megatron.dynamic_context_parallel=False"},
                kA + "ref.megatron.dynamic_context_parallel",
                "consistently on every colocated engine"}});
  SECTION("fp8 false or null is no fp8") {
    CHECK(failure(valid_dynamic_run(), {overrides + "fp8=False"}) == "valid");
    CHECK(failure(valid_dynamic_run(), {overrides + "fp8=null"}) == "valid");
  }
  SECTION("router replay with router fusion") {
    CHECK_THAT(failure(valid_dynamic_run(),
                       {kMegatron + "router_replay.mode=R3", overrides + "moe_router_fusion=True"}),
               ContainsSubstring("Dynamic CP router replay requires moe_router_fusion=False"));
  }
}

TEST_CASE("a sequence the pool cannot hold is refused with the longest response that fits") {
  const std::string message = failure(valid_dynamic_run(), {"data.max_response_length=2000"});
  CHECK_THAT(message,
             ContainsSubstring("data.max_prompt_length = 64 (override 8) + "
                               "data.max_response_length = 2000 (override 22) = 2064 tokens"));
  CHECK_THAT(message,
             ContainsSubstring("needs at least 17 ranks") && ContainsSubstring("only has 8 ranks"));
  CHECK_THAT(message, ContainsSubstring("the longest response that fits is 960"));
  CHECK_THAT(message, ContainsSubstring("Increase max_seqlen_per_dp_cp_rank"));
  SECTION("the exact limit fits the pool") {
    CHECK_THAT(
        failure(valid_dynamic_run(), {"data.max_response_length=960"}),
        ContainsSubstring("1 problem:") && ContainsSubstring("max_position_embeddings = 512"));
    for (const std::string group : {"", "model_config."}) {
      CHECK(failure(valid_dynamic_run(), {"data.max_response_length=960",
                                          "+" + kA + "model.override_config." + group +
                                              "max_position_embeddings=1024"}) == "valid");
    }
    CHECK(failure(valid_dynamic_run(), {kMegatron + "max_seqlen_per_dp_cp_rank=32"}) == "valid");
    CHECK_THAT(failure(valid_dynamic_run(), {kMegatron + "max_seqlen_per_dp_cp_rank=31"}),
               ContainsSubstring("the longest response that fits is 184"));
    CHECK_THAT(failure(valid_dynamic_run(), {kMegatron + "max_seqlen_per_dp_cp_rank=8"}),
               ContainsSubstring("no response fits after a prompt of 64"));
  }
  SECTION("static CP: the packed budget") {
    const std::vector<std::string> budget = {kA + "actor.use_dynamic_bsz=True",
                                             "data.max_token_len_per_gpu=63"};
    CHECK_THAT(failure(valid_run(), budget),
               ContainsSubstring("max_token_len must be greater than the sequence length") &&
                   ContainsSubstring("= 252") &&
                   ContainsSubstring("the longest response that fits is 188"));
    CHECK(failure(valid_run(), {budget[0], "data.max_token_len_per_gpu=64"}) == "valid");
  }
}

TEST_CASE("layout, devices and dtypes") {
  check_table(valid_run(),
              {{{"trainer.device=tpu"}, "trainer.device = ", "must be cuda, cpu, auto"},
               {{kMegatron + "dtype=bfloat16"},
                kMegatron + "dtype",
                "dtype bfloat16 not supported by trainer.device = 'cpu' (override 1), it needs "
                "trainer.device=cuda; must be one of float32, float64"},
               {{"trainer.device=check", kMegatron + "dtype=float64"},
                kMegatron + "dtype",
                "dtype float64 not supported by trainer.device = 'check' (override 20), it needs "
                "trainer.device=cpu; must be one of bfloat16, float32"},
               {{kMegatron + "dtype=int8"},
                kMegatron + "dtype",
                "dtype int8 not supported; must be one of"},
               {{kA + "actor.use_kl_loss=True", kA + "ref.megatron.dtype=float64"},
                kA + "ref.megatron.dtype",
                "the reference runs in the actor's dtype"},
               {{kA + "actor.use_kl_loss=True", kA + "ref.megatron.context_parallel_size=2"},
                kA + "ref.megatron.context_parallel_size",
                "the reference runs in the actor's layout"},
               {{kMegatron + "tensor_model_parallel_size=0"},
                kMegatron + "tensor_model_parallel_size",
                "must be a positive integer of at most 1048576"},
               {{kA + "actor.use_kl_loss=True", kA + "ref.megatron.tensor_model_parallel_size=2"},
                kA + "ref.megatron.tensor_model_parallel_size",
                "the reference runs in the actor's layout"},
               {{kMegatron + "pipeline_model_parallel_size=2"},
                kMegatron + "pipeline_model_parallel_size",
                "pipeline parallelism is not implemented; must be 1"},
               {{kMegatron + "context_parallel_size=0"},
                kMegatron + "context_parallel_size",
                "must be a positive integer"},
               {{"trainer.nnodes=0"}, "trainer.nnodes = 0", "must be a positive integer"},
               {{kMegatron + "context_parallel_size=3"},
                "n_gpus (8",
                "actor_rollout_ref.actor.megatron.context_parallel_size = 3 (override "},
               {{kA + "actor.strategy=fsdp"}, kA + "actor.strategy", "must be megatron"}});
}

TEST_CASE("models that the kernels of a GPU cannot run") {
  const std::string key = "+" + kA + "model.override_config.";
  const auto said = [&](const std::string& device, const std::string& more) {
    return failure(valid_run(), {more, "trainer.device=" + device});  // the weights differ too
  };
  CHECK_THAT(said("cuda", key + "hidden_size=8200"),
             ContainsSubstring(kA + "model.path = ") &&
                 ContainsSubstring("a hidden size of 8200; trainer.device = 'cuda' (override ") &&
                 ContainsSubstring("runs at most 8192; trainer.device=cpu runs any"));
  CHECK_THAT(said("cuda", key + "head_dim=264"),
             ContainsSubstring("a head dim of 264; ") && ContainsSubstring("runs at most 256"));
  for (const std::string fine : {"hidden_size=8192", "head_dim=256"}) {
    CHECK_THAT(said("cuda", key + fine), !ContainsSubstring("runs at most"));
  }
  CHECK_THAT(said("cpu", key + "hidden_size=8200"), !ContainsSubstring("runs at most"));
}

TEST_CASE("batch arithmetic") {
  check_table(
      valid_run(),
      {{{"data.train_batch_size=2"}, "data.train_batch_size = 2", "train_batch_size must be >="},
       {{kA + "actor.ppo_mini_batch_size=3"}, kA + "actor.ppo_mini_batch_size = 3", "must divide"},
       {{kA + "actor.ppo_mini_batch_size=0"},
        kA + "actor.ppo_mini_batch_size = 0",
        "must be a positive integer"},
       {{kA + "actor.ppo_micro_batch_size_per_gpu=3"},
        "real_train_batch_size (32",
        "must be divisible by minimal possible batch size (6"},
       {{kA + "actor.ppo_micro_batch_size=4"},
        kA + "actor.ppo_micro_batch_size",
        "You have set both " + kA + "actor.ppo_micro_batch_size and"},
       {{kA + "actor.ppo_micro_batch_size_per_gpu=null"},
        kA + "actor.ppo_micro_batch_size_per_gpu",
        "must be a positive integer, unless "},
       {{kA + "rollout.log_prob_micro_batch_size_per_gpu=null"},
        kA + "rollout.log_prob_micro_batch_size_per_gpu",
        "must be a positive integer, unless "},
       {{kA + "actor.use_kl_loss=True", kA + "ref.log_prob_micro_batch_size_per_gpu=null"},
        kA + "ref.log_prob_micro_batch_size_per_gpu",
        "must be a positive integer, unless "},
       {{kA + "actor.use_dynamic_bsz=True", kA + "rollout.log_prob_use_dynamic_bsz=False"},
        kA + "rollout.log_prob_use_dynamic_bsz",
        "must equal " + kA + "actor.use_dynamic_bsz"},
       {{"data.max_token_len_per_gpu=4096", kA + "ref.log_prob_max_token_len_per_gpu=1",
         kA + "rollout.log_prob_max_token_len_per_gpu=0"},
        kA + "rollout.log_prob_max_token_len_per_gpu = 0",
        "must be a positive integer"},
       {{"data.max_prompt_length=0"}, "data.max_prompt_length = 0", "must be a positive integer"}});
  SECTION("dynamic CP needs no micro-batch size") {
    CHECK(failure(valid_dynamic_run(), {kA + "actor.ppo_micro_batch_size_per_gpu=null"}) ==
          "valid");
  }
}
