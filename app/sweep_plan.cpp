#include "app/sweep_plan.h"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "app/configuration.h"
#include "app/device.h"
#include "base/error.h"
#include "config/problems.h"
#include "train/checked_config.h"
#include "train/outputs.h"
#include "train/validate.h"

namespace verlcpp::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSweepDir = "multirun/${now:%Y-%m-%d}/${now:%H-%M-%S}";
constexpr const char* kSweepSubdir = "${hydra.job.num}";
constexpr size_t kMostProblems = 20;  // in one message
constexpr size_t kMostNumbers = 10;   // of jobs with the same problem

/// Messages with the jobs that they are about, in the order they came up.
class Problems {
 public:
  explicit Problems(const std::vector<PlannedJob>& jobs) : jobs_(jobs) {}

  void add(size_t job, const std::string& message) {
    const auto known = std::find_if(found_.begin(), found_.end(),
                                    [&](const auto& each) { return each.first == message; });
    if (known == found_.end()) {
      found_.emplace_back(message, std::vector<size_t>{job});
    } else {
      known->second.push_back(job);
    }
  }

  void finish() const {
    if (found_.empty()) return;
    std::string text = "the sweep has " + std::to_string(found_.size()) +
                       (found_.size() == 1 ? " problem" : " problems") +
                       ", and no job was started:";
    for (size_t i = 0; i < found_.size() && i < kMostProblems; ++i) {
      text += "\n  " + who(found_[i].second) + ": " + indented(found_[i].first);
    }
    if (found_.size() > kMostProblems) {
      text += "\n  and " + std::to_string(found_.size() - kMostProblems) + " more";
    }
    throw ConfigError(text);
  }

 private:
  std::string who(const std::vector<size_t>& numbers) const {
    if (numbers.size() == jobs_.size() && numbers.size() > 1) return "every job";
    std::string text = job_name(numbers[0], jobs_[numbers[0]].job);
    if (numbers.size() > 1) text += numbers.size() == 2 ? " and job " : " and jobs ";
    for (size_t i = 1; i < numbers.size(); ++i) {
      text += (i == 1 ? "" : ", ") + std::to_string(numbers[i]);
      if (i == kMostNumbers && i + 1 < numbers.size()) return text + ", ...";
    }
    return text;
  }
  static std::string indented(std::string text) {
    for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3) {
      text.insert(at + 1, "  ");
    }
    return text;
  }

  const std::vector<PlannedJob>& jobs_;
  std::vector<std::pair<std::string, std::vector<size_t>>> found_;
};

/// Which job writes what, by the real place.
using Writers = std::map<std::string, size_t>;

void check_apart(size_t number, const std::vector<train::NamedFile>& outputs, Writers& writers,
                 Problems& problems) {
  for (const train::NamedFile& output : outputs) {
    const auto [known, is_new] = writers.emplace(output.path, number);
    if (is_new || known->second == number) continue;
    problems.add(number, output.about + ": job " + std::to_string(known->second) +
                             " writes there too; a relative path lies in each job's own folder, "
                             "and an absolute one must depend on what is swept");
  }
}

/// The job's configuration, or ConfigError with all that is wrong with it; nothing when overrides
/// were left out of it and there is no more to be said.
std::optional<train::TrainConfig> checked(const train::CheckOptions& options, config::Node& tree) {
  choose_device(tree, true);
  if (options.overrides.keys.empty()) return train::checked_config(tree, options).config;
  train::report_problems(tree, options);
  return std::nullopt;
}

/// A name that no file system takes is known before the first job runs.
void check_name(const std::string& folder) {
  for (const fs::path& name : fs::path(folder)) {
    if (name.string().size() <= NAME_MAX) continue;
    throw ConfigError("hydra.sweep.subdir: the name of the job's folder has " +
                      std::to_string(name.string().size()) + " bytes; at most " +
                      std::to_string(NAME_MAX) + " are possible");
  }
}

/// As in Hydra a job may have a folder elsewhere, by an absolute path, or the sweep's own; but not
/// one that `..` leads to, or that holds the sweep's.
void check_inside(const config::Composed& composed, const std::string& sweep,
                  const std::string& subdir, const std::string& folder) {
  std::error_code ignored;
  const auto whole = [&](const std::string& path) {
    return fs::absolute(path, ignored).lexically_normal();
  };
  const auto leads_up = [](const fs::path& path) { return !path.empty() && *path.begin() == ".."; };
  const fs::path job = whole(folder), all = whole(sweep);
  const fs::path down = all.lexically_relative(job);
  const bool is_outside = fs::path(subdir).is_relative() && leads_up(job.lexically_relative(all));
  const bool holds_all = !leads_up(down) && down != ".";
  if (!is_outside && !holds_all) return;
  const config::Node* set = composed.hydra.find("sweep.subdir");
  throw ConfigError("hydra.sweep.subdir = " + subdir + " (" +
                    (set == nullptr ? "default" : set->origin().text) + "): leads to " + folder +
                    ", " + (holds_all ? "which holds" : "outside of") + " hydra.sweep.dir, " +
                    sweep + "; valid: a folder below it, as by default ${hydra.job.num}");
}

class Planner {
 public:
  Planner(const Options& options, std::time_t now) : options_(options) {
    const config::ComposeRequest request = compose_request(options);
    const auto group = [&](const std::string& name) {
      return config::group_options(request, name);
    };
    config::Sweep sweep = config::sweep_of(options.overrides, group);
    for (config::SweepJob& job : sweep.jobs) plan_.jobs.push_back({std::move(job), "", ""});
    plan_.notes = std::move(sweep.notes);
    plan_.began = now;
  }

  SweepPlan plan() {
    Problems problems(plan_.jobs);
    for (size_t i = 0; i < plan_.jobs.size(); ++i) {
      try {
        plan_job(i, problems);
      } catch (const config::SeveralProblems& several) {
        for (const std::string& text : several.texts()) problems.add(i, text);
      } catch (const Error& error) {
        problems.add(i, error.what());
      }
    }
    problems.finish();
    return std::move(plan_);
  }

 private:
  void plan_job(size_t number, Problems& problems) {
    PlannedJob& planned = plan_.jobs[number];
    Options options = options_;
    options.overrides = planned.job.overrides;
    train::CheckOptions check{.folder = "", .dry_run = options.dry_run};
    const config::Composed composed = config::compose(compose_request(options), check.overrides);
    for (const std::string& text : check.overrides.texts) problems.add(number, text);
    check.overrides.texts.clear();  // said one by one: they are alike for all jobs
    check.history = composed.history;
    const std::string in_file = about_sweep_in_file(composed);
    if (!in_file.empty()) throw ConfigError(in_file);
    if (number == 0) {
      for (std::string& line : idle_folders(composed, true)) plan_.notes.push_back(std::move(line));
    }
    config::RunFacts facts =
        run_facts(options, composed, {static_cast<int64_t>(number), plan_.began});
    bool has_folder = false;
    try {
      place(number, composed, facts);
      has_folder = true;
    } catch (const ConfigError& error) {
      if (options.print_config) throw;
      check.interpolations.add(error);
      set_output_folder(facts, "");
    }
    if (!options.print_config) {
      check.folder = planned.folder;
      config::Node tree = resolved(composed.tree, facts, check.interpolations);
      const std::optional<train::TrainConfig> config = checked(check, tree);
      if (!config || !has_folder) return;
      planned.metrics_file = train::metrics_file(*config);
      check_apart(number, train::outputs(*config, tree), writers_, problems);
    } else if (options.resolve) {
      resolved(composed.tree, facts);
    }
  }

  /// Finds the job's folder, which its configuration may name. ConfigError when there is none.
  void place(size_t number, const config::Composed& composed, config::RunFacts& facts) {
    PlannedJob& planned = plan_.jobs[number];
    const std::string folder = hydra_folder(composed, "sweep.dir", kSweepDir, facts);
    if (plan_.folder.empty()) {
      plan_.folder = folder;
      plan_.named = composed.hydra.find("sweep.dir") != nullptr;
    }
    if (folder != plan_.folder) {
      throw ConfigError("hydra.sweep.dir is " + folder + ", and " + plan_.folder +
                        " for a job before it; it must be one for all: hydra.sweep.subdir tells "
                        "jobs apart");
    }
    const std::string below = hydra_folder(composed, "sweep.subdir", kSweepSubdir, facts);
    planned.folder = (fs::path(folder) / below).lexically_normal().string();
    check_inside(composed, folder, below, planned.folder);
    check_name(planned.folder);
    set_output_folder(facts, planned.folder);
    const auto [first, is_new] = folders_.emplace(real(planned.folder), number);
    if (is_new) return;
    throw ConfigError("would have the folder of job " + std::to_string(first->second) + ", " +
                      planned.folder +
                      "; hydra.sweep.subdir must tell jobs apart, as its default "
                      "${hydra.job.num} does");
  }

  static std::string real(const std::string& folder) {
    std::error_code failed;
    const fs::path place = fs::weakly_canonical(fs::absolute(folder, failed), failed);
    return failed ? folder : place.string();
  }

  const Options& options_;
  SweepPlan plan_;
  Writers writers_, folders_;
};

}  // namespace

std::string job_name(size_t number, const config::SweepJob& job) {
  std::string text = "job " + std::to_string(number);
  std::string swept;
  for (const auto& [key, value] : job.swept) {
    swept += (swept.empty() ? "" : " ") + key + "=" + value;
  }
  return swept.empty() ? text : text + " (" + swept + ")";
}

SweepPlan plan_sweep(const Options& options, std::time_t now) {
  return Planner(options, now).plan();
}

}  // namespace verlcpp::app
