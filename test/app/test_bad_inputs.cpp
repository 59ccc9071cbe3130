// The table of bad inputs: test/data/bad_inputs/README.md says how to add one.

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include "bad_input_table.h"
#include "run_binary.h"
#include "support/catch.h"

using verlcpp::test::BadInput;
using verlcpp::test::Directive;
using verlcpp::test::Outcome;
using verlcpp::test::run_binary;
using verlcpp::test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

/// A fresh copy of the valid run, as the working folder of this process and of what it starts.
class WorkingFolder {
 public:
  WorkingFolder() : before_(fs::current_path()), path_(fs::canonical(folder_.path()).string()) {
    fs::copy(VERLCPP_BAD_INPUTS "/base", path_, fs::copy_options::recursive);
    fs::copy(VERLCPP_TEST_DATA "/qwen2", path_ + "/model", fs::copy_options::recursive);
    for (const char* name : {"reference.safetensors", "tokenizer_cases.json"}) {
      fs::remove(path_ + "/model/" + name);  // of other tests
    }
    fs::current_path(path_);
  }
  ~WorkingFolder() {
    std::error_code ignored;
    fs::current_path(before_, ignored);
  }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Every file with its content, every folder with none.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      std::string& text = out[fs::relative(entry.path(), path_).string()];
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      text.assign(std::istreambuf_iterator<char>(in), {});
    }
    return out;
  }

 private:
  TemporaryFolder folder_;
  fs::path before_;
  std::string path_;
};

/// An environment variable, put back at the end.
class Variable {
 public:
  Variable(const std::string& name, const std::string& value) : name_(name) {
    if (const char* old = ::getenv(name.c_str())) old_ = old;
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variable() {
    if (old_) {
      ::setenv(name_.c_str(), old_->c_str(), 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  std::string name_;
  std::optional<std::string> old_;
};

const std::vector<std::string> kBase{"--config-dir=.", "--config-name=run"};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::vector<std::string> arguments_of(const BadInput& entry, const WorkingFolder& folder) {
  std::vector<std::string> out;
  if (!entry.bare) out = kBase;
  for (const std::string& argument : entry.arguments) {
    out.push_back(replaced(argument, "{tmp}", folder.path()));
  }
  return out;
}

/// Standard error as the tables write it: the folder by its placeholder, and without the lines of
/// the shipped tree, which change with every comment there.
std::string shown(const std::string& text, const WorkingFolder& folder) {
  static const std::regex kShipped("(\\bconf/[a-z_/]+\\.yaml:)[0-9]+");
  return std::regex_replace(replaced(text, folder.path(), "{tmp}"), kShipped, "$1{line}");
}

void check(const BadInput& entry) {
  INFO(entry.where << " " << entry.title);
  const WorkingFolder folder;
  for (Directive directive : entry.preparation) {
    for (std::string& line : directive.lines) line = replaced(line, "{tmp}", folder.path());
    if (directive.word == "train") {
      REQUIRE(run_binary(kBase).code == 0);
    } else {
      prepare(directive);
    }
  }
  const auto before = folder.contents();
  std::list<Variable> environment;
  for (const auto& [name, value] : entry.environment) environment.emplace_back(name, value);
  const Outcome outcome = run_binary(arguments_of(entry, folder));
  CHECK(outcome.code == entry.exit);
  CHECK(shown(outcome.err, folder) == "error: " + entry.message + "\n");
  CHECK(outcome.out.find("step:") == std::string::npos);
  CHECK((folder.contents() == before));
}

std::vector<BadInput> all_entries() {
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(VERLCPP_BAD_INPUTS)) {
    if (!VERLCPP_PARQUET && file.path().stem() == "parquet") continue;
    if (file.path().extension() == ".txt") files.push_back(file.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<BadInput> out;
  for (const fs::path& file : files) {
    for (BadInput& entry : verlcpp::test::read_bad_inputs(file.string())) {
      out.push_back(std::move(entry));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("the run that the bad inputs start from is a good one") {
  const WorkingFolder folder;
  const Outcome outcome = run_binary(kBase);
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK(fs::exists("checkpoints/global_step_1"));
}

TEST_CASE("every bad input gives its exit code and its one message, and leaves nothing behind") {
  const std::vector<BadInput> entries = all_entries();
  CHECK(entries.size() >= 60);
  std::set<std::string> titles;
  for (const BadInput& entry : entries) {
    INFO(entry.where);
    CHECK(titles.insert(entry.title).second);
    check(entry);
  }
}
