#include <filesystem>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/checkpoint_lock.h"

using Catch::Matchers::StartsWith;
using verlcpp::ConfigError;
using verlcpp::DeviceError;
using verlcpp::test::TemporaryFolder;
using verlcpp::train::CheckpointLock;
namespace fs = std::filesystem;

TEST_CASE("a folder is taken once, and free again afterwards") {
  const TemporaryFolder temp;
  const std::string folder = temp.path() + "/a/b";
  std::optional<CheckpointLock> first(std::in_place, folder, "KEY");
  CHECK_THROWS_AS(CheckpointLock(folder, "KEY"), ConfigError);
  CHECK_THROWS_WITH(CheckpointLock(folder, "KEY"),
                    StartsWith("KEY: another run saves its checkpoints there; wait for its end"));
  first.reset();
  CHECK(fs::is_empty(temp.path()));  // as it was before
  const CheckpointLock again(folder, "KEY");
}

TEST_CASE("what has been saved stays, and the folder with it") {
  const TemporaryFolder temp;
  const std::string folder = temp.path() + "/a/b";
  {
    const CheckpointLock lock(folder, "KEY");
    std::ofstream(folder + "/saved") << "x";
  }
  CHECK(fs::exists(folder + "/saved"));
  CHECK_FALSE(fs::exists(folder + "/.lock"));
}

TEST_CASE("the lock file of a run that was killed is no obstacle, and goes") {
  const TemporaryFolder temp;
  temp.write(".lock", "process 1 saves here\n");
  { const CheckpointLock lock(temp.path(), "KEY"); }
  CHECK(fs::is_empty(temp.path()));
  CHECK(fs::exists(temp.path()));  // it was there before
}

TEST_CASE("a folder that cannot be made or written is known before training") {
  const TemporaryFolder temp;
  const std::string file = temp.write("file", "");
  CHECK_THROWS_WITH(CheckpointLock(file, "KEY"), StartsWith("KEY cannot be written: "));
  CHECK_THROWS_AS(CheckpointLock(file + "/a/b", "KEY"), DeviceError);
  const std::string folder = temp.path() + "/new/folder";
  fs::create_directories(folder + "/.lock");  // a folder in the lock's place
  CHECK_THROWS_WITH(CheckpointLock(folder, "KEY"), "KEY cannot be written: Is a directory");
}
