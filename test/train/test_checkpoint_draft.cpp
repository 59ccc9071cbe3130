#include "base/error.h"
#include "saved_checkpoint.h"
#include "support/catch.h"
#include "train/digest.h"

using namespace verlcpp;
using namespace verlcpp::test;
using namespace verlcpp::train;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

/// Everything of the folder that is not a published checkpoint or the tracker.
std::vector<std::string> strays(const TempFolder& temp) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(temp.path)) {
    const std::string name = entry.path().filename().string();
    if (!step_of_folder(name) && name != kTracker) names.push_back(name);
  }
  return names;
}

}  // namespace

TEST_CASE("nothing is visible before publish; a draft that ends before leaves nothing") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  const std::string good = save(folder, 1);
  {
    CheckpointDraft draft(folder, state_of(2, 1), kAnyManifest);
    CHECK(draft.path() == folder.aside_folder(2));
    put(fs::path(draft.path()) / "actor/tensors", "x");
    draft.seal();
    CHECK_FALSE(fs::exists(folder.final_folder(2)));
    CHECK(folder.find("auto", {}) == good);
  }
  CHECK(strays(temp).empty());
  CHECK(folder.find("auto", {}) == good);
  CHECK(read_checkpoint(good).step == 1);
}

TEST_CASE("a full disk is named with path and bytes; the half is removed, the good one stays") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  const std::string good = save(folder, 1);
  for (const std::string name : {"state.json", "actor/ckpt_contents.json", "config.yaml"}) {
    INFO(name);
    const auto save_to_full_disk = [&] {
      CheckpointDraft draft(folder, state_of(2, 1), kAnyManifest);
      fs::create_symlink("/dev/full", fs::path(draft.path()) / name);
      draft.add("config.yaml", "a: 1\n");
      draft.seal();
    };
    CHECK_THROWS_WITH(save_to_full_disk(),
                      ContainsSubstring("/.global_step_2.tmp/" + name + ": cannot write ") &&
                          Catch::Matchers::EndsWith(" bytes: No space left on device"));
    CHECK(strays(temp).empty());
  }
  fs::create_symlink("/dev/full", temp.path / (std::string(kTracker) + ".tmp"));
  CHECK_THROWS_WITH(save(folder, 2, 1),
                    ContainsSubstring("iteration.txt.tmp: cannot write 1 bytes: No space left"));
  CHECK(strays(temp).empty());
  CHECK_FALSE(fs::exists(folder.final_folder(2)));
  CHECK(folder.find("auto", {}) == good);
  CHECK(read_checkpoint(good).step == 1);
  CHECK(save(folder, 2, 1) == folder.final_folder(2));  // space was made
}

TEST_CASE("a folder that cannot be written, or a file in the way, is the machine's fault") {
  const TempFolder temp;
  put(temp.path / "file", "");
  const CheckpointFolder below((temp.path / "file").string());
  CHECK_THROWS_AS(save(below, 1), DeviceError);
  CHECK_THROWS_WITH(
      save(below, 1),
      Catch::Matchers::StartsWith("checkpoint " + (temp.path / "file/global_step_1").string() +
                                  " cannot be saved: "));
  const CheckpointFolder folder((temp.path / "run").string());
  const std::string good = save(folder, 1);
  put(temp.path / "run/global_step_2", "somebody's");
  CHECK_THROWS_WITH(save(folder, 2, 1), "checkpoint " + folder.final_folder(2) +
                                            " cannot be saved: a file is in the way");
  CHECK(text_of(temp.path / "run/global_step_2") == "somebody's");
  CHECK(folder.find("auto", {}) == good);
}

TEST_CASE("saving a step again replaces the whole folder and leaves nothing aside") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  const std::string saved = save(folder, 1);
  put(fs::path(saved) / "stray", "x");
  CHECK(save(folder, 1, {}, {}, "other") == saved);
  CHECK_FALSE(fs::exists(fs::path(saved) / "stray"));
  CHECK(text_of(fs::path(saved) / "actor/model/huggingface/model.safetensors") == "other");
  CHECK(read_checkpoint(saved).step == 1);
  CHECK(strays(temp).empty());
}

TEST_CASE("the manifest has verl's fields and a digest of every file") {
  const TempFolder temp;
  const std::string saved = save(CheckpointFolder(temp.path.string()), 3);
  const std::string text = text_of(fs::path(saved) / kManifest);
  for (const char* field :
       {R"("schema_version": 2)", R"("framework": "megatron")", R"("role": "actor")",
        R"("arch": "Qwen2ForCausalLM")", R"("global_step": 3)", R"("world_size": 4)",
        R"("path": "model/huggingface")"}) {
    CHECK_THAT(text, ContainsSubstring(field));
  }
  CHECK_THAT(text, ContainsSubstring("\"actor/model/huggingface/model.safetensors\": \"" +
                                     sha256("weights") + "\""));
  CHECK_THAT(
      text, ContainsSubstring("\"state.json\": \"" + sha256_of_file(saved + "/state.json") + "\""));
}
