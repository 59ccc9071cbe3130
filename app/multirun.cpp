#include "app/multirun.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "app/job_process.h"
#include "app/launch.h"
#include "app/result_file.h"
#include "app/sweep_plan.h"
#include "app/sweep_table.h"
#include "base/error.h"
#include "base/log.h"
#include "config/tree.h"
#include "train/stop_notice.h"
#include "train/writable.h"

namespace verlcpp::app {
namespace {

namespace fs = std::filesystem;

constexpr int kStoppedBySignal = 75;

/// The sweep's folder, which no other sweep uses meanwhile.
class SweepFolder {
 public:
  explicit SweepFolder(SweepPlan& plan) {
    if (!plan.named) take_new_name(plan);
    std::error_code failed;
    fs::create_directories(plan.folder, failed);
    if (failed) throw_unwritable(plan, failed.message());
    file_ = ::open(plan.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file_ < 0) throw_unwritable(plan, std::strerror(errno));
    const std::string reason = train::unwritable_reason(plan.folder);
    if (!reason.empty()) throw_unwritable(plan, reason);
    if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    throw ConfigError("hydra.sweep.dir = " + plan.folder +
                      ": another sweep runs there; wait for its end, or set a folder of its own");
  }
  ~SweepFolder() {
    if (file_ >= 0) ::close(file_);
  }
  SweepFolder(const SweepFolder&) = delete;
  SweepFolder& operator=(const SweepFolder&) = delete;

 private:
  [[noreturn]] static void throw_unwritable(const SweepPlan& plan, const std::string& reason) {
    throw DeviceError("hydra.sweep.dir = " + plan.folder + " cannot be written: " + reason);
  }

  /// Of two sweeps in one second the later one gets a number.
  static void take_new_name(SweepPlan& plan) {
    const std::string wanted = plan.folder;
    std::error_code failed;
    fs::create_directories(fs::path(wanted).parent_path(), failed);
    for (int number = 2; !fs::create_directory(plan.folder, failed) && !failed; ++number) {
      plan.folder = wanted + "-" + std::to_string(number);
    }
    if (failed) throw_unwritable(plan, failed.message());
    for (PlannedJob& job : plan.jobs) {
      const auto move = [&](std::string& path) {
        if (path.starts_with(wanted + "/")) path = plan.folder + path.substr(wanted.size());
      };
      move(job.folder);
      move(job.metrics_file);
    }
  }

  int file_ = -1;
};

/// What the job's own process is started with.
std::vector<std::string> arguments_of(const Options& options, const SweepPlan& plan,
                                      size_t number) {
  const PlannedJob& planned = plan.jobs[number];
  std::vector<std::string> words{"--sweep-job", std::to_string(number), std::to_string(plan.began),
                                 "--config-name=" + options.config_name};
  if (!options.config_dir.empty()) words.push_back("--config-dir=" + options.config_dir);
  if (!options.config_path.empty()) words.push_back("--config-path=" + options.config_path);
  if (options.dry_run) words.emplace_back("--dry-run");
  if (options.assume_response_length) {
    words.insert(words.end(),
                 {"--assume-response-length", std::to_string(*options.assume_response_length)});
  }
  if (options.print_config) words.emplace_back("--cfg=job");
  if (options.resolve) words.emplace_back("--resolve");
  const std::vector<std::string>& overrides = planned.job.overrides;
  words.insert(words.end(), overrides.begin(), overrides.end());
  words.push_back("hydra.run.dir=" + config::to_inline(config::Node(planned.folder)));
  return words;
}

/// Whatever keeps a job from running is its own failure, not the sweep's.
std::optional<JobEnd> run_job(const Options& options, const SweepPlan& plan, size_t number,
                              bool keeps_log) {
  const PlannedJob& planned = plan.jobs[number];
  try {
    std::error_code failed;
    if (keeps_log) fs::create_directories(planned.folder, failed);
    if (failed) throw DeviceError(planned.folder + ": cannot be made: " + failed.message());
    const std::string log =
        keeps_log ? (fs::path(planned.folder) / "verlcpp-train.log").string() : "";
    return run_job_process(arguments_of(options, plan, number), log);
  } catch (const Error& error) {
    log::error(error.what());
    return JobEnd{error.exit_code(), error.what(), 0};
  }
}

int first_failure(const std::vector<JobResult>& results) {
  for (const JobResult& result : results) {
    if (result.end && result.end->code != 0) return result.end->code;
  }
  return stop_signal() != 0 ? kStoppedBySignal : 0;
}

size_t not_started(const std::vector<JobResult>& results) {
  size_t count = 0;
  for (const JobResult& result : results) count += result.end ? 0 : 1;
  return count;
}

/// Runs the jobs until one is not to be followed by another; calls `after(number)` for each.
template <class Before, class After>
std::vector<JobResult> run_jobs(const Options& options, const SweepPlan& plan, bool keeps_log,
                                const Before& before, const After& after) {
  std::vector<JobResult> results(plan.jobs.size());
  for (size_t i = 0; i < plan.jobs.size() && stop_signal() == 0; ++i) {
    before(i);
    results[i].end = run_job(options, plan, i, keeps_log);
    if (!results[i].end) break;
    after(i, results);
    if (options.stop_on_failure && results[i].end->code != 0) break;
  }
  return results;
}

/// --dry-run and --cfg.
int show_jobs(const Options& options, const SweepPlan& plan) {
  const auto title = [&](size_t i) {
    const std::string name = job_name(i, plan.jobs[i].job);
    log::info(options.print_config ? "---\n# " + name : "== " + name);
  };
  return first_failure(run_jobs(options, plan, false, title, [](size_t, const auto&) {}));
}

/// A word about an end that came early.
void say_why_it_ended(const Options& options, const SweepPlan& plan,
                      const std::vector<JobResult>& results) {
  const size_t left = not_started(results);
  const std::string jobs =
      std::to_string(left) + " of " + std::to_string(results.size()) + " jobs not started";
  if (stop_signal() != 0) {
    log::info(
        "the sweep was stopped by " + train::signal_name(stop_signal()) + ", " + jobs +
        "; the same command with hydra.sweep.dir=" + config::to_inline(config::Node(plan.folder)) +
        " and trainer.resume_mode=auto goes on");
  } else if (left > 0 && options.stop_on_failure) {
    log::info("the sweep ended at its first failure (--stop-on-failure), " + jobs);
  }
}

}  // namespace

int run_sweep(const Options& options, std::time_t now) {
  SweepPlan plan = plan_sweep(options, now);
  pass_on_stop_signals();
  for (const std::string& note : plan.notes) {
    if (!options.print_config) log::info("note: " + note);
  }
  if (options.print_config || options.dry_run) return show_jobs(options, plan);
  expect_one_process();
  const SweepFolder held(plan);
  const std::string file = (fs::path(plan.folder) / "multirun.jsonl").string();
  log::info("sweep: " + std::to_string(plan.jobs.size()) +
            (plan.jobs.size() == 1 ? " job, in " : " jobs, in ") + plan.folder);
  const auto title = [&](size_t i) {
    log::info("sweep: " + job_name(i, plan.jobs[i].job) + " of " +
              std::to_string(plan.jobs.size()) + ", in " + plan.jobs[i].folder);
  };
  const auto keep = [&](const std::vector<JobResult>& results) {
    std::string lines = to_json_lines(plan, results);
    lines.pop_back();  // write_result ends the last line
    write_result(file, lines);
  };
  const auto after = [&](size_t i, std::vector<JobResult>& results) {
    read_metrics(plan.jobs[i].metrics_file, results[i]);
    try {
      keep(results);
    } catch (const Error& error) {
      log::warning(error.what());  // the last one must succeed
    }
  };
  const std::vector<JobResult> results = run_jobs(options, plan, true, title, after);
  log::info("");
  log::info(to_table(plan, results) + "sweep: " + file);
  say_why_it_ended(options, plan, results);
  keep(results);
  return first_failure(results);
}

}  // namespace verlcpp::app
