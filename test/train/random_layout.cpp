#include "random_layout.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "base/rng.h"
#include "model/tp_shard.h"
#include "train/update_pass.h"

namespace verlcpp::test {

namespace {

constexpr int64_t kMaxWorld = 16;
constexpr int64_t kPrompts = 4;  // layout_case's data.train_batch_size

/// Draws one after the other, from a counter.
class Dice {
 public:
  Dice(uint64_t seed, uint32_t stream, int64_t index)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32) ^ 0xD1CEu},
        counter_{static_cast<uint32_t>(index), stream, 0, 0} {}

  double uniform() {
    ++counter_[2];
    return uniform_open(philox4x32(counter_, key_)[0]);
  }
  bool chance(double probability) { return uniform() < probability; }
  /// Between first and last, both included.
  int64_t integer(int64_t first, int64_t last) {
    const auto offset = static_cast<int64_t>(uniform() * static_cast<double>(last - first + 1));
    return first + offset;
  }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<size_t>(integer(0, static_cast<int64_t>(values.size()) - 1))];
  }

 private:
  PhiloxKey key_;
  PhiloxCounter counter_;
};

std::string text(int64_t number) { return std::to_string(number); }
std::string text(bool value) { return value ? "True" : "False"; }

model::ModelConfig draw_model(Dice& dice) {
  model::ModelConfig c;
  c.architecture = dice.one_of<std::string>(
      {"Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM", "LlamaForCausalLM"});
  c.vocab = 2 * dice.integer(11, 18) + 1;
  c.hidden = 4 * dice.integer(2, 5);
  c.ffn = 4 * dice.integer(2, 7);
  c.layers = dice.integer(1, 2);
  c.heads = dice.one_of<int64_t>({1, 2, 4, 4, 8});
  do {
    c.kv_heads = dice.one_of<int64_t>({1, 2, 4, 8});
  } while (c.kv_heads > c.heads);
  c.head_dim = dice.one_of<int64_t>({2, 4, 6});
  c.qkv_bias = c.architecture == "Qwen2ForCausalLM";
  c.qk_norm = c.architecture == "Qwen3ForCausalLM";
  c.tied_embeddings = dice.chance(0.5);
  return c;
}

/// Holes, silent samples; at least one token is trainable, so that there is a gradient to compare.
void draw_masks(Dice& dice, std::vector<data::Trajectory>& batch) {
  const bool holes = dice.chance(0.5), silent = dice.chance(0.5);
  for (data::Trajectory& t : batch) {
    t.response_mask.assign(t.response_ids.size(), 1);
    const bool none = silent && dice.chance(0.15);
    for (uint8_t& m : t.response_mask) m = none || (holes && dice.chance(0.2)) ? 0 : 1;
  }
  batch.front().response_mask.front() = 1;
}

/// Lengths of very different kinds; rewards are numbers without ties, since equal rewards of a
/// group leave no gradient to compare.
std::vector<data::Trajectory> draw_batch(Dice& dice, int64_t vocab, int64_t n) {
  const int64_t longest_prompt = dice.integer(1, 14), longest_response = dice.integer(2, 20);
  const bool equal_lengths = dice.chance(0.1), one_giant = dice.chance(0.2);
  const bool hot = dice.chance(0.5);
  const int64_t giant = dice.integer(0, kPrompts * n - 1);
  std::vector<data::Trajectory> batch;
  for (int64_t s = 0; s < kPrompts * n; ++s) {
    data::Trajectory& t = batch.emplace_back();
    t.uid = "group" + text(s / n);
    const bool whole = equal_lengths || (one_giant && s == giant);
    const int64_t cap = one_giant ? 2 : longest_response;
    const int64_t prompt = whole ? longest_prompt : dice.integer(1, longest_prompt);
    const int64_t response = whole ? longest_response : dice.integer(1, cap);
    for (int64_t i = 0; i < prompt + response; ++i) {
      const auto id = static_cast<int32_t>(dice.integer(0, vocab - 1));
      (i < prompt ? t.prompt_ids : t.response_ids).push_back(id);
    }
    t.reward = dice.uniform();
    t.temperature = hot ? dice.one_of<double>({0.7, 1.0, 1.3}) : 1.0;
  }
  draw_masks(dice, batch);
  return batch;
}

std::vector<std::string> draw_loss(Dice& dice) {
  using Texts = std::vector<std::string>;
  const Texts kl_types{"kl", "abs", "mse", "low_var_kl", "k1+", "k3+"};
  return {
      actor("loss_agg_mode=") +
          dice.one_of<std::string>({"token-mean", "token-sum", "seq-mean-token-sum",
                                    "seq-mean-token-mean", "seq-mean-token-sum-norm"}),
      actor("loss_scale_factor=") + dice.one_of<std::string>({"null", "7"}),
      actor("use_kl_loss=") + text(dice.chance(0.5)),
      actor("kl_loss_type=") + dice.one_of(kl_types),
      actor("kl_loss_coef=") + dice.one_of<std::string>({"0.001", "0.1", "1.0"}),
      actor("entropy_coeff=") + dice.one_of<std::string>({"0", "0.01", "-0.02"}),
      actor("clip_ratio_low=") + dice.one_of<std::string>({"0.2", "0.01", "0.0003"}),
      actor("clip_ratio_high=") + dice.one_of<std::string>({"0.28", "0.01", "0.0003"}),
      actor("clip_ratio_c=") + dice.one_of<std::string>({"3.0", "1.5", "1.01"}),
      "algorithm.use_kl_in_reward=" + text(dice.chance(0.5)),
      "algorithm.kl_penalty=" + dice.one_of(Texts{"kl", "abs", "mse", "low_var_kl"}),
      "algorithm.norm_adv_by_std_in_grpo=" + text(dice.chance(0.7)),
  };
}

std::vector<std::string> draw_updates(Dice& dice) {
  return {actor("ppo_epochs=") + text(dice.integer(1, 2)),
          actor("ppo_mini_batch_size=") + text(dice.one_of<int64_t>({1, 2, 4})),
          actor("shuffle=") + text(dice.chance(0.5)),
          actor("optim.lr=") + dice.one_of<std::string>({"2e-3", "5e-4"}),
          actor("optim.weight_decay=") + dice.one_of<std::string>({"0.01", "0.0"}),
          actor("optim.clip_grad=") + dice.one_of<std::string>({"0.5", "1.0", "0.05"})};
}

/// How much of the activations is recomputed. It is no layout, but may not change a number either.
std::vector<std::string> draw_recompute(Dice& dice) {
  const std::string key = megatron("override_transformer_config.recompute_");
  const int64_t which = dice.integer(0, 5);
  if (which == 0) return {key + "granularity=selective"};
  if (which > 2) return {};
  return {key + "granularity=full", key + "method=" + (which == 1 ? "uniform" : "block"),
          key + "num_layers=1"};
}

/// Whether a trainable token of `t` is predicted by a row that attends to another token than
/// itself.
bool reads_its_past(const data::Trajectory& t) {
  const auto first = t.response_mask.begin() + (t.prompt_length() > 1 ? 0 : 1);
  return std::find(first, t.response_mask.end(), 1) != t.response_mask.end();
}

/// Where no trainable token reads its past, the gradients of q and k are zero but for rounding, and
/// AdamW's first step divides that rounding by its epsilon of 1e-8. Every mini-batch with a
/// trainable token gets one that does.
void give_attention_a_gradient(RandomCase& c) {
  const train::UpdateOptions options = update_options(make_config({}, c.overrides));
  for (const auto& samples : mini_batches(static_cast<int64_t>(c.batch.size()), options, 0)) {
    bool done = false;
    data::Trajectory* trainable = nullptr;
    for (int sample : samples) {
      data::Trajectory& t = c.batch[static_cast<size_t>(sample)];
      done = done || reads_its_past(t);
      if (std::count(t.response_mask.begin(), t.response_mask.end(), 1) > 0) trainable = &t;
    }
    if (!done && trainable != nullptr) trainable->prompt_ids.push_back(0);
  }
}

/// The longest prompt and response bound the case; validate() wants their sum to fit.
void set_lengths(RandomCase& c) {
  int64_t prompt = 0, response = 0;
  for (const data::Trajectory& t : c.batch) {
    prompt = std::max(prompt, t.prompt_length());
    response = std::max(response, t.response_length());
  }
  c.longest = prompt + response;
  c.overrides.insert(c.overrides.end(), {"data.max_prompt_length=" + text(prompt),
                                         "data.max_response_length=" + text(response)});
}

/// DP, CP and what cuts a static batch.
void draw_static(Dice& dice, RandomLayout& l, const RandomCase& of) {
  l.cp = dice.integer(1, std::min<int64_t>(8, kMaxWorld / l.tp));
  const int64_t dp = dice.integer(1, kMaxWorld / l.tp / l.cp);
  l.pool = dp * l.cp;
  std::vector<int64_t> sizes;  // verl: dp x micro-batch size divides the responses of a step
  for (int64_t size = 1; size <= 6; ++size) {
    if (kPrompts * of.n % (dp * size) == 0) sizes.push_back(size);
  }
  l.dynamic_bsz = sizes.empty() || dice.chance(0.5);
  if (!l.dynamic_bsz) {
    l.overrides = micro_batches_of(static_cast<int>(dice.one_of(sizes)));
    return;
  }
  const int64_t smallest = (of.longest + l.cp - 1) / l.cp;
  for (const char* key : {"actor.ppo", "rollout.log_prob", "ref.log_prob"}) {
    l.overrides.push_back(std::string("actor_rollout_ref.") + key +
                          "_max_token_len_per_gpu=" + text(dice.integer(smallest, 3 * smallest)));
  }
}

void draw_dynamic(Dice& dice, RandomLayout& l, const RandomCase& of) {
  l.pool = 2 * dice.integer(1, kMaxWorld / l.tp / 2);
  do {
    l.cp = dice.integer(1, l.pool);
  } while (l.pool % l.cp != 0);
  const int64_t smallest = (of.longest + l.pool - 1) / l.pool;
  const int64_t limit = dice.integer(smallest, std::max(smallest, of.longest));
  l.overrides = {megatron("dynamic_context_parallel=True"),
                 megatron("max_seqlen_per_dp_cp_rank=") + text(limit)};
  if (dice.chance(0.3)) {
    l.overrides.push_back("+" +
                          megatron("override_transformer_config."
                                   "min_dynamic_context_parallel_size=") +
                          text(dice.integer(1, l.pool)));
  }
}

}  // namespace

RandomCase draw_case(uint64_t seed, int64_t number) {
  Dice dice(seed, 1, number);
  RandomCase c;
  c.model = draw_model(dice);
  c.n = dice.integer(1, 6);
  c.batch = draw_batch(dice, c.model.vocab, c.n);
  c.overrides = draw_loss(dice);
  for (std::string& o : draw_updates(dice)) c.overrides.push_back(std::move(o));
  c.overrides.insert(c.overrides.end(), {"actor_rollout_ref.ref.megatron.dtype=float64",
                                         "actor_rollout_ref.rollout.n=" + text(c.n)});
  give_attention_a_gradient(c);
  set_lengths(c);
  return c;
}

RandomLayout draw_layout(uint64_t seed, int64_t index, const RandomCase& of) {
  Dice dice(seed, 2, index);
  RandomLayout l;
  do {
    l.tp = dice.one_of<int64_t>({1, 2, 4});
  } while (!model::tp_complaint(of.model, l.tp).empty());
  l.dynamic_cp = dice.chance(0.5);
  if (l.dynamic_cp) {
    draw_dynamic(dice, l, of);
  } else {
    draw_static(dice, l, of);
  }
  l.sequence_parallel = l.tp > 1 && dice.chance(0.5);
  l.zero1 = dice.chance(0.6);
  l.shuffle_packing = dice.chance(0.5);
  l.overrides.insert(l.overrides.end(), {"trainer.n_gpus_per_node=" + text(l.tp * l.pool),
                                         megatron("tensor_model_parallel_size=") + text(l.tp),
                                         megatron("context_parallel_size=") + text(l.cp),
                                         megatron("sequence_parallel=") + text(l.sequence_parallel),
                                         megatron("use_distributed_optimizer=") + text(l.zero1)});
  for (std::string& o : draw_recompute(dice)) l.overrides.push_back(std::move(o));
  l.fused_head = dice.chance(0.3);
  l.overrides.push_back("actor_rollout_ref.model.use_fused_kernels=" + text(l.fused_head));
  return l;
}

namespace {

/// The whole of `text` as digits, at most `limit`.
template <class T>
std::optional<T> whole_number(std::string_view text, T limit) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool digits = text.find_first_not_of("0123456789") == std::string_view::npos;
  if (error != std::errc() || end != text.data() + text.size() || !digits) return {};
  return value > limit ? std::nullopt : std::optional(value);
}

}  // namespace

DrawRange parse_draws(const std::string& text) {
  // A draw counts in 32 bits.
  constexpr int64_t kLargest = std::numeric_limits<uint32_t>::max();
  const std::string_view all = text;
  const size_t colon = std::min(all.find(':'), all.size()), dash = all.find('-', colon);
  const auto seed = whole_number(all.substr(0, colon), std::numeric_limits<uint64_t>::max());
  std::optional<int64_t> first, last;
  if (colon < all.size()) {
    first = whole_number(all.substr(colon + 1, std::min(dash, all.size()) - colon - 1), kLargest);
    last = dash == std::string_view::npos ? first : whole_number(all.substr(dash + 1), kLargest);
  }
  if (seed && first && last && *first <= *last) return {*seed, *first, *last};
  throw std::invalid_argument("VERLCPP_LAYOUT_DRAW is \"" + text +
                              "\"; valid: SEED:INDEX or SEED:FIRST-LAST, whole numbers from 0, an "
                              "index of at most " +
                              std::to_string(kLargest) + ", FIRST not after LAST");
}

}  // namespace verlcpp::test
