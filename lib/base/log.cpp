#include "base/log.h"

#include <poll.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <string>

namespace verlcpp::log {
namespace {

// Built once, on first use; spdlog's _mt sinks lock per line, so ranks never interleave.
spdlog::logger& out() {
  static spdlog::logger logger = [] {
    spdlog::logger l("out", std::make_shared<spdlog::sinks::stdout_sink_mt>());
    l.set_pattern("%v");
    l.flush_on(spdlog::level::info);
    return l;
  }();
  return logger;
}

spdlog::logger& err() {
  static spdlog::logger logger = [] {
    spdlog::logger l("err", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l.set_pattern("%l: %v");
    const char* level = std::getenv("VERLCPP_LOG");
    if (level != nullptr && std::string_view(level) == "debug") l.set_level(spdlog::level::debug);
    l.flush_on(spdlog::level::debug);
    return l;
  }();
  return logger;
}

constexpr std::chrono::milliseconds kLastWords{2000};

/// Whether a write of PIPE_BUF bytes to stderr would go through at once, before `deadline`.
bool stderr_takes_more(std::chrono::steady_clock::time_point deadline) {
  using std::chrono::milliseconds;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd err{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    const int ready = ::poll(&err, 1, static_cast<int>(std::max(left, milliseconds(0)).count()));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0 && (err.revents & POLLOUT) != 0;
  }
}

// As process-wide as stdout is.
std::atomic<bool> stdout_is_kept_clean{false};

}  // namespace

void keep_stdout_clean() { stdout_is_kept_clean = true; }
void debug(std::string_view line) { err().debug("{}", line); }
void info(std::string_view line) { (stdout_is_kept_clean ? err() : out()).info("{}", line); }
void warning(std::string_view line) { err().warn("{}", line); }
void error(std::string_view line) { err().error("{}", line); }

// stderr may be the very pipe or terminal that another thread's write to stdout waits for, and is
// not to be made non-blocking: that would hold for everybody who has it open.
void last_error(std::string_view line) {
  const std::string text = "error: " + std::string(line) + "\n";
  const auto deadline = std::chrono::steady_clock::now() + kLastWords;
  for (size_t at = 0; at < text.size() && stderr_takes_more(deadline);) {
    const size_t piece = std::min<size_t>(text.size() - at, PIPE_BUF);
    const ssize_t written = ::write(STDERR_FILENO, text.data() + at, piece);
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
    if (written > 0) at += static_cast<size_t>(written);
  }
}

}  // namespace verlcpp::log
