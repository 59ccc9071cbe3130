#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/tokenizer.h"
#include "model/model_config.h"
#include "model/tp_shard.h"
#include "model/weights_io.h"
#include "tensor/cuda_limits.h"
#include "train/inputs.h"
#include "train/prompt_scan.h"
#include "train/validate.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEmptyName = "the name is empty (an unset variable of the shell?)";

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
  const std::vector<std::string> others = foreign_weights(model.path);
  const auto shard = std::find_if(others.begin(), others.end(), [](const std::string& name) {
    return name.ends_with(".safetensors");
  });
  if (shard != others.end()) {
    findings.add(
        "actor_rollout_ref.model.path",
        "holds " + *shard +
            " but neither model.safetensors nor "
            "model.safetensors.index.json, which says what is in which file; fetch that too");
    return;
  }
  if (model.random_init) {
    // Random weights in place of somebody's trained ones would go unnoticed.
    if (others.empty()) return;
    findings.add("actor_rollout_ref.model.path",
                 "weights in a format this build does not read: " + join(others) +
                     "; safetensors are (model.safetensors or model.safetensors.index.json)");
    return;
  }
  findings.add("actor_rollout_ref.model.path",
               "neither model.safetensors nor model.safetensors.index.json in this folder "
               "(actor_rollout_ref.model.random_init=True starts such a folder from random ones)");
}

/// Two words of a hub's name with a slash between, and not a folder here that lacks the second.
bool looks_like_hub_name(const fs::path& path) {
  std::error_code ignored;
  return path.is_relative() && std::distance(path.begin(), path.end()) == 2 &&
         path.has_filename() && *path.begin() != "." && *path.begin() != ".." &&
         !fs::exists(path.parent_path(), ignored);
}

/// Of a folder without config.json: what it seems to be.
std::string why_no_config(const fs::path& folder) {
  const std::string missing = "no config.json in this folder";
  std::error_code failed;
  if (fs::exists(folder / "adapter_config.json", failed)) {
    return missing + ", which holds an adapter; merge it into its base model first";
  }
  // A cache of the Hub keeps a model's files in snapshots/COMMIT.
  for (fs::directory_iterator it(folder / "snapshots", failed), end; !failed && it != end;
       it.increment(failed)) {
    if (fs::exists(it->path() / "config.json", failed)) {
      return missing + ", but in " + it->path().string();
    }
  }
  return missing;
}

std::string why_no_model(const fs::path& folder) {
  std::error_code ignored;
  if (folder.empty()) return kEmptyName;
  if (fs::is_directory(folder, ignored)) return why_no_config(folder);
  if (fs::exists(folder, ignored)) return "is not a folder";
  if (folder.string().find(":/") != std::string::npos) {
    return "no such folder; addresses are not read, so copy the model here first";
  }
  if (!looks_like_hub_name(folder)) return "no such folder";
  return "no such folder, and nothing is downloaded; a model of the Hub has to be fetched first "
         "(hf download " +
         folder.string() + " --local-dir FOLDER) and its folder given here";
}

std::vector<int64_t> sizes_of(const model::ModelConfig& model) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= model.heads; ++size) {
    if (model::tp_complaint(model, size).empty()) sizes.push_back(size);
  }
  return sizes;
}

/// config.json of the model with what the configuration changes in it.
/// `read`: as for parse_model_config.
model::ModelConfig parsed_model(const ModelSection& section, const std::string& json,
                                std::set<std::string>* read = nullptr) {
  const model::ConfigOverride changes = config_override(section);
  const std::string where = (fs::path(section.path) / "config.json").string();
  return model::parse_model_config(model::merged_config(json, changes),
                                   where + (changes.json != "{}" ? " with " + changes.where : ""),
                                   read);
}

void check_tensor_parallel(const TrainConfig& config, const model::ModelConfig& model,
                           Findings& findings) {
  const int64_t tp = config.actor_rollout_ref.actor.megatron.tensor_model_parallel_size;
  if (tp < 1 || tp > kMaxAxis) return;
  const std::string complaint = model::tp_complaint(model, tp);
  if (complaint.empty()) return;
  std::vector<std::string> valid;
  for (const int64_t size : sizes_of(model)) valid.push_back(std::to_string(size));
  findings.add("actor_rollout_ref.actor.megatron.tensor_model_parallel_size",
               complaint + " (" + config.actor_rollout_ref.model.path +
                   "/config.json); valid for this model: " + join(valid));
}

/// What the CUDA kernels take. Not for auto, which may still become cpu.
void check_kernels(const TrainConfig& config, const model::ModelConfig& model, Findings& findings) {
  const std::string& device = config.trainer.device;
  if (device != "cuda" && device != "check") return;
  const auto within = [&](const std::string& name, int64_t value, int64_t most) {
    if (value <= most) return;
    findings.add("actor_rollout_ref.model.path",
                 "the model has a " + name + " of " + std::to_string(value) + "; " +
                     findings.about("trainer.device") + " runs at most " + std::to_string(most) +
                     "; trainer.device=cpu runs any");
  };
  within("hidden size", model.hidden, kWidestCudaRow);
  within("head dim", model.head_dim, kLargestCudaHeadDim);
  const std::string& dtype = config.actor_rollout_ref.actor.megatron.dtype;
  if (dtype != "bfloat16" || model.head_dim > kLargestCudaHeadDim ||
      cudnn_attends(DType::kBFloat16, model.head_dim)) {
    return;
  }
  findings.warn(findings.about("actor_rollout_ref.model.path") + " has a head dim of " +
                std::to_string(model.head_dim) +
                ": attention runs by a plain kernel and is slow; cuDNN's takes multiples of 8 up "
                "to " +
                std::to_string(kLargestCudnnHeadDim));
}

/// What the text of config.json and the weights beside it say of the run.
void check_config_text(const TrainConfig& config, const std::string& json, Findings& findings) {
  const std::string key = "actor_rollout_ref.model.path";
  const fs::path folder = config.actor_rollout_ref.model.path;
  if (is_multimodal(json)) {
    const bool dynamic = config.actor_rollout_ref.actor.megatron.dynamic_context_parallel;
    findings.add(key, language_models_only(dynamic, "a model with a vision_config in config.json"));
    return;
  }
  check_weights(config.actor_rollout_ref.model, findings);
  try {
    std::set<std::string> read;
    const model::ModelConfig model = parsed_model(config.actor_rollout_ref.model, json, &read);
    check_unread_model_overrides(config.actor_rollout_ref.model, read, findings);
    const int64_t longest = is_count(config.actor_rollout_ref.rollout.response_length)
                                ? longest_sequence(config)
                                : 0;  // no length, which is said elsewhere
    if (model.max_positions > 0 && longest > model.max_positions) {
      findings.add_text(longest_text(config, findings) + ", but the model (" + findings.about(key) +
                        ") has max_position_embeddings = " + std::to_string(model.max_positions) +
                        "; " + fits_text(config, model.max_positions));
    }
    if (model.sliding_window > 0 && longest > model.sliding_window) {
      findings.add_text(longest_text(config, findings) + ", but the model (" + findings.about(key) +
                        ") has sliding_window = " + std::to_string(model.sliding_window) +
                        "; windows shorter than the sequences are not supported: " +
                        fits_text(config, model.sliding_window));
    }
    check_tensor_parallel(config, model, findings);
    check_kernels(config, model, findings);
    if (model::has_weights(folder)) model::check_hf_weights(folder, model);
  } catch (const Error& e) {
    findings.add(key, e.what());
  }
}

/// Prompts are texts, recordings are not.
void check_tokenizer(const std::string& folder, Findings& findings) {
  std::error_code ignored;
  if (!fs::is_regular_file(fs::path(folder) / "config.json", ignored)) return;  // no model's folder
  const std::string problem = data::Tokenizer::why_absent(folder);
  findings.require(problem.empty(), "actor_rollout_ref.model.path", problem,
                   {"actor_rollout_ref.rollout.name"});
}

void check_model(const TrainConfig& config, Findings& findings) {
  const std::string key = "actor_rollout_ref.model.path";
  const fs::path folder = config.actor_rollout_ref.model.path;
  const fs::path file = folder / "config.json";
  std::ifstream in(file);
  std::error_code failed;
  const fs::file_status status = fs::status(file, failed);
  if (status.type() == fs::file_type::none || (!in && fs::is_regular_file(status))) {
    const int error = failed ? failed.value() : errno;
    findings.add(key, file.string() + " cannot be opened: " + std::strerror(error));
    return;
  }
  if (!fs::is_regular_file(status)) {
    findings.add(key,
                 why_no_model(folder) + "; must be a Hugging Face model folder with a config.json");
    return;
  }
  const std::string json((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  check_config_text(config, json, findings);
}

/// Of files that nobody named: the key that needs them.
std::string who_asks(const TrainConfig& config, const PromptFiles& prompts,
                     const Findings& findings) {
  const config::Node* files = findings.tree().find(prompts.key);
  if (prompts.key != "data.val_files" || files == nullptr || !is_shipped(files->origin())) {
    return "";
  }
  const TrainerConfig& trainer = config.trainer;
  const std::string key = trainer.test_freq > 0 ? "trainer.test_freq"
                          : trainer.val_only    ? "trainer.val_only"
                                                : "trainer.val_before_train";
  return "; set it to files of prompts, for " + findings.about(key) + " asks for a validation";
}

}  // namespace

std::vector<int64_t> tp_sizes(const TrainConfig& config) {
  const ModelSection& section = config.actor_rollout_ref.model;
  const fs::path file = fs::path(section.path) / "config.json";
  std::ifstream in(file);
  std::error_code ignored;
  if (!in || !fs::is_regular_file(file, ignored)) return {};
  const std::string json((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  try {
    return sizes_of(parsed_model(section, json));
  } catch (const Error&) {
    return {};
  }
}

std::string why_no_file(const std::string& path) {
  std::error_code ignored;
  if (path.empty()) return kEmptyName;
  if (fs::is_directory(path, ignored)) return "is a folder, not a file";
  if (fs::exists(path, ignored)) return "is not a regular file";
  if (path == "None") return "no such file; None is a name, must name a file of prompts";
  if (path.find("://") != std::string::npos) {
    return "no such file; addresses are not read, so copy the file here first";
  }
  if (path.find_first_of("*?") == std::string::npos) return "no such file";
  return "no such file; * and ? are not expanded here: valid is a list, [one.parquet,two.parquet]";
}

void check_files(const TrainConfig& config, Findings& findings) {
  check_model(config, findings);
  check_outputs(config, findings);
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  if (rollout.name == "replay") {
    if (rollout.replay_path && !fs::is_regular_file(*rollout.replay_path)) {
      findings.add("actor_rollout_ref.rollout.replay_path", why_no_file(*rollout.replay_path));
    }
    return;
  }
  const Findings::Keys by = {"actor_rollout_ref.rollout.name"};  // replay reads none of them
  check_tokenizer(config.actor_rollout_ref.model.path, findings);
  if (const auto& tools = config.data.tool_config_path) {
    findings.require(fs::is_regular_file(*tools), "data.tool_config_path", why_no_file(*tools), by);
  }
  findings.require(!config.data.train_files.empty(), "data.train_files",
                   "must name at least one file of prompts", by);
  for (const PromptFiles& prompts : prompt_files(config, findings.tree())) {
    for (const auto& file : prompts.files)
      findings.require(fs::is_regular_file(file), prompts.key,
                       file + (file.empty() ? "" : ": ") + why_no_file(file) +
                           who_asks(config, prompts, findings),
                       by);
  }
}

}  // namespace verlcpp::train
