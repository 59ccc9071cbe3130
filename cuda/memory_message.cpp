#include "cuda/memory_message.h"

#include <algorithm>

namespace verlcpp::cuda {
namespace {

constexpr const char* kTokenBudget =
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu (with dynamic CP "
    "actor_rollout_ref.actor.megatron.max_seqlen_per_dp_cp_rank)";

/// What makes an item smaller.
std::string remedy(MemoryTag tag) {
  const std::string budget = std::string("lower ") + kTokenBudget;
  const std::string megatron = "actor_rollout_ref.actor.megatron.";
  switch (tag) {
    case MemoryTag::kWeights:
    case MemoryTag::kMainGrad:
      return "raise " + megatron + "tensor_model_parallel_size";
    case MemoryTag::kOptimizer:
      return "set " + megatron + "use_distributed_optimizer=True on more GPUs, or raise " +
             megatron + "tensor_model_parallel_size";
    case MemoryTag::kSaved:
      return budget + ", or set " + megatron +
             "override_transformer_config.recompute_granularity=full";
    case MemoryTag::kWorkspace:
      return budget +
             ", and actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu and "
             "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu where they are set";
    case MemoryTag::kKv:
      return "lower actor_rollout_ref.rollout.max_num_seqs or data.max_response_length";
    case MemoryTag::kLogits:
      return budget +
             " or actor_rollout_ref.rollout.max_num_seqs, or set "
             "actor_rollout_ref.model.use_fused_kernels=True";
    case MemoryTag::kComm:
      return budget;
  }
  return budget;
}

std::string of_the_card(int64_t free, int64_t total) {
  return human_bytes(free) + " of " + human_bytes(total) + " are free";
}

std::string beside_the_plan(const OutOfMemory& refused) {
  std::string text;
  for (const MemoryTag tag : kMemoryTags) {
    const int64_t held = refused.held[tag];
    const int64_t planned = refused.planned ? (*refused.planned)[tag] : 0;
    if (held == 0 && planned == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(name_of(tag)) + " " + human_bytes(held);
    if (refused.planned) text += " (" + human_bytes(planned) + ")";
  }
  if (text.empty()) return "nothing";
  return text + (refused.planned ? "; in brackets what was planned" : "");
}

}  // namespace

std::string out_of_memory_message(const OutOfMemory& refused) {
  std::string text = "out of memory on GPU " + std::to_string(refused.device) + ": " +
                     std::string(name_of(refused.tag)) + " asked for " +
                     human_bytes(refused.asked) + " more, " +
                     of_the_card(refused.free, refused.total) + ". This rank holds " +
                     beside_the_plan(refused) + ". To need less, " + remedy(refused.tag);
  if (refused.ranks_per_gpu > 1) {
    text += "; " + std::to_string(refused.ranks_per_gpu) +
            " ranks share the card (trainer.ranks_per_gpu)";
  }
  return text + "; --dry-run prints what a run needs";
}

std::string in_one_line(const std::string& text) {
  std::string line;
  bool space = false;
  for (const char c : text) {
    const bool white = c == ' ' || (c >= '\t' && c <= '\r');
    if (!white && space && !line.empty()) line += ' ';
    if (!white) line += c;
    space = white;
  }
  return line;
}

std::string full_card_message(int device, int64_t free, int64_t total, const std::string& reason) {
  return "out of memory on GPU " + std::to_string(device) + ": " + of_the_card(free, total) +
         ", too little for what CUDA and its libraries need (" + reason +
         "). End what else runs on the card, choose another with CUDA_VISIBLE_DEVICES, or lower " +
         kTokenBudget + "; --dry-run prints what a run needs";
}

std::string no_room_message(int device, int64_t free, int64_t total, const MemoryBytes& planned,
                            int64_t ranks_per_gpu) {
  const int64_t needed = planned.total;
  std::string text = "GPU " + std::to_string(device) +
                     " has no room for this run: " + of_the_card(free, total) + ", " +
                     human_bytes(needed * ranks_per_gpu) + " are needed";
  if (ranks_per_gpu > 1) {
    text += " by " + std::to_string(ranks_per_gpu) + " ranks of " + human_bytes(needed) +
            " (trainer.ranks_per_gpu)";
  }
  text += ", and " + human_bytes(kForLibraries) + " by CUDA's libraries";
  // Less than the run's own share is missing even from an empty card, or somebody else holds it.
  constexpr int64_t kContext = int64_t{1} << 29;
  if (needed * ranks_per_gpu + kForLibraries + kContext <= total) {
    text +=
        ". Other processes hold the rest: end them, or choose another card with "
        "CUDA_VISIBLE_DEVICES";
  } else {
    const MemoryTag most = *std::ranges::max_element(
        kMemoryTags, {}, [&](const MemoryTag tag) { return planned[tag]; });
    text += ". Most of it, " + human_bytes(planned[most]) + " a rank, is " +
            std::string(name_of(most)) + "; to need less, " + remedy(most);
  }
  return text + "; --dry-run prints what a run needs, item by item";
}

}  // namespace verlcpp::cuda
