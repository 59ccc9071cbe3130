#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "app/cli.h"
#include "config/compose.h"
#include "train/train_config.h"

namespace verlcpp::app {

/// What the command line composes.
config::ComposeRequest compose_request(const Options& options);

/// The unresolved tree with the budgets that data.max_token_len_per_gpu feeds as literals, and
/// moved keys where they go, so that the dump, where every value counts as set, is the same run.
config::Node for_dump(const config::Node& composed);

/// The tree that a run binds: interpolations, moved keys and budgets followed.
config::Node resolved(const config::Node& composed);

/// What the name of a folder under `hydra` may hold besides keys of the configuration:
/// `${hydra.job.num}` and `${hydra.job.override_dirname}`, and `${now:%Y-%m-%d}` of `now`.
struct JobNames {
  std::optional<size_t> number;  // of a sweep's job
  std::string override_dirname;
  std::time_t now = 0;
};
/// The overrides but those under `hydra`, sorted, with commas between.
std::string override_dirname(const std::vector<std::string>& overrides);
/// The folder that hydra.`key` names (run.dir, sweep.dir, sweep.subdir); else `otherwise`, read the
/// same way. ConfigError names the key and its origin.
std::string hydra_folder(const config::Composed& composed, const std::string& key,
                         const std::string& otherwise, const JobNames& names);

/// As Hydra does: `folder`/.hydra/config.yaml, though resolved, and overrides.yaml. A run of the
/// former is the same run. DeviceError when they cannot be written.
void write_hydra_files(const std::string& folder, const train::TrainConfig& config,
                       const config::Node& tree, const std::vector<std::string>& overrides);

}  // namespace verlcpp::app
