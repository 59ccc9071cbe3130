#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/tree.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// Everything that can be known to be wrong before a weight is loaded: verl's start-up checks with
/// verl's messages, what verl only finds in mid-training, what this build does not run, and missing
/// files. `tree` is the resolved tree `config` was bound from (values with their origins). Throws
/// one ConfigError with a numbered line for each problem; returns the warnings.
std::vector<std::string> validate(const TrainConfig& config, const config::Node& tree);

/// What a dry run, which shows worlds that this build cannot run, is told.
struct DryRunFindings {
  std::vector<std::string> warnings;
  /// Only these keep the configuration from running: ranks on several machines, too many threads.
  std::vector<std::string> limits;
};
/// As validate(), which throws for the limits too. `assumed_response_length`: of
/// --assume-response-length, checked with the rest.
DryRunFindings validate_dry_run(const TrainConfig& config, const config::Node& tree,
                                std::optional<int64_t> assumed_response_length = {});

/// A file with the flag or the keys that name it.
struct NamedFile {
  std::string about, path;
};
/// Throws ConfigError, naming both, when a result of this run would be written over a file that it
/// reads (rows, recording, model, cost files, `more`) or writes besides.
void expect_apart(const NamedFile& output, const std::vector<NamedFile>& more,
                  const TrainConfig& config, const config::Node& tree);

/// Longest prompt + response a run can make.
int64_t longest_sequence(const TrainConfig& config);

}  // namespace verlcpp::train
