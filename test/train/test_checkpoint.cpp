#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "support/catch.h"
#include "train/checkpoint.h"

using namespace verlcpp;
using namespace verlcpp::train;
namespace fs = std::filesystem;

namespace {

struct TempFolder {
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "verlcpp-checkpoint-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~TempFolder() { fs::remove_all(path); }
  fs::path path;
};

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string save(const CheckpointFolder& folder, int64_t step, std::optional<int64_t> keep = {}) {
  return folder.save(
      {.step = step, .optimizer_steps = 4 * step, .kl_coef = 0.25, .config_digest = "d"},
      {.architecture = "Qwen2ForCausalLM", .world_size = 4, .save_contents = {"model"}}, keep,
      [](const std::string& aside) {
        put(fs::path(aside) / "actor/model/huggingface/model.safetensors", "weights");
      });
}

}  // namespace

TEST_CASE("sha256 of the empty and the classic message") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("a checkpoint is found, read back and verified") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  CHECK_FALSE(folder.find("auto", {}).has_value());
  save(folder, 2);
  const std::string saved = save(folder, 4);
  CHECK(folder.find("auto", {}) == saved);
  CHECK_FALSE(folder.find("disable", {}).has_value());
  CHECK(folder.find("resume_path", saved + "/") == saved);
  const CheckpointState state = read_checkpoint(saved);
  CHECK(state.step == 4);
  CHECK(state.optimizer_steps == 16);
  CHECK(state.kl_coef == 0.25);
  put(temp.path / "global_step_4/actor/model/huggingface/model.safetensors", "weightz");
  CHECK_THROWS_WITH(read_checkpoint(saved), Catch::Matchers::Contains("model.safetensors differs"));
  fs::remove(temp.path / "global_step_4/state.json");
  CHECK_THROWS_AS(read_checkpoint(saved), DataError);
}

TEST_CASE("retention deletes only older checkpoints, after the new one is in place") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  for (int64_t step : {1, 2, 3, 4}) save(folder, step, 2);
  CHECK_FALSE(fs::exists(temp.path / "global_step_2"));
  CHECK(fs::exists(temp.path / "global_step_3"));
  CHECK(fs::exists(temp.path / "global_step_4"));
}

TEST_CASE("a failed save leaves the previous checkpoint and the tracker") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  const std::string good = save(folder, 1);
  CHECK_THROWS_AS(folder.save({.step = 2, .config_digest = ""}, {}, {},
                              [](const std::string& aside) {
                                put(fs::path(aside) / "actor/half", "x");
                                throw DeviceError("disk full");
                              }),
                  DeviceError);
  CHECK(folder.find("auto", {}) == good);
  CHECK(folder.remove_leftovers() == std::vector<std::string>{".global_step_2.tmp"});
  CHECK(folder.remove_leftovers().empty());
}

TEST_CASE("a wrong resume path names the key") {
  const CheckpointFolder folder("nowhere");
  CHECK_THROWS_WITH(folder.find("resume_path", {}),
                    Catch::Matchers::Contains("trainer.resume_from_path=null must name a folder"));
  CHECK_THROWS_WITH(folder.find("resume_path", "nowhere/global_step_7"),
                    Catch::Matchers::Contains("is not a folder called global_step_N"));
}

TEST_CASE("a tracker that is not a number is said, a missing step folder starts from scratch") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  put(temp.path / "latest_checkpointed_iteration.txt", "7\n");
  CHECK_FALSE(folder.find("auto", {}).has_value());
  put(temp.path / "latest_checkpointed_iteration.txt", "seven");
  CHECK_THROWS_WITH(folder.find("auto", {}), Catch::Matchers::Contains("must hold a step number"));
}
