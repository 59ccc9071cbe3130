#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "app/cli.h"
#include "config/sweep.h"

namespace verlcpp::app {

struct PlannedJob {
  config::SweepJob job;
  std::string folder;        // hydra.sweep.dir/hydra.sweep.subdir
  std::string metrics_file;  // "" where the job keeps none
};

struct SweepPlan {
  std::string folder;  // hydra.sweep.dir
  bool named = false;  // by the user: it may be there already
  std::time_t began = 0;
  std::vector<PlannedJob> jobs;
  std::vector<std::string> notes;  // for the user
};

/// "job 3 (a=1 b=x)", with the swept overrides.
std::string job_name(size_t number, const config::SweepJob& job);

/// The jobs of the command line, each composed and checked as far as a run is before it reads a
/// row or touches a device; only composed for --cfg. Writes nothing. Throws one ConfigError with
/// all that is wrong, each problem with its jobs; two jobs that would write the same file or folder
/// are such a problem.
SweepPlan plan_sweep(const Options& options, std::time_t now);

}  // namespace verlcpp::app
