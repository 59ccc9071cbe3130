// The end of a process whose rank does not come back. The test runs itself: the hidden cases at the
// end of this file are the program, with ranks on threads and the executable's own end_process.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "app/failure.h"
#include "base/error.h"
#include "parallel/thread_ranks.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace verlcpp;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

/// A process in the background, its stdout where one says and its stderr in a file or there too.
class Child {
 public:
  /// Runs one hidden case of this executable.
  explicit Child(const std::string& test_case)
      : Child({std::filesystem::read_symlink("/proc/self/exe").string(), test_case}, -1, false) {}
  /// `out`: a descriptor, or -1 for /dev/null.
  Child(std::vector<std::string> words, int out, bool err_too) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    const int err = ::open(err_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (out < 0) out = null;
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::dup2(out, STDOUT_FILENO) >= 0 && ::dup2(err_too ? out : err, STDERR_FILENO) >= 0) {
        ::execv(argv[0], argv.data());
      }
      ::_exit(127);
    }
    ::close(null);
    ::close(err);
  }
  ~Child() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal(int number) const { ::kill(pid_, number); }
  /// Its exit code, or -1 when a signal killed it.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// Its exit code, or -1 when it is still there after `limit`.
  int wait(std::chrono::milliseconds limit) {
    for (const auto end = Clock::now() + limit; Clock::now() < end;) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      std::this_thread::sleep_for(5ms);
    }
    return -1;
  }
  std::string err() const {
    std::ifstream in(err_);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

 private:
  test::TemporaryFolder folder_;
  std::string err_ = folder_.path() + "/stderr";
  pid_t pid_ = 0;
};

/// A pipe that holds one page, so that a few lines fill it.
std::array<int, 2> small_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0 || ::fcntl(ends[1], F_SETPIPE_SZ, 4096) < 0) {
    throw std::runtime_error("no pipe of one page");
  }
  return ends;
}

/// Reads until `word` has come; false when the other end closes first.
bool read_until(int in, const std::string& word) {
  std::string text;
  for (char c = 0; text.find(word) == std::string::npos;) {
    if (::read(in, &c, 1) != 1) return false;
    text += c;
  }
  return true;
}

/// What SIGSTOP would do to the work of one rank, for good.
[[noreturn]] void hang() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  for (;;) never.wait(lock);
}

}  // namespace

TEST_CASE("a rank that stops answering ends the process with 3 and one message") {
  const auto start = Clock::now();
  Child child("program: a silent rank");
  CHECK(child.wait() == 3);
  const auto took = Clock::now() - start;
  CHECK(took >= 500ms);
  CHECK(took < 500ms + 2s);  // the start of the program included
  CHECK(child.err() ==
        "error: rank 1 (TP 0, pool rank 1) has not answered for 500 ms "
        "(actor_rollout_ref.nccl_timeout): phase update_actor, micro-batch 2, last collective "
        "world.barrier; ranks 0, 2 wait in grad.barrier\n");
}

TEST_CASE("an exception ends the process within a second though another rank is stuck") {
  const auto start = Clock::now();
  Child child("program: a failure beside a stuck rank");
  CHECK(child.wait() == 2);
  CHECK(Clock::now() - start < 1s);
  CHECK(child.err() == "error: row 7 is bad\n");
}

// As after Ctrl-S, or with a pager that stands still: rank 0 waits inside of a log call, with what
// locks it takes, for a reader of the metrics that never comes.
TEST_CASE("a run whose output nobody takes ends after nccl_timeout, with 3 and one message") {
  const bool err_too = GENERATE(false, true);  // 2>&1: the message cannot be written either
  const test::TemporaryFolder folder;
  const auto [in, out] = small_pipe();
  Child child(
      {VERLCPP_TRAIN, "--config-name", "quickstart",
       "data.train_files=" VERLCPP_QUICKSTART "/train.jsonl",
       "actor_rollout_ref.model.path=" VERLCPP_QUICKSTART "/model",
       "actor_rollout_ref.nccl_timeout=1", "actor_rollout_ref.rollout.n=4",
       "data.train_batch_size=4", "actor_rollout_ref.actor.ppo_mini_batch_size=2",
       "data.max_response_length=24", "trainer.total_training_steps=1000", "trainer.logger=console",
       "trainer.save_freq=-1", "trainer.default_local_dir=" + folder.path() + "/checkpoints"},
      out, err_too);
  ::close(out);
  REQUIRE(read_until(in, "step:1 "));
  const auto start = Clock::now();
  CHECK(child.wait(10s) == 3);
  // Filling the pipe, the limit and the watchdog's tick, the grace, and two seconds for stderr.
  CHECK(Clock::now() - start < (err_too ? 6s : 4s));
  ::close(in);
  if (err_too) return;
  const std::string said = child.err();
  INFO(said);
  CHECK(said.find("error: rank 0 (TP 0, pool rank 0) has not answered for 1 s "
                  "(actor_rollout_ref.nccl_timeout): phase ") != std::string::npos);
  CHECK(said.find("error: ") == said.rfind("error: "));
  CHECK(said.ends_with("\n"));
}

TEST_CASE("a process that was suspended as a whole goes on") {
  Child child("program: ranks at work");
  std::this_thread::sleep_for(300ms);
  child.signal(SIGSTOP);
  std::this_thread::sleep_for(1500ms);
  child.signal(SIGCONT);
  CHECK(child.wait() == 0);
  CHECK(child.err().empty());
}

// What a library's exit handler does that waits for a thread which could not be started.
TEST_CASE("a failure of the machine ends without exit handlers and with what was printed") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  const int out = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  Child child({self, "program: out of threads with a stuck exit handler"}, out, false);
  ::close(out);
  CHECK(child.wait(20s) == 3);
  CHECK_THAT(child.err(), Catch::Matchers::StartsWith("error: the machine: "));
  std::ifstream in(path);
  const std::string printed{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  CHECK_THAT(printed, Catch::Matchers::ContainsSubstring("by a stream, by stdio"));
}

// Sixteen ranks' stacks do not fit, and a thread of OpenBLAS waits for memory for ever. Sanitizers
// reserve more than any limit.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a run without memory for its ranks' threads ends with 3") {
  const test::TemporaryFolder folder;
  const std::string run = "ulimit -v 150000; exec '" VERLCPP_TRAIN
                          "' --config-name quickstart data.train_files='" VERLCPP_QUICKSTART
                          "/train.jsonl' actor_rollout_ref.model.path='" VERLCPP_QUICKSTART
                          "/model' trainer.n_gpus_per_node=16 trainer.default_local_dir='" +
                          folder.path() + "'";
  Child child({"/bin/sh", "-c", run}, -1, false);
  CHECK(child.wait(60s) == 3);
  CHECK_THAT(child.err(), Catch::Matchers::StartsWith("error: the machine: "));
}
#endif

TEST_CASE("other failures end with exit handlers") {
  Child child("program: bad rows with an exit handler");
  CHECK(child.wait(20s) == 42);
}

// --- the program ---------------------------------------------------------------------------------

TEST_CASE("program: out of threads with a stuck exit handler", "[.]") {
  std::atexit([] { hang(); });
  std::cout << "by a stream, ";
  std::printf("by stdio");
  const std::system_error failure(std::make_error_code(std::errc::resource_unavailable_try_again));
  std::exit(app::end_main(app::report_failure(std::make_exception_ptr(failure))));
}

TEST_CASE("program: bad rows with an exit handler", "[.]") {
  std::atexit([] { std::_Exit(42); });
  std::exit(app::end_main(app::report_failure(std::make_exception_ptr(DataError("row 7")))));
}

TEST_CASE("program: a silent rank", "[.]") {
  parallel::run_thread_ranks(
      {.world = 3},
      [](const parallel::Topology& me, const parallel::RankCommunicators& comm) {
        comm.world.barrier();
        comm.status.enter("update_actor");
        comm.status.micro_batch(2);
        if (me.rank() == 1) hang();
        comm.grad.barrier();
      },
      {.silence_limit = 500ms, .give_up = app::end_process});
}

TEST_CASE("program: a failure beside a stuck rank", "[.]") {
  parallel::run_thread_ranks(
      {.world = 3},
      [](const parallel::Topology& me, const parallel::RankCommunicators& comm) {
        comm.world.barrier();
        if (me.rank() == 0) throw DataError("row 7 is bad");
        if (me.rank() == 1) hang();
        comm.grad.barrier();
      },
      {.give_up = app::end_process});
}

TEST_CASE("program: ranks at work", "[.]") {
  parallel::run_thread_ranks(
      {.world = 2},
      [](const parallel::Topology& me, const parallel::RankCommunicators& comm) {
        // Most of a suspension falls into a piece, with work left in it when the process goes on.
        for (int piece = 0; me.rank() == 0 && piece < 5; ++piece) {
          for (int i = 0; i < 20; ++i) std::this_thread::sleep_for(10ms);
          comm.status.beat();
        }
        comm.world.barrier();
      },
      {.silence_limit = 600ms, .give_up = app::end_process});
}
