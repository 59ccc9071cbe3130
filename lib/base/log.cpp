#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

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
    l.flush_on(spdlog::level::info);
    return l;
  }();
  return logger;
}

// As process-wide as stdout is.
std::atomic<bool> stdout_is_kept_clean{false};

}  // namespace

void keep_stdout_clean() { stdout_is_kept_clean = true; }
void info(std::string_view line) { (stdout_is_kept_clean ? err() : out()).info("{}", line); }
void warning(std::string_view line) { err().warn("{}", line); }
void error(std::string_view line) { err().error("{}", line); }

}  // namespace verlcpp::log
