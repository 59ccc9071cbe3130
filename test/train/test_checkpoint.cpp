#include "base/error.h"
#include "saved_checkpoint.h"
#include "support/catch.h"
#include "train/remove_tree.h"

using namespace verlcpp;
using namespace verlcpp::test;
using namespace verlcpp::train;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

void set_tracker(const TempFolder& temp, const std::string& text) {
  put(temp.path / kTracker, text);
}

}  // namespace

TEST_CASE("the folders of a step are known without looking") {
  const CheckpointFolder folder("runs/a");
  CHECK(folder.final_folder(7) == "runs/a/global_step_7");
  CHECK(folder.aside_folder(7) == "runs/a/.global_step_7.tmp");
  CHECK(step_of_folder("runs/a/global_step_7/") == 7);
  CHECK_FALSE(step_of_folder("runs/a/global_step_7x").has_value());
}

TEST_CASE("a checkpoint is found, read back and verified") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  CHECK_FALSE(folder.find("auto", {}).has_value());
  save(folder, 2);
  const std::string saved = save(folder, 4, 2);
  CHECK(folder.find("auto", {}) == saved);
  CHECK_FALSE(folder.find("disable", {}).has_value());
  CHECK(folder.find("resume_path", saved + "/") == saved);
  int beats = 0;
  const CheckpointState state = read_checkpoint(saved, [&] { ++beats; });
  CHECK(beats >= 2);
  CHECK(state.step == 4);
  CHECK(state.previous == 2);
  CHECK(state.optimizer_steps == 16);
  CHECK(state.kl_coef == 0.25);
  put(temp.path / "global_step_4/actor/model/huggingface/model.safetensors", "weightz");
  CHECK_THROWS_WITH(read_checkpoint(saved),
                    ContainsSubstring("model.safetensors was damaged or changed"));
  fs::remove(temp.path / "global_step_4/state.json");
  CHECK_THROWS_AS(read_checkpoint(saved), DataError);
}

TEST_CASE("a wrong resume path names the key") {
  const CheckpointFolder folder("nowhere");
  CHECK_THROWS_WITH(folder.find("resume_path", {}),
                    ContainsSubstring("trainer.resume_from_path=null must name a folder"));
  CHECK_THROWS_WITH(folder.find("resume_path", "nowhere/global_step_7"),
                    "trainer.resume_from_path=nowhere/global_step_7 does not exist");
  CHECK_THROWS_WITH(folder.find("resume_path", "nowhere/global_step_-7"),
                    ContainsSubstring("is not a folder called global_step_N"));
}

TEST_CASE("a tracker whose checkpoint is gone leads to the newest complete one before it") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  set_tracker(temp, "7\n");
  CHECK_FALSE(folder.find("auto", {}).has_value());  // nothing is lost
  save(folder, 9);  // of another run: later than what the tracker named
  save(folder, 2);
  save(folder, 4, 2);
  put(temp.path / "global_step_6/state.json", "{}");  // no manifest: not complete
  set_tracker(temp, "7\n");
  CHECK(folder.find("auto", {}) == folder.final_folder(4));
  set_tracker(temp, "seven");
  CHECK_THROWS_WITH(folder.find("auto", {}), ContainsSubstring("must hold a step number"));
}

TEST_CASE("a tracker with blanks around the step is as good as one without") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  const std::string saved = save(folder, 4);
  set_tracker(temp, " 4\r\n");
  CHECK(folder.find("auto", {}) == saved);
  CHECK_FALSE(folder.leads_elsewhere(saved));
  CHECK(folder.continue_from(saved).empty());
  CHECK_THAT(folder.continue_from({}), ContainsSubstring("saved up to step 4;"));
}

TEST_CASE("a tracker that names no step is an error with the ways out, and changes nothing") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  for (int64_t step : {2, 4, 6}) save(folder, step);
  const std::string ways =
      "; to go on from the newest complete checkpoint there set "
      "trainer.resume_mode=resume_path and trainer.resume_from_path=" +
      folder.final_folder(6) + "; trainer.resume_mode=disable starts from scratch";
  for (const std::string text : {"0", "-3", "", "seven", "4 5", "4x", "99999999999999999999"}) {
    set_tracker(temp, text + "\n");
    CHECK_THROWS_WITH(folder.find("auto", {}),
                      "checkpoint file " + (temp.path / kTracker).string() +
                          " must hold a step number, got '" + text + "'" + ways);
    CHECK(text_of(temp.path / kTracker) == text + "\n");
  }
  CHECK(folder.find("resume_path", folder.final_folder(6)) == folder.final_folder(6));
  fs::remove(temp.path / kTracker);
  fs::create_directory(temp.path / kTracker);
  for (const char* mode : {"auto", "disable"}) {
    CHECK_THROWS_WITH(folder.find(mode, {}), "checkpoint file " + (temp.path / kTracker).string() +
                                                 " is not a file, so it names no step; remove it" +
                                                 ways);
  }
}

TEST_CASE("without a tracker a run is given up: auto starts from scratch") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  save(folder, 2);
  fs::remove(temp.path / kTracker);
  CHECK_FALSE(folder.find("auto", {}).has_value());
}

TEST_CASE("a run from scratch takes the tracker from the run before it, not its folders") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  CHECK(folder.continue_from({}).empty());
  const std::string old = save(folder, 100);
  CHECK_THAT(folder.continue_from({}), ContainsSubstring("held a run saved up to step 100") &&
                                           ContainsSubstring("goes on from this run's first save"));
  CHECK_FALSE(folder.find("auto", {}).has_value());
  CHECK(read_checkpoint(old).step == 100);
  CHECK(folder.continue_from({}).empty());  // nothing more to change
  save(folder, 2);
  CHECK(folder.find("auto", {}) == folder.final_folder(2));
}

TEST_CASE("the tracker follows resume_path: back within its folder, away from another") {
  const TempFolder temp, elsewhere;
  const CheckpointFolder folder(temp.path.string());
  const std::string second = save(folder, 2);
  const std::string fourth = save(folder, 4, 2);
  CHECK(folder.continue_from(fourth).empty());
  CHECK_THAT(folder.continue_from(second + "/"), ContainsSubstring("goes on from step 2"));
  CHECK(folder.find("auto", {}) == second);
  const std::string other = save(CheckpointFolder(elsewhere.path.string()), 50);
  CHECK_FALSE(folder.continue_from(other).empty());
  CHECK_FALSE(folder.find("auto", {}).has_value());
}

TEST_CASE("retention keeps the newest of the run, the older ones go after the new one is there") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  save(folder, 1, {}, 2);
  save(folder, 2, 1, 2);
  save(folder, 3, 2, 2);
  save(folder, 4, 3, 2);
  CHECK_FALSE(fs::exists(temp.path / "global_step_1"));
  CHECK_FALSE(fs::exists(temp.path / "global_step_2"));
  CHECK(fs::exists(temp.path / "global_step_3"));
  CHECK(fs::exists(temp.path / "global_step_4"));
  // A tighter limit later: all that are too many go.
  save(folder, 5, 4, {});
  save(folder, 6, 5, 1);
  CHECK_FALSE(fs::exists(temp.path / "global_step_3"));
  CHECK_FALSE(fs::exists(temp.path / "global_step_5"));
  CHECK(folder.find("auto", {}) == folder.final_folder(6));
  CHECK(folder.remove_leftovers().empty());
}

TEST_CASE("retention neither counts nor removes another run's checkpoints") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  save(folder, 5);  // the run before, at steps below and above
  save(folder, 100, 5);
  save(folder, 4, {}, 2);
  save(folder, 8, 4, 2);
  save(folder, 104, 8, 2);
  for (int64_t step : {5, 100, 8, 104}) CHECK(fs::exists(folder.final_folder(step)));
  CHECK_FALSE(fs::exists(folder.final_folder(4)));
}

TEST_CASE("what an interrupted save or removal left behind is removed, and nothing else") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  const std::string good = save(folder, 1);
  put(temp.path / ".global_step_2.tmp/actor/half", "x");
  put(temp.path / ".global_step_0.old/state.json", "{}");
  put(temp.path / (std::string(kTracker) + ".tmp"), "2");
  put(temp.path / "notes.tmp", "mine");
  put(temp.path / ".global_step_keep.old/state.json", "{}");
  put(temp.path / ".global_step_.tmp/state.json", "{}");
  CHECK(folder.remove_leftovers() == std::vector<std::string>{".global_step_0.old",
                                                              ".global_step_2.tmp",
                                                              std::string(kTracker) + ".tmp"});
  CHECK(folder.remove_leftovers().empty());
  CHECK(fs::exists(temp.path / "notes.tmp"));
  CHECK(fs::exists(temp.path / ".global_step_keep.old/state.json"));
  CHECK(fs::exists(temp.path / ".global_step_.tmp/state.json"));
  CHECK(folder.find("auto", {}) == good);
}

TEST_CASE("a checkpoint that was being replaced gets its name back, one being removed does not") {
  const TempFolder temp;
  const CheckpointFolder folder(temp.path.string());
  CHECK(folder.restore_replaced().empty());
  const std::string saved = save(folder, 2);
  save(folder, 3, 2);
  // As a kill between the two renames leaves it.
  fs::rename(saved, folder.old_folder(2));
  CHECK(folder.restore_replaced().empty());
  put(fs::path(folder.aside_folder(2)) / "actor/half", "x");
  CHECK(folder.restore_replaced().empty());
  put(fs::path(folder.aside_folder(2)) / kManifest, "{}");
  CHECK(folder.restore_replaced() == std::vector<int64_t>{2});
  CHECK(read_checkpoint(saved).step == 2);
  CHECK(folder.restore_replaced().empty());
  CHECK(folder.remove_leftovers() == std::vector<std::string>{".global_step_2.tmp"});
}

TEST_CASE("a tree is removed with a sign of life at every file; links are not followed") {
  const TempFolder temp;
  put(temp.path / "kept/file", "x");
  put(temp.path / "tree/a/b", "x");
  put(temp.path / "tree/c", "x");
  fs::create_directory_symlink(temp.path / "kept", temp.path / "tree/link");
  int beats = 0;
  std::error_code failed;
  remove_tree(
      temp.path / "tree", [&] { ++beats; }, failed);
  CHECK_FALSE(failed);
  CHECK(beats == 5);
  CHECK_FALSE(fs::exists(temp.path / "tree"));
  CHECK(fs::exists(temp.path / "kept/file"));
  remove_tree(temp.path / "tree", {}, failed);
  CHECK_FALSE(failed);
  remove_tree("/proc/self/status", {}, failed);
  CHECK(failed);
}
