#include "child.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace verlcpp::test {
namespace {

using Clock = std::chrono::steady_clock;

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// In the forked child: only calls that are safe there.
[[noreturn]] void become(char* const* words, const char* out, const char* err,
                         const std::optional<uint64_t>& file_limit) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  if (::dup2(::open(out, flags, 0600), STDOUT_FILENO) < 0) ::_exit(127);
  if (::dup2(::open(err, flags, 0600), STDERR_FILENO) < 0) ::_exit(127);
  if (file_limit) {
    const rlimit limit{*file_limit, *file_limit};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(127);
  }
  ::execv(words[0], words);
  ::_exit(127);
}

}  // namespace

Child::Child(const std::vector<std::string>& arguments, std::optional<uint64_t> file_limit) {
  std::vector<std::string> words{VERLCPP_TRAIN};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const std::string out = folder_.path() + "/out", err = folder_.path() + "/err";
  // A signal between fork and exec is the program's, not for the handlers of the test runner.
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  pid_ = ::fork();
  if (pid_ == 0) {
    for (const int number : {SIGTERM, SIGINT}) ::signal(number, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    become(pointers.data(), out.c_str(), err.c_str(), file_limit);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) throw std::runtime_error("fork failed");
}

Child::~Child() {
  signal(SIGKILL);
  reap(0);
}

std::string Child::out() const { return read_file(folder_.path() + "/out"); }

void Child::reap(int options) {
  if (ended_) return;
  int status = 0;
  if (::waitpid(pid_, &status, options) != pid_) return;
  ended_ = true;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool Child::running() {
  reap(WNOHANG);
  return !ended_;
}

void Child::signal(int number) {
  if (!ended_) ::kill(pid_, number);
}

bool Child::wait_until(const std::function<bool()>& there) {
  while (!there()) {
    if (!running()) return there();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

Outcome Child::wait(std::chrono::seconds limit) {
  const auto end = Clock::now() + limit;
  if (!wait_until([&] { return Clock::now() > end; }) || !ended_) signal(SIGKILL);
  reap(0);
  return {.code = code_, .out = out(), .err = read_file(folder_.path() + "/err")};
}

}  // namespace verlcpp::test
