#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/chat_template.h"
#include "tensor/cuda_limits.h"
#include "train/checkpoint.h"
#include "train/checkpoint_tensors.h"
#include "train/prompt_scan.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

void check_sampling(const TrainConfig& config, Findings& findings) {
  const std::string key = "actor_rollout_ref.rollout.";
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  findings.require(std::isfinite(rollout.temperature) && rollout.temperature > 0,
                   key + "temperature",
                   "must be > 0, also with do_sample=False, which decodes greedily");
  findings.require(rollout.top_p > 0 && rollout.top_p <= 1, key + "top_p", "must be in (0, 1]");
  findings.require(rollout.top_k == -1 || rollout.top_k >= 1, key + "top_k",
                   "must be -1 (all tokens) or a positive integer");
  findings.require(rollout.max_num_seqs >= 1 && rollout.max_num_seqs <= kMostCudaSequences,
                   key + "max_num_seqs",
                   "must be between 1 and " + std::to_string(kMostCudaSequences));
  // A length that only follows data's has been judged there.
  const auto length = [&](int64_t value, int64_t of_data, const std::string& field) {
    findings.require(is_count(value) || value == of_data, key + field, kValidCount);
  };
  length(rollout.prompt_length, config.data.max_prompt_length, "prompt_length");
  length(rollout.response_length, config.data.max_response_length, "response_length");
}

void check_rollout(const TrainConfig& config, Findings& findings) {
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  const std::string key = "actor_rollout_ref.rollout.";
  const std::vector<std::string> names = {"native", "vllm", "sglang", "hf", "trtllm", "replay"};
  findings.require(contains(names, rollout.name), key + "name",
                   "must be one of " + join(names) +
                       " (all but replay run the built-in engine; replay reads replay_path)");
  findings.require(
      rollout.mode == "async", key + "mode",
      std::string(rollout.mode == "sync" ? "rollout mode sync has been removed; " : "") +
          "must be async");
  if (rollout.name == "replay" && !rollout.replay_path) {
    findings.add(key + "replay_path", "rollout.name=replay needs a file of recorded trajectories");
  }
  check_sampling(config, findings);
}

void check_val_kwargs(const ValKwargs& validation, Findings& findings) {
  const std::string key = "actor_rollout_ref.rollout.val_kwargs.";
  findings.require(is_count(validation.n), key + "n", kValidCount);
  findings.require(std::isfinite(validation.temperature) &&
                       (!validation.do_sample || validation.temperature > 0),
                   key + "temperature",
                   "must be > 0 with val_kwargs.do_sample=True (False decodes greedily)");
  findings.require(validation.top_p > 0 && validation.top_p <= 1, key + "top_p",
                   "must be in (0, 1]");
  findings.require(validation.top_k == -1 || validation.top_k >= 1, key + "top_k",
                   "must be -1 (all tokens) or a positive integer");
}

/// Who asks for validations has rows for them. verl's val_before_train=True alone asks for nothing:
/// it is the default.
void check_validation(const TrainConfig& config, Findings& findings) {
  check_val_kwargs(config.actor_rollout_ref.rollout.val_kwargs, findings);
  findings.require(is_count(config.data.val_batch_size.value_or(1)), "data.val_batch_size",
                   std::string(kValidCount) + " or null (all)");
  const auto need = [&](bool asked, const std::string& key) {
    if (!asked) return;
    findings.require(config.actor_rollout_ref.rollout.name != "replay", key,
                     "rollout.name=replay generates nothing to validate; must be " +
                         std::string(key == "trainer.test_freq" ? "-1" : "False"));
    findings.require(!val_prompt_files(config.data).files.empty(), key,
                     "needs prompts, and " + findings.about("data.val_files") +
                         " names no file; set it, or leave the validation out");
  };
  need(config.trainer.test_freq > 0, "trainer.test_freq");
  need(config.trainer.val_only, "trainer.val_only");
}

void check_resume(const TrainerConfig& trainer, Findings& findings) {
  const std::vector<std::string> modes = {"auto", "disable", "resume_path"};
  findings.require(contains(modes, trainer.resume_mode), "trainer.resume_mode",
                   "must be one of " + join(modes));
  const std::string key = "trainer.resume_from_path";
  if (trainer.resume_mode != "resume_path") {
    if (!trainer.resume_from_path) return;
    findings.warn(findings.about(key) + " has no effect unless trainer.resume_mode=resume_path");
    return;
  }
  const std::string folder = trainer.resume_from_path.value_or("");
  std::error_code ignored;
  if (!step_of_folder(folder)) {
    findings.add(key,
                 "resume_mode=resume_path needs the folder of a checkpoint, whose name ends in "
                 "global_step_N, such as " +
                     trainer.default_local_dir + "/global_step_10");
  } else if (!std::filesystem::exists(folder, ignored)) {
    findings.add(key,
                 "no such folder; must be a checkpoint, or trainer.resume_mode=auto or disable");
  } else if (!std::filesystem::is_directory(folder, ignored)) {
    findings.add(key, "is not a folder; must be a checkpoint");
  }
}

/// What is wrong with a name of a list.
std::string is_not(const std::string& name, const std::string& what) {
  return name.empty() ? "a name is empty (an unset variable of the shell?)"
                      : name + " is not " + what;
}

void check_loggers(const TrainerConfig& trainer, Findings& findings) {
  const std::vector<std::string> built = {"console", "file"};
  const std::vector<std::string> verl = {"wandb",   "mlflow",  "swanlab",     "vemlp_wandb",
                                         "clearml", "trackio", "tensorboard", "rl_insight"};
  std::vector<std::string> ignored;
  for (const std::string& name : trainer.logger) {
    if (contains(built, name)) continue;
    if (contains(verl, name)) {
      ignored.push_back(name);
    } else {
      findings.add("trainer.logger", is_not(name, "a logger") + "; must be among " + join(built) +
                                         " (verl's others, such as wandb, write nothing here)");
    }
  }
  if (ignored.empty()) return;
  findings.warn(findings.about("trainer.logger") + ": " + join(ignored) +
                (ignored.size() == 1 ? " is" : " are") + " not implemented; " + join(built) +
                " are the loggers that write");
}

/// Something goes into the checkpoints, and comes back.
void check_saving(const TrainConfig& config, Findings& findings) {
  const CheckpointConfig& parts = config.actor_rollout_ref.actor.checkpoint;
  const auto weights = [](const std::vector<std::string>& names) {
    return names_weights(names) || names_optimizer(names);
  };
  if (config.trainer.save_freq <= 0) {
    if (weights(parts.save_contents)) return;
    findings.warn(findings.about("actor_rollout_ref.actor.checkpoint.save_contents") +
                  ": names neither model nor optimizer, so a run that is stopped cannot go on");
    return;
  }
  const bool resumes = config.trainer.resume_mode != "disable";
  findings.require(!resumes || weights(parts.load_contents) || !weights(parts.save_contents),
                   "actor_rollout_ref.actor.checkpoint.load_contents",
                   "must contain model or optimizer unless trainer.resume_mode=disable, or a "
                   "resumed run would start from other weights",
                   {"actor_rollout_ref.actor.checkpoint.save_contents"});
  findings.require(weights(parts.save_contents), "actor_rollout_ref.actor.checkpoint.save_contents",
                   "must contain model or optimizer when trainer.save_freq > 0, or nothing that "
                   "can be trained on is saved");
}

void check_trainer(const TrainConfig& config, Findings& findings) {
  const TrainerConfig& trainer = config.trainer;
  findings.require(trainer.total_epochs >= 1, "trainer.total_epochs", "must be a positive integer");
  findings.require(trainer.total_training_steps.value_or(1) >= 1, "trainer.total_training_steps",
                   "must be a positive integer or null");
  findings.require(trainer.max_actor_ckpt_to_keep.value_or(1) >= 1,
                   "trainer.max_actor_ckpt_to_keep", "must be a positive integer or null");
  check_resume(trainer, findings);
  check_loggers(trainer, findings);
  const std::vector<std::string> truncations = {"error", "left", "right", "middle"};
  findings.require(contains(truncations, config.data.truncation), "data.truncation",
                   "must be one of " + join(truncations));
  const std::vector<std::string> contents = {"model", "optimizer", "extra", "hf_model"};
  const CheckpointConfig& checkpoint = config.actor_rollout_ref.actor.checkpoint;
  bool all_known = true;
  const auto known = [&](const std::vector<std::string>& names, const std::string& field) {
    for (const std::string& name : names) {
      all_known = all_known && contains(contents, name);
      findings.require(
          contains(contents, name), "actor_rollout_ref.actor.checkpoint." + field,
          is_not(name, "a part of a checkpoint") + "; must be among " + join(contents));
    }
  };
  known(checkpoint.save_contents, "save_contents");
  if (checkpoint.load_contents != checkpoint.save_contents) {
    known(checkpoint.load_contents, "load_contents");
  }
  if (all_known) check_saving(config, findings);
}

void check_tools(const TrainConfig& config, Findings& findings) {
  const std::string multi_turn = "actor_rollout_ref.rollout.multi_turn.";
  findings.require(!config.actor_rollout_ref.rollout.multi_turn.enable, multi_turn + "enable",
                   "several turns are not implemented; must be False");
  const bool follows = config.data.function_tool_path.has_value();
  findings.require(!follows && !config.actor_rollout_ref.rollout.multi_turn.function_tool_path,
                   follows ? "data.function_tool_path" : multi_turn + "function_tool_path",
                   "tools that are Python functions are not read; must be null, with the schemas "
                   "in a YAML file, data.tool_config_path");
}

/// The keys of the chat template that need no file.
void check_chat_template(const TrainConfig& config, Findings& findings) {
  const std::string kwargs_key = "data.apply_chat_template_kwargs";
  const config::Node& kwargs = config.data.apply_chat_template_kwargs;
  findings.require(kwargs.is_map(), kwargs_key, "must be a group of keys");
  if (kwargs.is_map()) {
    for (const auto& [name, value] : kwargs.items()) {
      findings.require(!data::is_reserved_chat_variable(name), kwargs_key + "." + name,
                       "is not a variable of chat templates that can be set; must be one that the "
                       "template reads, such as enable_thinking");
    }
  }
  const std::string key = "actor_rollout_ref.model.custom_chat_template";
  const auto& custom = config.actor_rollout_ref.model.custom_chat_template;
  if (!custom) return;
  if (custom->find('{') == std::string::npos) {
    return findings.add(key,
                        "has no {{ or {%; must be the text of a Jinja template (not the name "
                        "of its file) or null");
  }
  const config::Node* node = findings.tree().find(key);
  const std::string origin = node != nullptr ? " (" + node->origin().text + ")" : "";
  try {
    data::parse_chat_template(*custom, key + origin);
  } catch (const DataError& error) {
    findings.add_text(error.what());
  }
}

}  // namespace

void check_run(const TrainConfig& config, Findings& findings) {
  check_rollout(config, findings);
  check_trainer(config, findings);
  check_validation(config, findings);
  check_chat_template(config, findings);
  check_tools(config, findings);
  findings.require(is_count(config.actor_rollout_ref.nccl_timeout),
                   "actor_rollout_ref.nccl_timeout", std::string(kValidCount) + " (seconds)");
}

}  // namespace verlcpp::train
