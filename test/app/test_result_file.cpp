// Files that take a result.

#include <filesystem>
#include <string>

#include "app/result_file.h"
#include "base/error.h"
#include "small_run.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace verlcpp;
using Catch::Matchers::ContainsSubstring;
using test::file_text;
using test::TemporaryFolder;

namespace fs = std::filesystem;

TEST_CASE("what lies where a result is written aside is left alone") {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/result.json";
  const std::string others = folder.write("result.json.tmp", "another's\n");
  const bool linked = GENERATE(false, true);
  if (linked) {
    fs::remove(others);
    fs::create_symlink(folder.write("elsewhere", "another's\n"), others);
  }
  app::check_writable("--flag", file);
  CHECK_FALSE(fs::exists(file));
  CHECK(file_text(others) == "another's\n");
  app::write_result(file, "{}");
  CHECK(file_text(file) == "{}\n");
  CHECK(file_text(others) == "another's\n");
  CHECK_FALSE(fs::exists(file + ".tmp2"));
}

TEST_CASE("a result goes to where a link leads, and the link stays") {
  const TemporaryFolder folder;
  const std::string target = folder.path() + "/below/target.json";
  fs::create_directory(folder.path() + "/below");
  const bool there = GENERATE(false, true);
  if (there) folder.write("below/target.json", "older\n");
  fs::create_symlink("target.json", folder.path() + "/below/second");
  fs::create_symlink("below/second", folder.path() + "/first");
  app::check_writable("--flag", folder.path() + "/first");
  CHECK(fs::exists(target) == there);
  app::write_result(folder.path() + "/first", "{}");
  CHECK(file_text(target) == "{}\n");
  CHECK(fs::is_symlink(folder.path() + "/first"));
  CHECK(fs::is_symlink(folder.path() + "/below/second"));
}

TEST_CASE("links in a circle, folders and missing folders take no result") {
  const TemporaryFolder folder;
  fs::create_symlink("circle", folder.path() + "/circle");
  for (const char* name : {"/circle", "", "/none/result.json"}) {
    INFO(name);
    CHECK_THROWS_AS(app::check_writable("--flag", folder.path() + name), ConfigError);
  }
}
