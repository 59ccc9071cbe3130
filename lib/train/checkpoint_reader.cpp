#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/weights_io.h"
#include "train/checkpoint.h"
#include "train/digest.h"

namespace verlcpp::train {

namespace fs = std::filesystem;

namespace {

nlohmann::json read_object(const std::string& folder, const char* name) {
  const fs::path path = fs::path(folder) / name;
  std::ifstream in(path, std::ios::binary);
  if (!in || !fs::is_regular_file(path)) {
    throw DataError("checkpoint file " + path.string() + " cannot be read");
  }
  nlohmann::json json =
      nlohmann::json::parse(std::istreambuf_iterator<char>(in), {}, nullptr, false);
  if (!json.is_object()) {
    throw DataError("checkpoint file " + path.string() + " is not a JSON object");
  }
  return json;
}

/// A checkpoint of another program; the user can still start from its weights, which verl keeps in
/// actor/model/huggingface, or, in its older layout, in actor/huggingface.
[[noreturn]] void throw_foreign(const fs::path& folder, const std::string& why) {
  std::string weights;
  for (const char* name : {"actor/model/huggingface", "actor/huggingface"}) {
    const std::string path = (folder / name).string();
    if (weights.empty() && model::has_weights(path)) weights = path;
  }
  throw DataError("checkpoint " + folder.string() + " was not saved by this program (" + why +
                  "), so a run cannot go on from it; to start from its weights set " +
                  (weights.empty() ? "actor_rollout_ref.model.path to a Hugging Face export of them"
                                   : "actor_rollout_ref.model.path=" + weights) +
                  ", trainer.resume_mode=disable, trainer.default_local_dir to a folder of the new "
                  "run's own and trainer.experiment_name to a new name");
}

/// Every file against its digest, and that the state, which decides what is cut on resume, is one
/// of them and belongs to the folder's step.
CheckpointState verified(const std::string& folder, const nlohmann::json& digests,
                         const std::function<void()>& beat) {
  if (!digests.contains(kStateFile)) {
    throw DataError("checkpoint " + folder + ": its " + kManifest + " has no SHA-256 of " +
                    kStateFile);
  }
  for (const auto& [name, digest] : digests.items()) {
    const std::string path = (fs::path(folder) / name).string();
    if (digest == nlohmann::json(sha256_of_file(path, beat))) continue;
    throw DataError("checkpoint file " + path +
                    " was damaged or changed after it was saved: its SHA-256 is not the one in " +
                    kManifest);
  }
  CheckpointState state = read_state(folder);
  if (state.step >= 1 && step_of_folder(folder) == state.step) return state;
  throw DataError("checkpoint file " + (fs::path(folder) / kStateFile).string() + ": step is " +
                  std::to_string(state.step) +
                  "; valid: the N of its folder's name, global_step_N");
}

}  // namespace

CheckpointState read_state(const std::string& folder) {
  const nlohmann::json json = read_object(folder, kStateFile);
  try {
    CheckpointState state{.step = json.at("step").get<int64_t>(),
                          .optimizer_steps = json.at("optimizer_steps").get<int64_t>(),
                          .kl_coef = json.at("kl_coef").get<double>(),
                          .previous = {},
                          .recorded_rows = {},
                          .data_order = json.at("data_order").get<std::string>(),
                          .model_digest = json.at("model_digest").get<std::string>(),
                          .config_digest = json.at("config_digest").get<std::string>()};
    const nlohmann::json recorded = json.value("recorded_rows", nlohmann::json());
    if (!recorded.is_null()) state.recorded_rows = recorded.get<int64_t>();
    const nlohmann::json previous = json.value("previous_step", nlohmann::json());
    if (!previous.is_null()) state.previous = previous.get<int64_t>();
    return state;
  } catch (const nlohmann::json::exception& e) {
    throw DataError("checkpoint " + folder + ": state.json is incomplete: " + e.what());
  }
}

CheckpointState read_checkpoint(const std::string& folder, const std::function<void()>& beat) {
  const fs::path root(folder);
  if (!fs::exists(root / kManifest) && !fs::exists(root / kStateFile)) {
    throw_foreign(root, std::string("it has no ") + kManifest);
  }
  try {
    const nlohmann::json manifest = read_object(folder, kManifest);
    const nlohmann::json digests = manifest.value("sha256", nlohmann::json());
    if (manifest.value("schema_version", nlohmann::json()) == 2 && digests.is_object()) {
      return verified(folder, digests, beat);
    }
  } catch (const DataError& e) {
    const fs::path parent = root.parent_path();
    throw DataError(e.what() +
                    other_ways(parent.empty() ? "." : parent.string(), step_of_folder(folder)));
  }
  throw_foreign(root, std::string("its ") + kManifest + " is not of schema_version 2 with sha256");
}

}  // namespace verlcpp::train
