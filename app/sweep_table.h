#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/job_process.h"
#include "app/sweep_plan.h"

namespace verlcpp::app {

struct JobResult {
  std::optional<JobEnd> end;  // nothing: not started
  std::int64_t steps = 0;     // of the last row
  /// Of each metric the last value, in the file's order. A validation may be some steps older.
  std::vector<std::pair<std::string, double>> metrics;
};

/// Reads steps and metrics of a job's file; none when it cannot be read.
void read_metrics(const std::string& file, JobResult& result);

/// A line a job: number, swept values, how it ended, steps, the columns of kTableMetrics that any
/// job has; then the errors.
std::string to_table(const SweepPlan& plan, const std::vector<JobResult>& results);

/// A JSON object a line and job: job, swept, overrides, folder, exit_code (null: not started),
/// error, seconds, step, metrics.
std::string to_json_lines(const SweepPlan& plan, const std::vector<JobResult>& results);

}  // namespace verlcpp::app
