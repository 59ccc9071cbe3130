#include "base/error.h"
#include "saved_checkpoint.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;
using namespace verlcpp::train;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
namespace fs = std::filesystem;

TEST_CASE("a missing file and a foreign manifest are named") {
  const TempFolder temp;
  const std::string saved = save(CheckpointFolder(temp.path.string()), 3);
  fs::remove(fs::path(saved) / "actor/model/huggingface/model.safetensors");
  CHECK_THROWS_WITH(
      read_checkpoint(saved),
      "checkpoint file " + saved +
          "/actor/model/huggingface/model.safetensors cannot be read; there is no earlier "
          "complete checkpoint to go on from; trainer.resume_mode=disable starts from scratch");
  put(fs::path(saved) / "actor/ckpt_contents.json", R"({"schema_version": 1})");
  CHECK_THROWS_WITH(read_checkpoint(saved),
                    ContainsSubstring("checkpoint " + saved + " was not saved by this program") &&
                        ContainsSubstring("is not of schema_version 2 with sha256") &&
                        ContainsSubstring("actor_rollout_ref.model.path"));
}

TEST_CASE("a damaged checkpoint is refused with the newest complete one before it") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  save(folder, 2);
  save(folder, 4, 2);
  const std::string last = save(folder, 6, 4);
  save(folder, 8);
  put(temp.path / "global_step_5/state.json", "{}");  // not complete
  put(fs::path(last) / "actor/model/huggingface/model.safetensors", "weightz");
  CHECK_THROWS_WITH(
      read_checkpoint(last),
      ContainsSubstring("model.safetensors was damaged or changed after it was saved") &&
          EndsWith("; to go on from the newest complete checkpoint before it set "
                   "trainer.resume_mode=resume_path and trainer.resume_from_path=" +
                   folder.final_folder(4) + "; trainer.resume_mode=disable starts from scratch"));
}

TEST_CASE("a state that no digest covers or of another step is refused") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  const std::string saved = save(folder, 4);
  fs::rename(saved, folder.final_folder(9));
  CHECK_THROWS_WITH(read_checkpoint(folder.final_folder(9)),
                    ContainsSubstring("state.json: step is 4; valid: the N of its folder"));
  fs::rename(folder.final_folder(9), saved);
  CHECK(read_checkpoint(saved).step == 4);
  put(fs::path(saved) / kManifest, R"({"schema_version": 2, "sha256": {}})");
  put(fs::path(saved) / kStateFile, R"({"step": -5})");
  CHECK_THROWS_WITH(read_checkpoint(saved), ContainsSubstring("has no SHA-256 of state.json"));
}

TEST_CASE("the rows that were recorded are read back, or that there were none") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  CHECK_FALSE(read_state(save(folder, 2)).recorded_rows.has_value());
  CheckpointState state = state_of(3);
  state.recorded_rows = 24;
  CheckpointDraft draft(folder, state, kAnyManifest);
  draft.seal();
  CHECK(read_checkpoint(draft.publish({})).recorded_rows == 24);
}
