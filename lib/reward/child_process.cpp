#include "reward/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/error.h"

namespace verlcpp::reward {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read = -1, write = -1;
};

void close_one(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

/// Pipes whose ends no other program inherits.
class Pipes {
 public:
  Pipes() {
    for (Pipe& pipe : all) {
      std::array<int, 2> ends{};
      if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        const std::string reason = std::strerror(errno);
        close();
        throw DeviceError("the machine: no pipe to a reward program: " + reason);
      }
      pipe = {ends[0], ends[1]};
    }
  }
  ~Pipes() { close(); }
  Pipes(const Pipes&) = delete;
  Pipes& operator=(const Pipes&) = delete;

  std::array<Pipe, 4> all;
  Pipe& in() { return all[0]; }
  Pipe& out() { return all[1]; }
  Pipe& err() { return all[2]; }
  Pipe& failure() { return all[3]; }  // takes errno when the program cannot be executed

 private:
  void close() {
    for (Pipe& pipe : all) {
      close_one(pipe.read);
      close_one(pipe.write);
    }
  }
};

/// In the child, between fork and exec of a process with threads: system calls only.
[[noreturn]] void become(Pipes& pipes, char* const* arguments, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Above 2 first: an end that is 0, 1 or 2 itself would be overwritten.
  const int in = ::fcntl(pipes.in().read, F_DUPFD_CLOEXEC, 3);
  const int out = ::fcntl(pipes.out().write, F_DUPFD_CLOEXEC, 3);
  const int err = ::fcntl(pipes.err().write, F_DUPFD_CLOEXEC, 3);
  const int failure = ::fcntl(pipes.failure().write, F_DUPFD_CLOEXEC, 3);
  ::dup2(in, 0);
  ::dup2(out, 1);
  ::dup2(err, 2);
  ::execvp(arguments[0], arguments);
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = ::write(failure, &reason, sizeof(reason));
  ::_exit(127);
}

/// SIGPIPE does not reach this thread while one lives.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec now{};
    if (!was_pending_) {
      while (::sigtimedwait(&pipe_, nullptr, &now) == -1 && errno == EINTR) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

void set_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

int taken(int& fd) {
  const int mine = fd;
  fd = -1;
  return mine;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments, const std::string& about) {
  Pipes pipes;
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(pipes, argv.data(), parent);
  if (pid_ < 0) {
    throw DeviceError(std::string("the machine: no process for a reward program: ") +
                      std::strerror(errno));
  }
  ::setpgid(pid_, pid_);  // whoever comes first
  close_one(pipes.failure().write);
  int reason = 0;
  ssize_t got = -1;
  do {
    got = ::read(pipes.failure().read, &reason, sizeof(reason));
  } while (got < 0 && errno == EINTR);
  in_ = taken(pipes.in().write);
  out_ = taken(pipes.out().read);
  err_ = taken(pipes.err().read);
  for (const int fd : {in_, out_, err_}) set_nonblocking(fd);
  if (got != sizeof(reason)) return;
  kill();
  close_all();
  throw DataError(about + ": " + arguments[0] + " cannot be executed: " + std::strerror(reason));
}

ChildProcess::~ChildProcess() {
  close_one(in_);
  ended(std::chrono::seconds(1));
  kill();
  close_all();
}

void ChildProcess::close_all() {
  close_one(in_);
  close_one(out_);
  close_one(err_);
}

void ChildProcess::wait(std::chrono::milliseconds limit, bool wants_write) const {
  std::array<pollfd, 3> fds{{{out_, POLLIN, 0}, {err_, POLLIN, 0}, {in_, POLLOUT, 0}}};
  ::poll(fds.data(), wants_write && in_ >= 0 ? 3 : 2, static_cast<int>(limit.count()));
}

std::optional<std::string> ChildProcess::read(Stream stream) {
  int& fd = stream == Stream::kOut ? out_ : err_;
  if (fd < 0) return {};
  std::array<char, 65536> buffer{};
  ssize_t got = -1;
  do {
    got = ::read(fd, buffer.data(), buffer.size());
  } while (got < 0 && errno == EINTR);
  if (got > 0) return std::string(buffer.data(), static_cast<size_t>(got));
  if (got < 0 && errno == EAGAIN) return "";
  close_one(fd);
  return {};
}

size_t ChildProcess::write(std::string_view bytes) {
  if (in_ < 0) return 0;
  const NoBrokenPipe guard;
  ssize_t put = -1;
  do {
    put = ::write(in_, bytes.data(), bytes.size());
  } while (put < 0 && errno == EINTR);
  if (put >= 0) return static_cast<size_t>(put);
  if (errno != EAGAIN) close_one(in_);
  return 0;
}

void ChildProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);  // those it has started too, even when it has ended
  while (!status_) {
    int status = 0;
    if (::waitpid(pid_, &status, 0) == pid_) status_ = status;
    if (!status_ && errno != EINTR) break;
  }
  pid_ = -1;
}

std::optional<std::string> ChildProcess::ended(std::chrono::milliseconds limit) {
  for (const auto until = Clock::now() + limit; !status_ && pid_ > 0;) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    if (status_ || Clock::now() >= until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (!status_) return {};
  if (WIFEXITED(*status_)) return "exit code " + std::to_string(WEXITSTATUS(*status_));
  const int signal = WTERMSIG(*status_);
  return "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

}  // namespace verlcpp::reward
