// The end of a process whose rank does not come back. The test runs itself: the hidden cases at the
// end of this file are the program, with ranks on threads and the executable's own end_process.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>

#include "app/failure.h"
#include "base/error.h"
#include "parallel/thread_ranks.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace verlcpp;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

/// A child process that runs one hidden case of this executable, its stderr in a file.
class Child {
 public:
  explicit Child(const std::string& test_case) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    pid_ = ::fork();
    if (pid_ != 0) return;
    if (std::freopen(err_.c_str(), "w", stderr) != nullptr &&
        std::freopen("/dev/null", "w", stdout) != nullptr) {
      ::execl(self.c_str(), self.c_str(), test_case.c_str(), static_cast<char*>(nullptr));
    }
    ::_exit(127);
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
  std::string err() const {
    std::ifstream in(err_);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

 private:
  test::TemporaryFolder folder_;
  std::string err_ = folder_.path() + "/stderr";
  pid_t pid_ = 0;
};

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

TEST_CASE("a process that was suspended as a whole goes on") {
  Child child("program: ranks at work");
  std::this_thread::sleep_for(300ms);
  child.signal(SIGSTOP);
  std::this_thread::sleep_for(1500ms);
  child.signal(SIGCONT);
  CHECK(child.wait() == 0);
  CHECK(child.err().empty());
}

// --- the program ---------------------------------------------------------------------------------

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
