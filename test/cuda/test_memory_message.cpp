#include "cuda/memory_message.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::cuda;

namespace {
constexpr int64_t kGiB = int64_t{1} << 30;

/// All but half a GiB is of `tag`.
MemoryBytes planned(int64_t gib, MemoryTag tag) {
  MemoryBytes bytes;
  bytes.add(MemoryTag::kWorkspace, kGiB / 2);
  bytes.add(tag, gib * kGiB - kGiB / 2);
  return bytes;
}
}  // namespace

TEST_CASE("out of memory names device, item, bytes, card, holdings, plan and the keys to lower") {
  OutOfMemory refused{.device = 3,
                      .tag = MemoryTag::kSaved,
                      .asked = 3 * kGiB,
                      .free = kGiB,
                      .total = 139 * kGiB,
                      .held = {},
                      .planned = MemoryBytes{},
                      .ranks_per_gpu = 2};
  refused.held.add(MemoryTag::kWeights, kGiB);
  refused.held.add(MemoryTag::kSaved, 40 * kGiB);
  refused.planned->add(MemoryTag::kWeights, kGiB);
  refused.planned->add(MemoryTag::kSaved, 41 * kGiB);
  CHECK(out_of_memory_message(refused) ==
        "out of memory on GPU 3: saved asked for 3.00 GiB more, 1.00 GiB of 139.00 GiB are free. "
        "This rank holds weights 1.00 GiB (1.00 GiB), saved 40.00 GiB (41.00 GiB); in brackets "
        "what was planned. To need less, lower actor_rollout_ref.actor.ppo_max_token_len_per_gpu "
        "(with dynamic CP actor_rollout_ref.actor.megatron.max_seqlen_per_dp_cp_rank), or set "
        "actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full; "
        "2 ranks share the card (trainer.ranks_per_gpu); --dry-run prints what a run needs");
}

TEST_CASE("each item has a remedy of its own") {
  const auto remedy_names = [](MemoryTag tag, const std::string& key) {
    return out_of_memory_message({.tag = tag, .held = {}, .planned = {}}).find(key) !=
           std::string::npos;
  };
  CHECK(remedy_names(MemoryTag::kWeights, "tensor_model_parallel_size"));
  CHECK(remedy_names(MemoryTag::kMainGrad, "tensor_model_parallel_size"));
  CHECK(remedy_names(MemoryTag::kOptimizer, "use_distributed_optimizer"));
  CHECK(remedy_names(MemoryTag::kSaved, "recompute_granularity"));
  CHECK(remedy_names(MemoryTag::kWorkspace, "log_prob_max_token_len_per_gpu"));
  CHECK(remedy_names(MemoryTag::kKv, "max_num_seqs"));
  CHECK(remedy_names(MemoryTag::kLogits, "use_fused_kernels"));
  CHECK(remedy_names(MemoryTag::kComm, "max_seqlen_per_dp_cp_rank"));
}

TEST_CASE("a rank without a plan says what it holds, if anything") {
  CHECK(out_of_memory_message({.asked = 17, .free = 5, .total = 9, .held = {}, .planned = {}})
            .starts_with("out of memory on GPU 0: workspace asked for 17 B more, 5 B of 9 B are "
                         "free. This rank holds nothing. To need less, "));
}

TEST_CASE("a card that others fill, and one that is too small") {
  CHECK(no_room_message(1, 10 * kGiB, 139 * kGiB, planned(30, MemoryTag::kSaved), 2) ==
        "GPU 1 has no room for this run: 10.00 GiB of 139.00 GiB are free, 60.00 GiB are needed by "
        "2 ranks of 30.00 GiB (trainer.ranks_per_gpu), and 1.00 GiB by CUDA's libraries. Other "
        "processes hold the rest: end them, or "
        "choose another card with CUDA_VISIBLE_DEVICES; --dry-run prints what a run needs, item by "
        "item");
  CHECK(
      no_room_message(0, 138 * kGiB, 139 * kGiB, planned(150, MemoryTag::kKv), 1) ==
      "GPU 0 has no room for this run: 138.00 GiB of 139.00 GiB are free, 150.00 GiB are needed, "
      "and 1.00 GiB by CUDA's libraries. Most of it, 149.50 GiB a rank, is kv; to need less, lower "
      "actor_rollout_ref.rollout.max_num_seqs or data.max_response_length; --dry-run prints what "
      "a run needs, item by item");
  CHECK(no_room_message(0, 138 * kGiB, 139 * kGiB, planned(150, MemoryTag::kOptimizer), 1)
            .find("is optimizer; to need less, set "
                  "actor_rollout_ref.actor.megatron.use_distributed_optimizer=True") !=
        std::string::npos);
}

TEST_CASE("a message of several lines becomes one") {
  CHECK(in_one_line("\n err 2\n   at: x,\tand\r\ncode ") == "err 2 at: x, and code");
  CHECK(in_one_line("") == "");
}

TEST_CASE("a plan that an empty card all but holds is not blamed on others") {
  const std::string message =
      no_room_message(0, 138 * kGiB + kGiB / 2, 139 * kGiB, planned(138, MemoryTag::kSaved), 1);
  CHECK(message.find("; to need less, lower ") != std::string::npos);
}

TEST_CASE("a card that a library found full") {
  CHECK(full_card_message(2, 3 * kGiB / 1024, 139 * kGiB, "CUDA: embedding: out of memory") ==
        "out of memory on GPU 2: 3.00 MiB of 139.00 GiB are free, too little for what CUDA and its "
        "libraries need (CUDA: embedding: out of memory). End what else runs on the card, choose "
        "another with CUDA_VISIBLE_DEVICES, or lower "
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu (with dynamic CP "
        "actor_rollout_ref.actor.megatron.max_seqlen_per_dp_cp_rank); --dry-run prints what a run "
        "needs");
}
