#pragma once

#include <string>
#include <vector>

#include "run_binary.h"

namespace verlcpp::test {

/// The quickstart, made small (a step takes some ten milliseconds), with checkpoints,
/// logs/run.jsonl and all it writes below `folder`, and trainer.resume_mode=auto.
std::vector<std::string> quickstart(const std::string& folder, int steps,
                                    const std::vector<std::string>& more = {});

/// The lines of `folder`/logs/run.jsonl without what depends on the clock and the machine: fields
/// with timing_ or perf/ in their names.
std::vector<std::string> metrics_lines(const std::string& folder);

/// The whole file; "" when there is none.
std::string file_text(const std::string& path);

/// Runs it; a failed check unless it ends with 0.
Outcome expect_success(const std::vector<std::string>& arguments);

/// Steps of the checkpoints in `folder`/checkpoints, ascending, and what lies beside them, the
/// tracker apart.
std::vector<int> saved_steps(const std::string& folder);
std::vector<std::string> strays(const std::string& folder);
/// What the tracker holds; 0 when there is none.
int tracked_step(const std::string& folder);

}  // namespace verlcpp::test
