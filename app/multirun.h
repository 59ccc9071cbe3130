#pragma once

#include <ctime>

#include "app/cli.h"

namespace verlcpp::app {

/// --multirun: every combination of the swept overrides as a process of its own, one after the
/// other, each with its own folder; then the table of the jobs, also as multirun.jsonl in the
/// sweep's folder, which is there after each job. With --dry-run and --cfg that, of every job, and
/// nothing is written. SIGTERM and SIGINT stop the job as they stop a run, and no further one is
/// started. Returns 0 when all jobs did, else the first failure's exit code. ConfigError before
/// anything is started for all that plan_sweep() finds, and when another sweep has the folder.
int run_sweep(const Options& options, std::time_t now);

}  // namespace verlcpp::app
