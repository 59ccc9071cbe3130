#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "support/temporary_folder.h"
#include "train/checkpoint.h"
#include "train/checkpoint_draft.h"

namespace verlcpp::test {

/// The folder as a path.
struct TempFolder : TemporaryFolder {
  std::filesystem::path path = TemporaryFolder::path();
};

inline void put(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline train::CheckpointState state_of(int64_t step, std::optional<int64_t> previous = {}) {
  return {.step = step,
          .optimizer_steps = 4 * step,
          .kl_coef = 0.25,
          .previous = previous,
          .recorded_rows = {},
          .data_order = "o",
          .model_digest = "m",
          .config_digest = "d"};
}

inline const train::CheckpointManifest kAnyManifest{
    .architecture = "Qwen2ForCausalLM", .world_size = 4, .save_contents = {"model"}};

/// A whole save of `step`, with `text` for weights.
inline std::string save(const train::CheckpointFolder& folder, int64_t step,
                        std::optional<int64_t> previous = {}, std::optional<int64_t> keep = {},
                        const std::string& text = "weights") {
  train::CheckpointDraft draft(folder, state_of(step, previous), kAnyManifest);
  put(std::filesystem::path(draft.path()) / "actor/model/huggingface/model.safetensors", text);
  draft.seal();
  return draft.publish(keep);
}

}  // namespace verlcpp::test
