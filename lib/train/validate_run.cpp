#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/model_config.h"
#include "model/weights_io.h"
#include "train/metrics.h"
#include "train/validate.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

namespace fs = std::filesystem;

void check_sampling(const TrainConfig& config, Findings& findings) {
  const std::string key = "actor_rollout_ref.rollout.";
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  findings.require(std::isfinite(rollout.temperature) && rollout.temperature > 0,
                   key + "temperature", "must be > 0 (do_sample=False decodes greedily)");
  findings.require(rollout.top_p > 0 && rollout.top_p <= 1, key + "top_p", "must be in (0, 1]");
  findings.require(rollout.top_k == -1 || rollout.top_k >= 1, key + "top_k",
                   "must be -1 (all tokens) or a positive integer");
  findings.require(rollout.max_num_seqs >= 1, key + "max_num_seqs", "must be a positive integer");
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
  findings.require(rollout.mode != "sync", key + "mode",
                   "rollout mode sync has been removed; must be async");
  if (rollout.name == "replay" && !rollout.replay_path) {
    findings.add(key + "replay_path", "rollout.name=replay needs a file of recorded trajectories");
  }
  check_sampling(config, findings);
}

void check_resume(const TrainerConfig& trainer, Findings& findings) {
  const std::vector<std::string> modes = {"auto", "disable", "resume_path"};
  findings.require(contains(modes, trainer.resume_mode), "trainer.resume_mode",
                   "must be one of " + join(modes));
  if (trainer.resume_mode != "resume_path") return;
  if (trainer.resume_from_path.value_or("").find("global_step_") == std::string::npos) {
    findings.add("trainer.resume_from_path",
                 "resume_mode=resume_path needs a folder named global_step_N");
  }
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
      findings.add("trainer.logger", name + " is not supported; must be among " + join(built));
    }
  }
  if (ignored.empty()) return;
  findings.warn(findings.about("trainer.logger") + ": " + join(ignored) +
                (ignored.size() == 1 ? " is" : " are") + " not built; " + join(built) +
                " are the loggers that write");
}

/// The folder of the checkpoints can be made, and something goes into it.
void check_saving(const TrainConfig& config, Findings& findings) {
  if (config.trainer.save_freq <= 0) return;
  const std::vector<std::string>& parts = config.actor_rollout_ref.actor.checkpoint.save_contents;
  // hf_model exports the weights as model does.
  const bool saves =
      contains(parts, "model") || contains(parts, "optimizer") || contains(parts, "hf_model");
  findings.require(saves, "actor_rollout_ref.actor.checkpoint.save_contents",
                   "must contain model or optimizer when trainer.save_freq > 0, or nothing that "
                   "can be trained on is saved");
  std::error_code ignored;
  const fs::path folder = fs::current_path(ignored) / config.trainer.default_local_dir;
  fs::path existing = folder;
  while (!fs::exists(existing, ignored) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  if (fs::is_directory(existing, ignored)) return;
  findings.add("trainer.default_local_dir",
               existing == folder ? "exists but is not a folder; must be a folder for checkpoints"
                                  : "cannot be made: " + existing.string() + " is not a folder");
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
  const auto known = [&](const std::vector<std::string>& names, const std::string& field) {
    for (const std::string& name : names) {
      findings.require(contains(contents, name), "actor_rollout_ref.actor.checkpoint." + field,
                       name + " is not a part of a checkpoint; must be among " + join(contents));
    }
  };
  known(checkpoint.save_contents, "save_contents");
  known(checkpoint.load_contents, "load_contents");
  check_saving(config, findings);
}

bool is_multimodal(const std::string& json) {
  const nlohmann::json parsed = nlohmann::json::parse(json, nullptr, false);
  return parsed.is_object() && parsed.contains("vision_config");
}

/// Weight files under other names or in other formats than model.safetensors.
std::vector<std::string> foreign_weights(const std::string& folder) {
  const std::vector<std::string> endings = {".bin", ".safetensors", ".pt", ".pth", ".gguf"};
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    if (contains(endings, it->path().extension().string())) {
      names.push_back(it->path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

void check_weights(const ModelSection& model, Findings& findings) {
  if (model::has_weights(model.path)) return;
  if (model.random_init) {
    // Random weights in place of somebody's trained ones would go unnoticed.
    const std::vector<std::string> foreign = foreign_weights(model.path);
    if (foreign.empty()) return;
    findings.add("actor_rollout_ref.model.path",
                 "weights in a format this build does not read: " + join(foreign) +
                     "; safetensors are (model.safetensors or model.safetensors.index.json)");
    return;
  }
  findings.add("actor_rollout_ref.model.path",
               "neither model.safetensors nor model.safetensors.index.json in this folder "
               "(actor_rollout_ref.model.random_init=True starts such a folder from random ones)");
}

void check_model(const TrainConfig& config, Findings& findings) {
  const std::string key = "actor_rollout_ref.model.path";
  const fs::path folder = config.actor_rollout_ref.model.path;
  const fs::path file = folder / "config.json";
  std::ifstream in(file);
  if (!in || !fs::is_regular_file(file)) {
    findings.add(key, std::string(fs::is_directory(folder) ? "no config.json in this folder"
                                                           : "no such folder") +
                          "; must be a Hugging Face model folder with a config.json");
    return;
  }
  const std::string json((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (is_multimodal(json)) {
    const bool dynamic = config.actor_rollout_ref.actor.megatron.dynamic_context_parallel;
    findings.add(key, std::string(dynamic ? "Dynamic CP" : "this build") +
                          " currently supports language models only; config.json has a "
                          "vision_config");
    return;
  }
  check_weights(config.actor_rollout_ref.model, findings);
  try {
    const model::ModelConfig model = model::parse_model_config(json, file.string());
    const int64_t longest = longest_sequence(config);
    if (model.max_positions > 0 && longest > model.max_positions) {
      findings.add_text("data.max_prompt_length + data.max_response_length = " +
                        std::to_string(longest) + " tokens, but the model (" + findings.about(key) +
                        ") has max_position_embeddings = " + std::to_string(model.max_positions));
    }
  } catch (const Error& e) {
    findings.add(key, e.what());
  }
}

std::string why_no_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? "is a folder, not a file" : "no such file";
}

/// A file of the run with the keys that name it.
struct NamedFile {
  std::string about, path;
};

bool same_file(const std::string& a, const std::string& b) {
  std::error_code failed;
  const fs::path left = fs::weakly_canonical(fs::absolute(a, failed), failed);
  if (failed) return a == b;
  const fs::path right = fs::weakly_canonical(fs::absolute(b, failed), failed);
  return failed ? a == b : left == right;
}

/// What a run writes is none of what it reads, and no two writers share a file.
void check_written_files(const TrainConfig& config, Findings& findings) {
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  const TrainerConfig& trainer = config.trainer;
  std::vector<NamedFile> others, written;
  const std::string replay_key = "actor_rollout_ref.rollout.replay_path";
  if (rollout.replay_path) others.push_back({findings.about(replay_key), *rollout.replay_path});
  for (const std::string& file : config.data.train_files) {
    others.push_back({findings.about("data.train_files"), file});
  }
  if (contains(trainer.logger, "file")) {
    const std::string path = metrics_path(trainer.project_name, trainer.experiment_name);
    written.push_back({"the metrics file " + path + " (" + findings.about("trainer.project_name") +
                           ", " + findings.about("trainer.experiment_name") + ")",
                       path});
  }
  if (rollout.record_path) {
    written.push_back(
        {findings.about("actor_rollout_ref.rollout.record_path"), *rollout.record_path});
  }
  for (const NamedFile& output : written) {
    for (const NamedFile& other : others) {
      if (!same_file(output.path, other.path)) continue;
      findings.add_text(output.about + " is the same file as " + other.about +
                        ": writing it would destroy the other; must be a file of its own");
    }
    others.push_back(output);
  }
}

}  // namespace

void check_run(const TrainConfig& config, Findings& findings) {
  check_rollout(config, findings);
  check_trainer(config, findings);
  findings.require(is_count(config.actor_rollout_ref.nccl_timeout),
                   "actor_rollout_ref.nccl_timeout", std::string(kValidCount) + " (seconds)");
}

void check_files(const TrainConfig& config, Findings& findings) {
  check_model(config, findings);
  check_written_files(config, findings);
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  if (rollout.name == "replay") {
    if (rollout.replay_path && !fs::is_regular_file(*rollout.replay_path)) {
      findings.add("actor_rollout_ref.rollout.replay_path", why_no_file(*rollout.replay_path));
    }
    return;
  }
  if (config.data.train_files.empty()) {
    findings.add("data.train_files", "must name at least one file of prompts");
  }
  for (const std::string& file : config.data.train_files) {
    findings.require(fs::is_regular_file(file), "data.train_files",
                     file + ": " + why_no_file(file));
  }
}

}  // namespace verlcpp::train
