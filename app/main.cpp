#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "app/calibrate.h"
#include "app/cli.h"
#include "app/compare.h"
#include "app/configuration.h"
#include "app/device.h"
#include "app/failure.h"
#include "app/launch.h"
#include "app/multirun.h"
#include "app/result_file.h"
#include "app/selftest.h"
#include "base/error.h"
#include "base/log.h"
#include "config/compose.h"
#include "config/hydra_keys.h"
#include "config/problems.h"
#include "config/sweep.h"
#include "train/banner.h"
#include "train/checked_config.h"
#include "train/dry_run.h"
#include "train/inputs.h"
#include "train/key_kinds.h"
#include "train/outputs.h"
#include "train/plan_lengths.h"
#include "train/train_config.h"
#include "train/validate.h"

namespace verlcpp::app {
namespace {

using Clock = std::chrono::steady_clock;

/// DeviceError when standard output does not take all of it.
void print(const std::string& text) {
  errno = 0;
  std::cout << text;
  if (!text.ends_with('\n')) std::cout << '\n';
  std::cout.flush();
  if (std::cout) return;
  const std::string reason = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  throw DeviceError("the machine: standard output cannot be written" + reason);
}

/// Prints `text` and keeps `json` in `file` unless that is "": each is tried when the other fails,
/// since the work was long.
void deliver(const std::string& text, const std::string& file, const std::string& json) {
  const auto keep = [&] {
    if (!file.empty()) write_result(file, json);
  };
  try {
    print(text);
  } catch (const DeviceError&) {
    keep();
    throw;
  }
  keep();
}

/// Returns 1 when the arms' numbers differ, which is a bug of ours.
int compare(const Options& options, const config::Node& tree) {
  const CompareOutcome outcome =
      run_comparison({.options = {.steps = options.compare_steps, .warmup = options.compare_warmup},
                      .json = options.json,
                      .json_file = options.compare_json},
                     tree);
  deliver(outcome.text, options.compare_json, outcome.json);
  if (outcome.differs.empty()) return 0;
  log::error("--compare-dcp: " + outcome.differs +
             " of the arms differ by more than the tolerance, or are not numbers; please report it "
             "with the result above");
  return 1;
}

/// Returns 1 when layouts differ, which is a bug of ours.
int selftest(const config::Node& tree) {
  const train::SelftestReport report = run_selftest(tree);
  print(train::to_text(report));
  if (report.all_agree()) return 0;
  log::error("--selftest-layout: layouts differ; please report it with the table above");
  return 1;
}

int calibrate(const Options& options, const config::Node& tree, const train::TrainConfig& config) {
  const train::Calibration result = run_calibration(
      {.file = options.calibrate, .checks = options.calibrate_checks}, tree, config);
  deliver(train::to_text(result), options.calibrate, train::to_json(result));
  return 0;
}

/// As train::device_warnings takes it; a dry run asks no GPU.
std::string known_device(const train::TrainConfig& config, bool dry_run) {
  const std::string& device = config.trainer.device;
  if (device == "cpu") return device;
  if (device == "auto") return "";
  if (dry_run) return train::kSomeGpu;
  try {
    return device_name(device);
  } catch (const DeviceError&) {
    return train::kSomeGpu;  // the run itself will say what is wrong with it
  }
}

bool plans_by_costs(const train::TrainConfig& config) {
  const train::ActorRolloutRefConfig& roles = config.actor_rollout_ref;
  return roles.actor.megatron.costs.measured || roles.ref.megatron.costs.measured;
}

/// What composing and resolving a configuration found, for checked().
struct Found {
  std::vector<std::string> notes = {};
  config::KeyProblems overrides = {}, interpolations = {};
  config::KeyHistory history = {};
};

/// Binds and checks `tree`, whose device is chosen here, and says what it warns of. `folder`:
/// hydra.run.dir, or "".
train::CheckedConfig checked(const Options& options, config::Node& tree, const std::string& folder,
                             const Found& found) {
  const std::string device = choose_device(tree, options.dry_run);
  if (!options.calibrate.empty()) forget_cost_files(tree);
  for (const std::string& note : found.notes) log::info("note: " + note);
  train::CheckedConfig checked =
      train::checked_config(tree, {.folder = folder,
                                   .dry_run = options.dry_run,
                                   .assumed_response_length = options.assume_response_length,
                                   .overrides = found.overrides,
                                   .interpolations = found.interpolations,
                                   .history = found.history});
  const train::TrainConfig& config = checked.config;
  for (const std::string& warning : checked.warnings) log::warning(warning);
  if (!device.empty()) log::info(device);
  if (plans_by_costs(config)) {
    const std::string known = known_device(config, options.dry_run);
    for (const std::string& line : train::device_warnings(config, tree, known)) log::warning(line);
  }
  return checked;
}

/// What the command line asks for, of a configuration that is checked().
int perform(const Options& options, const config::Node& tree, const train::CheckedConfig& checked,
            const std::string& folder, Clock::time_point start) {
  const train::TrainConfig& config = checked.config;
  if (options.compare_dcp) return compare(options, tree);
  if (options.selftest_layout) return selftest(tree);
  if (!options.calibrate.empty()) return calibrate(options, tree, config);
  for (const std::string& line : train::banner(config, tree)) log::info(line);
  for (const std::string& warning : train::budget_warnings(config, tree)) log::warning(warning);
  for (const std::string& line : train::scheduler_warnings(config, tree)) log::warning(line);
  if (options.dry_run) {
    print(train::dry_run_report(config, train::load_inputs(config, tree),
                                options.assume_response_length));
    if (!checked.limits.empty()) throw ConfigError(config::numbered(checked.limits));
    return 0;
  }
  expect_one_process();
  if (!folder.empty()) write_hydra_files(folder, config, tree, options.overrides);
  return run_training(config, tree, start);
}

void refuse_sweeps(const std::vector<std::string>& overrides) {
  std::string problems;
  for (size_t i = 0; i < overrides.size(); ++i) {
    const std::string& text = overrides[i];
    if (!config::is_sweep(text)) continue;
    const size_t key = std::min(text.find_first_not_of("+~"), text.size());
    if (config::is_hydra_key(text.substr(key, text.find('=') - key))) {
      problems +=
          (problems.empty() ? "" : "\n") + config::about_hydra_sweep(text, static_cast<int>(i) + 1);
      continue;
    }
    problems +=
        (problems.empty() ? "override " : "\noverride ") + std::to_string(i + 1) + ": " + text +
        " is a sweep: -m (--multirun) runs its values one after the other; a list is "
        "written as [a,b], and a text with a comma or brackets in quotes that the shell leaves "
        "there: \"a.b='x,y'\"";
  }
  if (!problems.empty()) throw ConfigError(problems);
}

void add_notes_without_sweep(const config::Composed& composed, std::vector<std::string>& notes) {
  for (std::string& line : idle_folders(composed, false)) notes.push_back(std::move(line));
  const std::string sweep = about_sweep_in_file(composed);
  if (!sweep.empty()) notes.push_back(sweep + "; here it has no effect");
}

bool trains(const Options& options) {
  return !options.print_config && !options.dry_run && !options.compare_dcp &&
         !options.selftest_layout && options.calibrate.empty() && options.plan_file.empty();
}

/// hydra.run.dir; "" without one, and where it cannot be read, which is noted.
std::string run_folder(const config::Composed& composed, const config::RunFacts& facts,
                       config::KeyProblems& problems) {
  try {
    return hydra_folder(composed, "run.dir", "", facts);
  } catch (const ConfigError& error) {
    problems.add(error);
    return "";
  }
}

int run(const Options& options, Clock::time_point start) {
  // A file that may not grow any more (ulimit -f) is a failed write with a message, not a death.
  std::signal(SIGXFSZ, SIG_IGN);
  if (options.explain_keys) {
    print(train::explain_keys());
    return 0;
  }
  const std::time_t now = std::time(nullptr);
  if (options.multirun) return run_sweep(options, now);
  const std::vector<int64_t>& job = options.sweep_job;
  const SweepMember member = job.empty() ? SweepMember{{}, now} : SweepMember{job[0], job[1]};
  refuse_sweeps(options.overrides);
  if (trains(options)) catch_stop_signals();
  Found found;
  const config::Composed composed = config::compose(compose_request(options), found.overrides);
  found.notes = composed.notes;
  found.history = composed.history;
  const bool checks = !options.print_config && options.plan_file.empty();
  if (!checks) config::throw_problems(found.overrides.texts);
  if (options.print_config && !options.resolve) {
    print(config::to_yaml(for_dump(composed.tree)));
    return 0;
  }
  config::RunFacts facts = run_facts(options, composed, member);
  const std::string folder = run_folder(composed, facts, found.interpolations);
  set_output_folder(facts, folder);
  config::Node tree = resolved(composed.tree, facts, found.interpolations);
  if (!checks) config::throw_problems(found.interpolations.texts);
  if (options.print_config) {
    print(config::to_yaml(tree));
    return 0;
  }
  if (options.json) log::keep_stdout_clean();
  if (!options.plan_file.empty()) {
    const auto format = options.json ? train::PlanFormat::kJson : train::PlanFormat::kText;
    print(train::plan_report(tree, options.plan_file, format));
    return 0;
  }
  if (job.empty()) add_notes_without_sweep(composed, found.notes);
  return perform(options, tree, checked(options, tree, folder, found), folder, start);
}

}  // namespace
}  // namespace verlcpp::app

int main(int argc, char** argv) {
  using namespace verlcpp;
  const auto start = std::chrono::steady_clock::now();
  // Multicast over NVLink is not everywhere allowed to be set up; NCCL then fails instead of doing
  // without. Before any thread, and never over the user's own setting.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  try {
    const app::ParsedCommandLine parsed = app::parse_command_line(argc, argv);
    if (!parsed.text) return app::run(parsed.options, start);
    app::print(*parsed.text);
    return 0;
  } catch (...) {
    return app::end_main(app::report_failure(std::current_exception()));
  }
}
