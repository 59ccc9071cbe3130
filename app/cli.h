#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "config/compose.h"

namespace verlcpp::app {

/// Which job of a sweep a process is, if it is one, and when the run or the sweep began.
struct SweepMember {
  std::optional<int64_t> number;
  std::time_t now = 0;
};

/// What the command line asks for.
struct Options {
  std::string config_dir;   // searched before the primary tree
  std::string config_path;  // instead of the embedded tree
  std::string config_name = "ppo_trainer";
  bool print_config = false;  // --cfg job
  bool resolve = false;
  bool explain_keys = false;
  bool dry_run = false;
  std::optional<int64_t> assume_response_length;
  bool selftest_layout = false;
  std::string plan_file;
  bool compare_dcp = false;
  int64_t compare_steps = 5, compare_warmup = 1;
  std::string compare_json;  // --compare-json
  std::string calibrate;     // the file that takes the result
  std::vector<std::string> calibrate_checks;
  bool json = false;  // --format json
  bool multirun = false;
  bool stop_on_failure = false;    // of a sweep
  std::vector<int64_t> sweep_job;  // for the processes of a sweep: its number, when the sweep began
  std::vector<std::string> overrides;
};

/// Options, or the text that --help or --version prints. ConfigError for a command line that does
/// not parse; an unknown flag comes with the nearest one.
struct ParsedCommandLine {
  Options options;
  std::optional<std::string> text;
};
ParsedCommandLine parse_command_line(int argc, const char* const* argv);

/// --config-dir, then --config-path, then the embedded tree. verl's --config-path=config without
/// such a folder means the embedded tree. ConfigError for any other folder that is not there.
std::vector<config::SearchPath> search_path(const Options& options);

}  // namespace verlcpp::app
