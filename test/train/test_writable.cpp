#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/writable.h"

using verlcpp::test::TemporaryFolder;
using verlcpp::train::unwritable_file_reason;
using verlcpp::train::unwritable_reason;
namespace fs = std::filesystem;

TEST_CASE("a folder is known to take nothing before anything is made in it") {
  const TemporaryFolder temp;
  const std::string file = temp.write("file", "");
  CHECK(unwritable_reason(temp.path()).empty());
  CHECK(unwritable_reason(temp.path() + "/a/b/").empty());
  CHECK(unwritable_reason("a/b").empty());
  CHECK(unwritable_reason("").empty());
  CHECK(unwritable_reason(file) == "Not a directory");
  CHECK(unwritable_reason(file + "/b") == "Not a directory");
  CHECK(std::distance(fs::directory_iterator(temp.path()), fs::directory_iterator()) == 1);
}

TEST_CASE(
    "a file system that takes no files is no place, whatever its mode and the user's rights") {
  if (!fs::exists("/proc/self")) {
    WARN("skipped, no /proc here");
    return;
  }
  CHECK(unwritable_reason("/proc") == "/proc takes no new files");
  CHECK(unwritable_reason("/proc/x/y") == "/proc takes no new files");
  CHECK(unwritable_file_reason("/proc/x/metrics.jsonl") == "/proc takes no new files");
}

TEST_CASE("a file that is there is opened, and stays as it is") {
  const TemporaryFolder temp;
  const fs::path file = temp.write("file", "text");
  const auto changed = fs::last_write_time(file);
  CHECK(unwritable_file_reason(file).empty());
  CHECK(fs::file_size(file) == 4);
  CHECK(fs::last_write_time(file) == changed);
  CHECK(unwritable_file_reason(temp.path() + "/new/file").empty());
  CHECK(unwritable_file_reason(temp.path() + "/file/new") == "Not a directory");
  if (::geteuid() == 0) return;  // who may do it all the same
  fs::permissions(file, fs::perms::owner_read);
  fs::permissions(temp.path(), fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(unwritable_file_reason(file) == "Permission denied");
  CHECK(unwritable_file_reason(temp.path() + "/other") == "Permission denied");
  fs::permissions(temp.path(), fs::perms::owner_all);
}
