#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/checkpoint.h"

using namespace verlcpp;
using namespace verlcpp::train;
namespace fs = std::filesystem;

namespace {

/// The folder as a path.
struct TempFolder : test::TemporaryFolder {
  fs::path path = test::TemporaryFolder::path();
};

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

CheckpointState state_of(int64_t step) {
  return {.step = step,
          .optimizer_steps = 4 * step,
          .kl_coef = 0.25,
          .data_order = "o",
          .model_digest = "m",
          .config_digest = "d"};
}

std::string save(const CheckpointFolder& folder, int64_t step, std::optional<int64_t> keep = {}) {
  return folder.save(
      state_of(step),
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
  CHECK_THROWS_WITH(read_checkpoint(saved),
                    Catch::Matchers::ContainsSubstring("model.safetensors differs"));
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
  CHECK_THROWS_AS(folder.save(state_of(2), {}, {},
                              [](const std::string& aside) {
                                put(fs::path(aside) / "actor/half", "x");
                                throw DeviceError("disk full");
                              }),
                  DeviceError);
  CHECK(folder.find("auto", {}) == good);
  CHECK(folder.remove_leftovers() == std::vector<std::string>{".global_step_2.tmp"});
  CHECK(folder.remove_leftovers().empty());
}

TEST_CASE("a full disk is named, and the previous checkpoint and the tracker stay") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  const std::string good = save(folder, 1);
  const auto save_to_full_disk = [&] {
    folder.save(state_of(2), {}, {}, [](const std::string& aside) {
      fs::create_symlink("/dev/full", fs::path(aside) / "state.json");
    });
  };
  CHECK_THROWS_WITH(
      save_to_full_disk(),
      Catch::Matchers::ContainsSubstring("/.global_step_2.tmp/state.json: cannot write ") &&
          Catch::Matchers::EndsWith(" bytes: No space left on device"));
  CHECK(folder.find("auto", {}) == good);
  CHECK(read_checkpoint(good).step == 1);
}

TEST_CASE("a folder that cannot be written is the machine's fault") {
  const TempFolder temp;
  put(temp.path / "file", "");
  const CheckpointFolder folder((temp.path / "file").string());
  CHECK_THROWS_AS(save(folder, 1), DeviceError);
  CHECK_THROWS_WITH(
      save(folder, 1),
      Catch::Matchers::StartsWith("checkpoint " + (temp.path / "file/global_step_1").string() +
                                  " cannot be saved: "));
}

TEST_CASE("saving a step again replaces the whole folder and leaves nothing aside") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  const std::string saved = save(folder, 1);
  put(fs::path(saved) / "stray", "x");
  CHECK(save(folder, 1) == saved);
  CHECK_FALSE(fs::exists(fs::path(saved) / "stray"));
  CHECK(read_checkpoint(saved).step == 1);
  CHECK(folder.remove_leftovers().empty());
}

TEST_CASE("a missing file and a foreign manifest are named") {
  const TempFolder temp;
  const std::string saved = save(CheckpointFolder(temp.path.string()), 3);
  fs::remove(fs::path(saved) / "actor/model/huggingface/model.safetensors");
  CHECK_THROWS_WITH(
      read_checkpoint(saved),
      "checkpoint file " + saved + "/actor/model/huggingface/model.safetensors cannot be read");
  put(fs::path(saved) / "actor/ckpt_contents.json", R"({"schema_version": 1})");
  CHECK_THROWS_WITH(read_checkpoint(saved),
                    "checkpoint " + saved +
                        ": actor/ckpt_contents.json is not one of ours (schema_version 2 with "
                        "sha256); start from its weights with actor_rollout_ref.model.path");
}

TEST_CASE("the manifest has verl's fields and a digest of every file") {
  const TempFolder temp;
  const std::string saved = save(CheckpointFolder(temp.path.string()), 3);
  std::ifstream in(saved + "/actor/ckpt_contents.json");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  for (const char* field :
       {R"("schema_version": 2)", R"("framework": "megatron")", R"("role": "actor")",
        R"("arch": "Qwen2ForCausalLM")", R"("global_step": 3)", R"("world_size": 4)",
        R"("path": "model/huggingface")"}) {
    CHECK_THAT(text, Catch::Matchers::ContainsSubstring(field));
  }
  CHECK_THAT(
      text, Catch::Matchers::ContainsSubstring("\"actor/model/huggingface/model.safetensors\": \"" +
                                               sha256("weights") + "\""));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring(
                       "\"state.json\": \"" + sha256_of_file(saved + "/state.json") + "\""));
}

TEST_CASE("a wrong resume path names the key") {
  const CheckpointFolder folder("nowhere");
  CHECK_THROWS_WITH(
      folder.find("resume_path", {}),
      Catch::Matchers::ContainsSubstring("trainer.resume_from_path=null must name a folder"));
  CHECK_THROWS_WITH(folder.find("resume_path", "nowhere/global_step_7"),
                    Catch::Matchers::ContainsSubstring("is not a folder called global_step_N"));
}

TEST_CASE("a tracker that is not a number is said, a missing step folder starts from scratch") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  put(temp.path / "latest_checkpointed_iteration.txt", "7\n");
  CHECK_FALSE(folder.find("auto", {}).has_value());
  put(temp.path / "latest_checkpointed_iteration.txt", "seven");
  CHECK_THROWS_WITH(folder.find("auto", {}),
                    Catch::Matchers::ContainsSubstring("must hold a step number"));
}
