#include "train/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "data/chat_template.h"
#include "data/special_token_texts.h"
#include "train/cost_subject.h"
#include "train/node_json.h"
#include "train/optimizer.h"
#include "train/tool_config.h"
#include "train/update_pass.h"
#include "train/validate_findings.h"

namespace verlcpp::train {
namespace {

/// verl's words, which it says before it has read a row.
constexpr const char* kChecksPassed =
    "[validate_config] All configuration checks passed successfully!";

/// Loads from the model folder; the message about one of its files begins with the key that names
/// the folder.
template <class Load>
auto from_model_folder(const config::Node& tree, Load&& load) {
  try {
    return load();
  } catch (const DataError& error) {
    throw DataError(Findings(tree).about("actor_rollout_ref.model.path") + ": " + error.what());
  }
}

/// The folder's chat template, or custom_chat_template, with apply_chat_template_kwargs and tools.
data::ChatTemplate load_chat_template(const TrainConfig& config, const std::string& folder,
                                      const config::Node& tree) {
  const std::string key = "actor_rollout_ref.model.custom_chat_template";
  const config::Node* custom = tree.find(key);
  const std::string origin = custom != nullptr ? " (" + custom->origin().text + ")" : "";
  const config::Node& kwargs = config.data.apply_chat_template_kwargs;
  const auto& text = config.actor_rollout_ref.model.custom_chat_template;
  const auto load = [&] {
    return data::load_chat_template(folder,
                                    {.custom = text,
                                     .custom_where = key + origin,
                                     .kwargs_json = kwargs.is_map() ? json_text(kwargs) : "{}"});
  };
  data::ChatTemplate chat = text ? load() : from_model_folder(tree, load);
  const auto expect_template = [&](const std::string& name) {
    if (!chat.templates.empty()) return;
    throw DataError(Findings(tree).about(name) + ": " + folder +
                    " has no chat template that would read it; set " + key);
  };
  if (kwargs.is_map() && !kwargs.items().empty())
    expect_template("data.apply_chat_template_kwargs");
  if (const auto& tools = config.data.tool_config_path) {
    expect_template("data.tool_config_path");
    chat.tools_json = read_tool_config(*tools, Findings(tree).about("data.tool_config_path"));
  }
  return chat;
}

/// The tokenizer's end of sequence ends a response too, as in verl's vLLM, whatever config.json
/// says.
void add_tokenizer_eos(Inputs& inputs) {
  const auto texts = data::read_special_token_texts(inputs.model_folder);
  const auto found = texts.find("eos_token");
  if (found == texts.end()) return;
  if (const auto id = inputs.tokenizer->token_id(found->second)) inputs.model.add_eos(*id);
}

data::Tokenizer load_tokenizer(const Inputs& inputs) {
  data::Tokenizer tokenizer = data::Tokenizer::load(inputs.model_folder);
  const int64_t tokens = tokenizer.vocab_size();
  if (tokens <= inputs.model.vocab) return tokenizer;
  throw DataError(
      fmt::format("{}: tokenizer.json has {} tokens, config.json a vocab_size of {}; valid: a "
                  "vocab_size of at least {}",
                  inputs.model_folder, tokens, inputs.model.vocab, tokens));
}

void load_prompts(const TrainConfig& config, const config::Node& tree, Inputs& inputs,
                  const std::function<void()>& beat) {
  const DataConfig& d = config.data;
  inputs.tokenizer = from_model_folder(tree, [&] { return load_tokenizer(inputs); });
  add_tokenizer_eos(inputs);
  const data::ChatTemplate chat = load_chat_template(config, inputs.model_folder, tree);
  inputs.reward = std::make_unique<reward::Manager>(
      manager_options(config.reward, config.trainer.experiment_name), beat);
  beat();
  Prompts prompts =
      scan_prompts(d, train_prompt_files(d), *inputs.tokenizer, chat, *inputs.reward, beat);
  inputs.rows = std::move(prompts.rows);
  inputs.prompt_ids = std::move(prompts.ids);
  const auto count = static_cast<int64_t>(inputs.rows.size());
  if (count < d.train_batch_size) {
    const Findings findings(tree);
    throw DataError(fmt::format("{}: {} prompt{}{}, fewer than {}; valid: a batch of at most {}",
                                findings.about("data.train_files"), count, count == 1 ? "" : "s",
                                d.filter_overlong_prompts ? " after filtering" : "",
                                findings.about("data.train_batch_size"), count));
  }
  if (const auto files = prompt_files(config, tree); files.size() > 1) {
    inputs.validation = scan_prompts(d, files[1], *inputs.tokenizer, chat, *inputs.reward, beat);
  }
  const data::PromptOrder order(count, d.train_batch_size, d.shuffle,
                                static_cast<uint64_t>(d.seed.value_or(0)));
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

model::ConfigOverride config_override(const ModelSection& model) {
  const config::Node& all = model.override_config;
  const config::Node* group = all.is_map() ? all.find("model_config") : nullptr;
  const config::Node& wanted = group != nullptr ? *group : all;
  if (!wanted.is_map() || wanted.items().empty()) return {};
  return {.json = json_text(wanted),
          .where = "actor_rollout_ref.model.override_config = " + config::to_inline(wanted) + " (" +
                   wanted.items().front().second.origin().text + ")"};
}

Inputs load_inputs(const TrainConfig& config, const config::Node& tree,
                   const std::function<void()>& beat, std::optional<int64_t> recorded_steps) {
  const std::function<void()> alive = beat ? beat : [] {};
  Inputs inputs;
  inputs.model_folder = config.actor_rollout_ref.model.path;
  inputs.model = from_model_folder(tree, [&] {
    return model::read_model_config(inputs.model_folder,
                                    config_override(config.actor_rollout_ref.model));
  });
  warn_of_other_costs(config, inputs.model, tree);
  if (config.actor_rollout_ref.rollout.name == "replay") {
    load_recorded(config, inputs, alive, recorded_steps);
  } else {
    load_prompts(config, tree, inputs, alive);
  }
  check_warmup(config.actor_rollout_ref.actor.optim, inputs.total_steps, tree);
  log::info(kChecksPassed);
  return inputs;
}

}  // namespace verlcpp::train
