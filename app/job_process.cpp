#include "app/job_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/log.h"

namespace verlcpp::app {
namespace {

constexpr const char* kSelf = "/proc/self/exe";
constexpr std::string_view kError = "error: ";
constexpr int kPatienceMilliseconds = 20;  // between two looks at a silent job

// A signal handler can reach nothing else.
std::atomic<pid_t> running_job{0};
std::atomic<int> first_stop{0};

/// Runs in a signal handler.
void on_stop_signal(int signal) {
  const int saved = errno;
  int none = 0;
  first_stop.compare_exchange_strong(none, signal);
  const pid_t job = running_job.load();
  if (job > 0) ::kill(job, signal);
  errno = saved;
}

/// SIGTERM and SIGINT wait while it lives: `running_job` says what is true.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t stops;
    ::sigemptyset(&stops);
    ::sigaddset(&stops, SIGTERM);
    ::sigaddset(&stops, SIGINT);
    ::sigprocmask(SIG_BLOCK, &stops, &before_);
  }
  ~HeldSignals() { release(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  void release() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// The job's end of a stream goes to `target` of this process and to the log.
class Relay {
 public:
  Relay(int target, int log) : target_(target), log_(log) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw DeviceError(std::string("the machine: no pipe for a job: ") + std::strerror(errno));
    }
    read_ = ends[0];
    write_ = ends[1];
    ::fcntl(read_, F_SETFL, O_NONBLOCK);
  }
  ~Relay() {
    close_write();
    if (read_ >= 0) ::close(read_);
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  int target() const { return target_; }
  int read_end() const { return read_; }
  int write_end() const { return write_; }
  void close_write() {
    if (write_ >= 0) ::close(write_);
    write_ = -1;
  }
  const std::string& last_error() const { return last_error_; }

  /// Passes on what is there.
  void drain() {
    std::array<char, 65536> bytes{};
    while (read_ >= 0) {
      const ssize_t n = ::read(read_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) {
        ::close(read_);
        read_ = -1;
        return;
      }
      const std::string_view text(bytes.data(), static_cast<size_t>(n));
      // A reader that went away, or a full disk, does not end a job.
      write_all(target_, text);
      if (log_ >= 0) write_all(log_, text);
      look(text);
    }
  }

 private:
  static void write_all(int file, std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(file, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return;
      text.remove_prefix(static_cast<size_t>(n));
    }
  }

  /// Keeps the last error line, and the line behind one that ends with a colon.
  void look(std::string_view text) {
    for (const char c : text) {
      if (c != '\n') {
        line_ += c;
        continue;
      }
      if (line_.starts_with(kError)) {
        last_error_ = line_.substr(kError.size());
      } else if (last_error_.ends_with(':')) {
        last_error_ += " " + line_.substr(std::min(line_.find_first_not_of(' '), line_.size()));
      }
      line_.clear();
    }
  }

  int target_, log_;
  int read_ = -1, write_ = -1;
  std::string line_, last_error_;
};

/// In the forked process: only calls that are safe there.
[[noreturn]] void become(char* const* words, const Relay& out, const Relay& err, pid_t parent,
                         const HeldSignals& held) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (const int number : {SIGTERM, SIGINT}) ::signal(number, SIG_DFL);
  if (::getppid() != parent || ::dup2(out.write_end(), STDOUT_FILENO) < 0 ||
      ::dup2(err.write_end(), STDERR_FILENO) < 0) {
    ::_exit(3);
  }
  held.release();
  ::execv(kSelf, words);
  constexpr std::string_view kFailed = "error: the machine: this program cannot be started again\n";
  if (::write(STDERR_FILENO, kFailed.data(), kFailed.size()) < 0) ::_exit(3);
  ::_exit(3);
}

/// Whether it has ended; then `status` is set.
bool reap(pid_t job, int& status) {
  const HeldSignals held;
  if (::waitpid(job, &status, WNOHANG) == 0) return false;
  running_job.store(0);
  return true;
}

int wait_and_relay(pid_t job, Relay& out, Relay& err) {
  int status = 0;
  while (!reap(job, status)) {
    // A descriptor below zero is left out; what has ended its output may still run for a moment.
    std::array<pollfd, 2> streams{pollfd{out.read_end(), POLLIN, 0},
                                  pollfd{err.read_end(), POLLIN, 0}};
    ::poll(streams.data(), streams.size(), kPatienceMilliseconds);
    out.drain();
    err.drain();
  }
  out.drain();
  err.drain();
  return status;
}

JobEnd ended(int status, const std::string& last_error) {
  JobEnd end;
  if (!WIFSIGNALED(status)) {
    end.code = WEXITSTATUS(status);
    if (end.code != 0) end.error = last_error;
    return end;
  }
  const int number = WTERMSIG(status);
  const char* name = ::sigabbrev_np(number);
  end.code = 128 + number;
  end.error = "killed by ";
  end.error += name == nullptr ? "signal " + std::to_string(number) : std::string("SIG") + name;
  return end;
}

/// Closed at the end; -1 with a warning when there is none.
class LogFile {
 public:
  explicit LogFile(const std::string& path) {
    if (path.empty()) return;
    file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file_ < 0) log::warning(path + " cannot be written: " + std::strerror(errno));
  }
  ~LogFile() {
    if (file_ >= 0) ::close(file_);
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  int file() const { return file_; }

 private:
  int file_ = -1;
};

}  // namespace

void pass_on_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
}

int stop_signal() { return first_stop.load(); }

std::optional<JobEnd> run_job_process(const std::vector<std::string>& arguments,
                                      const std::string& log_file) {
  std::vector<std::string> words{"verlcpp-train"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const LogFile log(log_file);
  Relay out(STDOUT_FILENO, log.file()), err(STDERR_FILENO, log.file());
  const auto start = std::chrono::steady_clock::now();
  const pid_t parent = ::getpid();
  pid_t job = -1;
  {
    const HeldSignals held;
    if (stop_signal() != 0) return std::nullopt;
    job = ::fork();
    if (job == 0) become(pointers.data(), out, err, parent, held);
    if (job < 0) {
      throw DeviceError(std::string("the machine: no process for a job: ") + std::strerror(errno));
    }
    running_job.store(job);
  }
  out.close_write();
  err.close_write();
  const int status = wait_and_relay(job, out, err);
  JobEnd end = ended(status, err.last_error());
  end.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return end;
}

}  // namespace verlcpp::app
