// A signal while the executable starts.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/temporary_folder.h"

using Catch::Matchers::ContainsSubstring;
using verlcpp::test::TemporaryFolder;

namespace {

/// A pipe that is full: who writes to it stands still until somebody reads.
std::array<int, 2> full_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const int flags = ::fcntl(ends[1], F_GETFL);
  ::fcntl(ends[1], F_SETFL, flags | O_NONBLOCK);
  while (::write(ends[1], "\n", 1) == 1) {
  }
  ::fcntl(ends[1], F_SETFL, flags);
  return ends;
}

/// Returns when the program has begun: from then on its signal handlers are its own.
pid_t start(std::vector<std::string> words, int out) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " + words[0]);
  return pid;
}

/// Whether the process has a handler of its own for the signal, from /proc.
bool catches(pid_t pid, int signal) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("SigCgt:")) continue;
    return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  throw std::runtime_error("the program ended before it caught the signal");
}

std::string read_all(int in) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = ::read(in, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  return text;
}

}  // namespace

// The program stands still at its first line of output, before it has read any input.
TEST_CASE("a signal during the start ends with 75 before anything is written") {
  for (const int signal : {SIGTERM, SIGINT}) {
    const TemporaryFolder folder;
    const auto [in, out] = full_pipe();
    const pid_t pid = start({VERLCPP_TRAIN, "--config-name", "quickstart",
                             "data.train_files=" VERLCPP_QUICKSTART "/train.jsonl",
                             "actor_rollout_ref.model.path=" VERLCPP_QUICKSTART "/model",
                             "trainer.total_training_steps=1",
                             "trainer.default_local_dir=" + folder.path() + "/run/checkpoints",
                             "trainer.project_name=" + folder.path() + "/run/logs"},
                            out);
    ::close(out);
    while (!catches(pid, signal)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ::kill(pid, signal);
    const std::string text = read_all(in);
    ::close(in);
    int status = 0;
    ::waitpid(pid, &status, 0);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 75);
    CHECK_THAT(text,
               ContainsSubstring(signal == SIGTERM ? "stopped by SIGTERM before training began"
                                                   : "stopped by SIGINT before training began"));
    CHECK_FALSE(std::filesystem::exists(folder.path() + "/run"));
  }
}
