#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace verlcpp::config {

/// True for an override that several runs would have to share out: `a=1,2`, `a=range(3)`.
bool is_sweep(const std::string& override_text);

/// One job of a sweep.
struct SweepJob {
  std::vector<std::string> overrides;
  /// Of the swept ones, in order: the key as typed (with + or ++) and this job's value.
  std::vector<std::pair<std::string, std::string>> swept;
};

struct Sweep {
  std::vector<SweepJob> jobs;
  std::vector<std::string> notes;  // for the user: overrides that a later one of the key replaces
};

/// The jobs of a command line, in the order of Hydra's basic sweeper: every combination, the last
/// swept override varying fastest; one job without any. An override whose key (with +, ++ or ~)
/// comes again takes the later value at the earlier place. `options` names the options of a config
/// group, for glob(). Throws ConfigError with number, column and text of an override that is wrong,
/// and for more jobs than kMaxSweepJobs.
Sweep sweep_of(const std::vector<std::string>& overrides,
               const std::function<std::vector<std::string>(const std::string& group)>& options);

}  // namespace verlcpp::config
