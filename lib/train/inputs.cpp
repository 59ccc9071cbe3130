#include "train/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "data/chat_template.h"
#include "model/tp_shard.h"
#include "rollout/reward.h"
#include "train/cost_subject.h"
#include "train/optimizer.h"
#include "train/update_pass.h"
#include "train/validate_findings.h"

namespace verlcpp::train {
namespace {

nlohmann::ordered_json to_json(const config::Node& node) {
  if (node.is_map()) {
    nlohmann::ordered_json map = nlohmann::ordered_json::object();
    for (const auto& [key, value] : node.items()) map[key] = to_json(value);
    return map;
  }
  if (node.is_list()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const config::Node& element : node.elements()) list.push_back(to_json(element));
    return list;
  }
  if (const auto* b = node.get_if<bool>()) return *b;
  if (const auto* i = node.get_if<int64_t>()) return *i;
  if (const auto* d = node.get_if<double>()) return *d;
  if (const auto* s = node.get_if<std::string>()) return *s;
  return nullptr;
}

/// config.json with actor_rollout_ref.model.override_config merged in.
model::ModelConfig load_model_config(const ModelSection& section, const std::string& folder) {
  model::ModelConfig config = model::read_model_config(folder);
  if (!section.override_config.is_map() || section.override_config.items().empty()) return config;
  auto json = nlohmann::json::parse(config.json);
  json.merge_patch(nlohmann::json::parse(to_json(section.override_config).dump()));
  const std::vector<int32_t> eos = config.eos_token_ids;
  config = model::parse_model_config(json.dump(2), folder +
                                                       "/config.json with "
                                                       "actor_rollout_ref.model.override_config");
  if (!section.override_config.find("eos_token_id")) config.eos_token_ids = eos;
  return config;
}

/// The prompt's tokens, cut to the limit as data.truncation says.
std::vector<int32_t> encode_prompt(const DataConfig& config, const data::Tokenizer& tokenizer,
                                   const data::ChatTemplate& chat, const data::PromptRow& row) {
  const int64_t limit = config.max_prompt_length;
  auto ids = tokenizer.encode(data::render_chat(chat, row.prompt, true, row.tools_json));
  if (config.filter_overlong_prompts && static_cast<int64_t>(ids.size()) > limit) return ids;
  ids = truncate_prompt(std::move(ids), limit, config.truncation);
  if (ids.empty()) throw DataError("the prompt renders to no token");
  return ids;
}

/// What is wrong with rows as prompts of this model; one message shows it all.
class BadRows {
 public:
  void add(const data::PromptRow& row, const std::string& problem) {
    if (++rows_ <= kShown) text_ += "\n  " + row.origin + ": " + problem;
  }
  void throw_if_any() const {
    if (rows_ == 0) return;
    throw DataError(
        fmt::format("data.train_files: {} bad row{}:{}{}", rows_, rows_ == 1 ? "" : "s", text_,
                    rows_ > kShown ? fmt::format("\n  and {} more", rows_ - kShown) : ""));
  }

 private:
  static constexpr int64_t kShown = 20;
  int64_t rows_ = 0;
  std::string text_;
};

/// The folder's chat template, or custom_chat_template, with apply_chat_template_kwargs.
data::ChatTemplate load_chat_template(const TrainConfig& config, const std::string& folder,
                                      const config::Node& tree) {
  const std::string key = "actor_rollout_ref.model.custom_chat_template";
  const config::Node* custom = tree.find(key);
  const std::string origin = custom != nullptr ? " (" + custom->origin().text + ")" : "";
  const config::Node& kwargs = config.data.apply_chat_template_kwargs;
  return data::load_chat_template(folder,
                                  {.custom = config.actor_rollout_ref.model.custom_chat_template,
                                   .custom_where = key + origin,
                                   .kwargs_json = kwargs.is_map() ? to_json(kwargs).dump() : "{}"});
}

/// Renders, encodes and cuts every prompt; drops overlong rows when filter_overlong_prompts says
/// so.
void tokenize(const TrainConfig& config, const config::Node& tree, Inputs& inputs,
              const std::function<void()>& beat) {
  const data::ChatTemplate chat = load_chat_template(config, inputs.model_folder, tree);
  const size_t total = inputs.rows.size();
  std::vector<data::PromptRow> kept;
  BadRows bad;
  for (data::PromptRow& row : inputs.rows) {
    beat();
    try {
      auto ids = encode_prompt(config.data, *inputs.tokenizer, chat, row);
      if (static_cast<int64_t>(ids.size()) > config.data.max_prompt_length) continue;
      inputs.prompt_ids.push_back(std::move(ids));
      kept.push_back(std::move(row));
    } catch (const DataError& e) {
      bad.add(row, e.what());
    }
  }
  bad.throw_if_any();
  inputs.rows = std::move(kept);
  if (static_cast<int64_t>(inputs.rows.size()) < config.data.train_batch_size) {
    const std::string dropped =
        inputs.rows.size() == total
            ? ""
            : fmt::format(" of at most data.max_prompt_length={} tokens ({} longer dropped)",
                          config.data.max_prompt_length, total - inputs.rows.size());
    throw DataError(
        fmt::format("data.train_files: {} prompts{}, fewer than data.train_batch_size={}",
                    inputs.rows.size(), dropped, config.data.train_batch_size));
  }
  if (config.data.filter_overlong_prompts) {
    log::info("filter dataset len: " + std::to_string(inputs.rows.size()));
  }
}

void load_prompts(const TrainConfig& config, const config::Node& tree, Inputs& inputs,
                  const std::function<void()>& beat) {
  const DataConfig& d = config.data;
  const auto seed = static_cast<uint64_t>(d.seed.value_or(0));
  inputs.rows = data::load_prompts({.train_files = d.train_files,
                                    .prompt_key = d.prompt_key,
                                    .reward_fn_key = d.reward_fn_key,
                                    .train_max_samples = d.train_max_samples,
                                    .shuffle = d.shuffle,
                                    .seed = seed});
  rollout::check_data_sources(inputs.rows);
  beat();
  inputs.tokenizer = data::Tokenizer::load(inputs.model_folder);
  if (inputs.tokenizer->vocab_size() > inputs.model.vocab) {
    throw DataError(fmt::format(
        "{}: tokenizer.json has {} tokens, config.json a vocab_size of {}; valid: a vocab_size of "
        "at least {}",
        inputs.model_folder, inputs.tokenizer->vocab_size(), inputs.model.vocab,
        inputs.tokenizer->vocab_size()));
  }
  tokenize(config, tree, inputs, beat);
  const data::PromptOrder order(static_cast<int64_t>(inputs.rows.size()), d.train_batch_size,
                                d.shuffle, seed);
  inputs.steps_per_epoch = order.steps_per_epoch();
  // verl's loop ends at whichever comes first.
  const int64_t epochs = config.trainer.total_epochs * inputs.steps_per_epoch;
  inputs.total_steps = std::min(config.trainer.total_training_steps.value_or(epochs), epochs);
}

/// Plans follow from lengths alone, so a micro-batch of several temperatures, which the fused
/// linear cross entropy cannot do, is known before any weight is loaded.
void check_temperatures(const TrainConfig& config, const data::ReplayReader& recorded,
                        int64_t steps, const std::function<void()>& beat) {
  const UpdateOptions options = update_options(config);
  const auto check = [&](Pass pass, std::span<const data::Trajectory> batch) {
    check_uniform_temperature(make_planner(batching_rule(config, pass))(lengths_of(batch)), batch);
  };
  for (int64_t step = 0; step < steps; ++step) {
    beat();
    const std::vector<data::Trajectory> batch = recorded.step(step);
    check(Pass::kOldLogProb, batch);
    if (config.uses_reference()) check(Pass::kRefLogProb, batch);
    for (const auto& samples : mini_batches(static_cast<int64_t>(batch.size()), options, step)) {
      std::vector<data::Trajectory> mini;
      for (int sample : samples) mini.push_back(batch[static_cast<size_t>(sample)]);
      check(Pass::kActorUpdate, mini);
    }
  }
}

void load_recorded(const TrainConfig& config, Inputs& inputs, const std::function<void()>& beat,
                   std::optional<int64_t> played_back) {
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  inputs.recorded.emplace(data::ReplayOptions{.path = *rollout.replay_path,
                                              .train_batch_size = config.data.train_batch_size,
                                              .n = rollout.n,
                                              .vocab = inputs.model.vocab,
                                              .max_prompt_length = config.data.max_prompt_length,
                                              .max_response_length = rollout.response_length});
  const int64_t steps = inputs.recorded->steps();
  inputs.total_steps = config.trainer.total_training_steps.value_or(std::max<int64_t>(steps, 1));
  const int64_t needed = played_back.value_or(inputs.total_steps);
  inputs.recorded->require_steps(needed);
  if (config.actor_rollout_ref.model.use_fused_kernels) {
    check_temperatures(config, *inputs.recorded, needed, beat);
  }
  inputs.steps_per_epoch = inputs.total_steps;
}

void check_tensor_parallel(const TrainConfig& config, const Inputs& inputs,
                           const config::Node& tree) {
  const int64_t tp = config.actor_rollout_ref.actor.megatron.tensor_model_parallel_size;
  const std::string complaint = model::tp_complaint(inputs.model, tp);
  if (complaint.empty()) return;
  std::string valid;
  for (int64_t size = 1; size <= inputs.model.heads; ++size) {
    if (!model::tp_complaint(inputs.model, size).empty()) continue;
    valid += (valid.empty() ? "" : ", ") + std::to_string(size);
  }
  throw ConfigError(fmt::format(
      "{} {} ({}/config.json); valid for this model: {}",
      Findings(tree).about("actor_rollout_ref.actor.megatron.tensor_model_parallel_size"),
      complaint, inputs.model_folder, valid));
}

/// Calls `visit` for the cost files that the run plans by, with the keys that name them.
void for_each_cost_file(
    const TrainConfig& config, const config::Node& tree,
    const std::function<void(const PassCosts&, const std::string& about)>& visit) {
  const MegatronConfig& actor = config.actor_rollout_ref.actor.megatron;
  const MegatronConfig& ref = config.actor_rollout_ref.ref.megatron;
  const auto about = [&](const std::string& role) {
    return Findings(tree).about("actor_rollout_ref." + role + ".megatron.dynamic_cp_cost_model");
  };
  if (actor.costs.measured) visit(actor.costs, about("actor"));
  const bool own = ref.dynamic_cp_cost_model != actor.dynamic_cp_cost_model;
  if (own && config.uses_reference() && ref.costs.measured) visit(ref.costs, about("ref"));
}

/// Measured costs hold for the model, dtype and TP size that were measured.
void warn_of_other_costs(const TrainConfig& config, const model::ModelConfig& model,
                         const config::Node& tree) {
  const std::string subject = cost_subject(model, config);
  for_each_cost_file(config, tree, [&](const PassCosts& costs, const std::string& about) {
    if (costs.subject == subject) return;
    log::warning(about + " was measured for " + costs.subject + "; this run is " + subject);
  });
}

}  // namespace

std::vector<std::string> device_warnings(const TrainConfig& config, const config::Node& tree,
                                         const std::string& device) {
  std::vector<std::string> warnings;
  for_each_cost_file(config, tree, [&](const PassCosts& costs, const std::string& about) {
    if (costs.device.empty() || device.empty() || costs.device == device) return;
    if (device == kSomeGpu && costs.device != "cpu") return;
    warnings.push_back(about + " was measured on " + costs.device + "; this run is on " + device);
  });
  return warnings;
}

std::vector<int32_t> truncate_prompt(std::vector<int32_t> ids, int64_t limit,
                                     const std::string& truncation) {
  const auto n = static_cast<int64_t>(ids.size());
  if (n <= limit) return ids;
  if (truncation == "left") return {ids.end() - limit, ids.end()};
  if (truncation == "right") return {ids.begin(), ids.begin() + limit};
  if (truncation == "middle") {
    const int64_t head = limit / 2;
    ids.erase(ids.begin() + head, ids.end() - (limit - head));
    return ids;
  }
  throw DataError(
      fmt::format("the prompt has {} tokens, data.max_prompt_length is {}; raise it, set "
                  "data.filter_overlong_prompts=True, or data.truncation to left, right or middle",
                  n, limit));
}

Inputs load_inputs(const TrainConfig& config, const config::Node& tree,
                   const std::function<void()>& beat, std::optional<int64_t> recorded_steps) {
  const std::function<void()> alive = beat ? beat : [] {};
  Inputs inputs;
  inputs.model_folder = config.actor_rollout_ref.model.path;
  inputs.model = load_model_config(config.actor_rollout_ref.model, inputs.model_folder);
  check_tensor_parallel(config, inputs, tree);
  warn_of_other_costs(config, inputs.model, tree);
  if (config.actor_rollout_ref.rollout.name == "replay") {
    load_recorded(config, inputs, alive, recorded_steps);
  } else {
    load_prompts(config, tree, inputs, alive);
  }
  check_warmup(config.actor_rollout_ref.actor.optim, inputs.total_steps, tree);
  return inputs;
}

}  // namespace verlcpp::train
