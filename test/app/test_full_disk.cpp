// A full disk, a limit on file sizes, a file in the way: named with path and bytes, and the same
// command goes on once there is space.

#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "child.h"
#include "small_run.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using namespace verlcpp::test;
namespace fs = std::filesystem;

namespace {

constexpr int kMachineFailed = 3;
const std::vector<std::string> kMore{"trainer.save_freq=2"};

/// Mounts of this process's own: nothing is left on the machine, whatever happens here. Without
/// privileges it takes a user namespace, in which the user keeps the same number.
bool unshare_mounts() {
  const auto same = [](unsigned id) {
    return std::to_string(id) + " " + std::to_string(id) + " 1";
  };
  const std::string user = same(::getuid()), group = same(::getgid());
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << user;
    std::ofstream("/proc/self/gid_map") << group;
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// A file system of its own in memory, of a size that can be changed. `why` says why there is none:
/// mounting needs privileges, or user namespaces.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& folder, const std::string& size) : folder_(folder) {
    fs::create_directories(folder_);
    static const bool separate = unshare_mounts();
    mounted_ =
        separate && ::mount("none", folder_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
    // A namespace that does not know the user takes no files.
    const std::string probe = folder_ + "/probe";
    usable_ = mounted_ && std::ofstream(probe).good();
    if (!usable_) why = std::strerror(errno);
    std::error_code ignored;
    fs::remove(probe, ignored);
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  void resize(const std::string& size) const {
    REQUIRE(::mount("none", folder_.c_str(), nullptr, MS_REMOUNT, ("size=" + size).c_str()) == 0);
  }
  /// False while somebody has a file open for writing.
  bool set_read_only(bool value) const {
    const unsigned long flags = MS_REMOUNT | (value ? MS_RDONLY : 0);
    return ::mount("none", folder_.c_str(), nullptr, flags, nullptr) == 0;
  }
  uint64_t used() const {
    struct statvfs now {};
    REQUIRE(::statvfs(folder_.c_str(), &now) == 0);
    return (now.f_blocks - now.f_bfree) * now.f_frsize;
  }
  explicit operator bool() const { return usable_; }
  std::string why;

 private:
  std::string folder_;
  bool mounted_ = false, usable_ = false;
};

Outcome expect_machine_failure(const std::vector<std::string>& arguments) {
  Outcome outcome = run_binary(arguments);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == kMachineFailed);
  return outcome;
}

uint64_t bytes_below(const std::string& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

}  // namespace

TEST_CASE("a disk full of checkpoints: the last good one and its rows stay, nothing is left over") {
  const TemporaryFolder folder, whole;
  expect_success(quickstart(whole.path(), 6, kMore));
  const uint64_t one = bytes_below(whole.path() + "/checkpoints/global_step_2");
  const SmallDisk disk(folder.path() + "/checkpoints", std::to_string(one * 7 / 4));
  if (!disk) {
    WARN("skipped, no tmpfs can be mounted: " << disk.why);
    return;
  }
  const Outcome full = expect_machine_failure(quickstart(folder.path(), 6, kMore));
  CHECK_THAT(full.err, ContainsSubstring("/checkpoints/.global_step_4.tmp/") &&
                           ContainsSubstring(": cannot write ") &&
                           ContainsSubstring(" bytes: No space left on device"));
  CHECK(tracked_step(folder.path()) == 2);
  CHECK(saved_steps(folder.path()) == std::vector<int>{2});
  CHECK(strays(folder.path()).empty());
  CHECK(disk.used() < one * 5 / 4);  // what did not fit takes no space
  const auto rows = metrics_lines(folder.path());
  const auto want = metrics_lines(whole.path());
  CHECK(rows == std::vector<std::string>(want.begin(), want.begin() + 3));

  disk.resize("100m");
  expect_success(quickstart(folder.path(), 6, kMore));
  CHECK(metrics_lines(folder.path()) == want);
}

TEST_CASE("a disk full of metrics: whole rows stay, the checkpoint too") {
  const TemporaryFolder folder, whole;
  expect_success(quickstart(whole.path(), 6, kMore));
  const uint64_t rows = fs::file_size(whole.path() + "/logs/run.jsonl");
  // Some four of six rows; a tmpfs has whole pages.
  const SmallDisk disk(folder.path() + "/logs", std::to_string(rows * 2 / 3));
  if (!disk) {
    WARN("skipped, no tmpfs can be mounted: " << disk.why);
    return;
  }
  const Outcome full = expect_machine_failure(quickstart(folder.path(), 6, kMore));
  CHECK_THAT(full.err, ContainsSubstring("metrics file " + folder.path() +
                                         "/logs/run.jsonl: "
                                         "cannot write the ") &&
                           ContainsSubstring(": No space left on device"));
  const std::string text = file_text(folder.path() + "/logs/run.jsonl");
  CHECK(text.ends_with("}}\n"));
  const auto kept = metrics_lines(folder.path());
  CHECK(kept.size() >= 2);
  CHECK(tracked_step(folder.path()) <= static_cast<int>(kept.size()));
  CHECK(strays(folder.path()).empty());

  disk.resize("10m");
  expect_success(quickstart(folder.path(), 6, kMore));
  CHECK(metrics_lines(folder.path()) == metrics_lines(whole.path()));
}

TEST_CASE("a disk full of recorded trajectories: whole rows stay") {
  const TemporaryFolder folder, whole;
  const auto recording = [](const std::string& to) {
    return quickstart(to, 6,
                      {"trainer.save_freq=2",
                       "actor_rollout_ref.rollout.record_path=" + to + "/record/rows.jsonl"});
  };
  expect_success(recording(whole.path()));
  const uint64_t bytes = fs::file_size(whole.path() + "/record/rows.jsonl");
  const SmallDisk disk(folder.path() + "/record", std::to_string(bytes * 2 / 3));
  if (!disk) {
    WARN("skipped, no tmpfs can be mounted: " << disk.why);
    return;
  }
  const Outcome full = expect_machine_failure(recording(folder.path()));
  CHECK_THAT(full.err, ContainsSubstring(folder.path() + "/record/rows.jsonl: cannot write ") &&
                           ContainsSubstring(" bytes: No space left on device"));
  CHECK(file_text(folder.path() + "/record/rows.jsonl").ends_with("}\n"));
  disk.resize("10m");
  expect_success(recording(folder.path()));
  CHECK(metrics_lines(folder.path()) == metrics_lines(whole.path()));
  CHECK(file_text(folder.path() + "/record/rows.jsonl") ==
        file_text(whole.path() + "/record/rows.jsonl"));
}

TEST_CASE("a limit on file sizes is named like a full disk") {
  const TemporaryFolder folder, whole;
  expect_success(quickstart(whole.path(), 4, kMore));
  const std::string weights = "actor/model/huggingface/model.safetensors";
  const uint64_t size = fs::file_size(whole.path() + "/checkpoints/global_step_2/" + weights);
  Child limited(quickstart(folder.path(), 4, kMore), size - 1);
  const Outcome outcome = limited.wait();
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == kMachineFailed);
  CHECK_THAT(outcome.err, ContainsSubstring(folder.path() + "/checkpoints/.global_step_2.tmp/" +
                                            weights + ": cannot write " + std::to_string(size) +
                                            " bytes: File too large"));
  CHECK(strays(folder.path()).empty());
  CHECK(tracked_step(folder.path()) == 0);
  CHECK(metrics_lines(folder.path()).size() == 1);
  expect_success(quickstart(folder.path(), 4, kMore));
  CHECK(metrics_lines(folder.path()) == metrics_lines(whole.path()));
}

TEST_CASE("no checkpoint is published before its step's row is written") {
  const TemporaryFolder folder;
  expect_success(quickstart(folder.path(), 2, kMore));
  const std::string file = folder.path() + "/logs/run.jsonl";
  const std::string rows = file_text(file);
  const uint64_t row = rows.size() - rows.find('\n');
  // The metrics are made the largest file, with space for one more row and a half: step 3, not 4.
  const std::string padding = ",\"padding\":\"" + std::string(4 << 20, 'x') + "\"}\n";
  const size_t end = rows.find('\n') - 1;
  std::ofstream(file) << rows.substr(0, end) + padding + rows.substr(end + 2);
  Child limited(quickstart(folder.path(), 4, kMore), fs::file_size(file) + row * 3 / 2);
  const Outcome outcome = limited.wait();
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == kMachineFailed);
  CHECK_THAT(outcome.err, ContainsSubstring("metrics file " + file + ": cannot write the ") &&
                              ContainsSubstring(" bytes of step 4: File too large"));
  CHECK(metrics_lines(folder.path()).size() == 3);
  CHECK(tracked_step(folder.path()) == 2);
  CHECK(saved_steps(folder.path()) == std::vector<int>{2});
  CHECK(strays(folder.path()).empty());
}

TEST_CASE("a file in a checkpoint's place is named and left alone") {
  const TemporaryFolder folder, whole;
  expect_success(quickstart(whole.path(), 4, kMore));
  const std::string file = folder.write("checkpoints/global_step_4", "somebody's");
  const Outcome blocked = expect_machine_failure(quickstart(folder.path(), 4, kMore));
  CHECK_THAT(blocked.err, ContainsSubstring(file + " cannot be saved: a file is in the way"));
  CHECK(file_text(file) == "somebody's");
  CHECK(tracked_step(folder.path()) == 2);
  CHECK(strays(folder.path()).empty());
  fs::remove(file);
  expect_success(quickstart(folder.path(), 4, kMore));
  CHECK(metrics_lines(folder.path()) == metrics_lines(whole.path()));
}

TEST_CASE("a disk that is read-only from the start is refused before training") {
  for (const std::string part : {"checkpoints", "logs"}) {
    const TemporaryFolder folder;
    const SmallDisk disk(folder.path() + "/" + part, "10m");
    if (!disk) {
      WARN("skipped, no tmpfs can be mounted: " << disk.why);
      return;
    }
    REQUIRE(disk.set_read_only(true));
    const Outcome refused = run_binary(quickstart(folder.path(), 2, kMore));
    CHECK(refused.code == 2);  // with all that is wrong with the configuration
    CHECK_THAT(refused.err, ContainsSubstring(folder.path() + "/" + part) &&
                                ContainsSubstring("Read-only file system"));
    CHECK_THAT(refused.out, !ContainsSubstring("step:1"));
    REQUIRE(disk.set_read_only(false));
    expect_success(quickstart(folder.path(), 2, kMore));
    CHECK(tracked_step(folder.path()) == 2);
  }
}

// As the kernel does with a disk that fails.
TEST_CASE("a disk that becomes read-only is named; the rows before it stay and the run goes on") {
  const TemporaryFolder folder;
  const SmallDisk disk(folder.path() + "/logs", "10m");
  if (!disk) {
    WARN("skipped, no tmpfs can be mounted: " << disk.why);
    return;
  }
  const std::vector<std::string> more{"trainer.save_freq=1", "trainer.max_actor_ckpt_to_keep=1",
                                      "trainer.total_epochs=100000",
                                      "actor_rollout_ref.actor.optim.total_training_steps=100000"};
  Child child(quickstart(folder.path(), 100000, more));
  REQUIRE(child.wait_until([&] { return tracked_step(folder.path()) >= 2; }));
  REQUIRE(child.wait_until([&] { return disk.set_read_only(true); }));
  const Outcome failed = child.wait();
  INFO(failed.out << failed.err);
  CHECK(failed.code == kMachineFailed);
  CHECK_THAT(failed.err,
             ContainsSubstring("metrics file " + folder.path() + "/logs/run.jsonl: cannot write") &&
                 ContainsSubstring("Read-only file system"));
  CHECK(strays(folder.path()).empty());
  const int done = tracked_step(folder.path());
  CHECK(done >= 2);
  CHECK(static_cast<int>(metrics_lines(folder.path()).size()) >= done);
  REQUIRE(disk.set_read_only(false));
  const TemporaryFolder whole;
  expect_success(quickstart(folder.path(), done + 1, more));
  expect_success(quickstart(whole.path(), done + 1, more));
  CHECK(metrics_lines(folder.path()) == metrics_lines(whole.path()));
}

TEST_CASE("a stop onto a disk that became read-only says that it cannot save") {
  const TemporaryFolder folder;
  const SmallDisk disk(folder.path() + "/checkpoints", "10m");
  if (!disk) {
    WARN("skipped, no tmpfs can be mounted: " << disk.why);
    return;
  }
  Child child(
      quickstart(folder.path(), 100000, {"trainer.save_freq=-1", "trainer.total_epochs=100000"}));
  REQUIRE(child.wait_until([&] { return !metrics_lines(folder.path()).empty(); }));
  REQUIRE(disk.set_read_only(true));
  child.signal(SIGTERM);
  const Outcome stopped = child.wait();
  INFO(stopped.out << stopped.err);
  CHECK(stopped.code == kMachineFailed);
  CHECK_THAT(stopped.err,
             ContainsSubstring("cannot be saved: trainer.default_local_dir=" + folder.path() +
                               "/checkpoints cannot be written: Read-only file system"));
}

TEST_CASE("read-only places for what a run writes are problems of the configuration, all named") {
  const TemporaryFolder folder;
  const SmallDisk disk(folder.path() + "/checkpoints", "10m");
  if (!disk) {
    WARN("skipped, no tmpfs can be mounted: " << disk.why);
    return;
  }
  REQUIRE(disk.set_read_only(true));
  const std::string below = folder.path() + "/checkpoints/";
  const std::string record = "actor_rollout_ref.rollout.record_path=" + below + "rollouts.jsonl";
  const Outcome outcome = run_binary(quickstart(
      folder.path(), 1, {"trainer.save_freq=1", record, "trainer.project_name=" + below + "logs"}));
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("the configuration has 3 problems:"));
  CHECK_THAT(outcome.err, ContainsSubstring("cannot be written (Read-only file system); must be a "
                                            "folder for checkpoints"));
  CHECK_THAT(outcome.err, ContainsSubstring("rollouts.jsonl' (override ") &&
                              ContainsSubstring("): cannot be written (Read-only file system); "
                                                "must be a file in a folder that can"));
}
