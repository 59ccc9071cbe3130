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
config::Node resolved(const config::Node& composed, const config::RunFacts& facts);
/// The same, where keys that lead nowhere are problems, and null.
config::Node resolved(const config::Node& composed, const config::RunFacts& facts,
                      config::KeyProblems& problems);

/// What `${now:...}` and `${hydra:...}` of a run name: what is set under `hydra`, job.name,
/// job.config_name, job.override_dirname (the overrides but those under `hydra`, sorted, with
/// commas between), job.num of a sweep's job, and runtime.cwd.
config::RunFacts run_facts(const Options& options, const config::Composed& composed,
                           const SweepMember& member);
/// runtime.output_dir as well.
void set_output_folder(config::RunFacts& facts, const std::string& folder);

/// The folder that hydra.`key` names (run.dir, sweep.dir, sweep.subdir); else `otherwise`, read the
/// same way, in which `${hydra.job.num}` is `${hydra:job.num}`. ConfigError names the key and its
/// origin.
std::string hydra_folder(const config::Composed& composed, const std::string& key,
                         const std::string& otherwise, const config::RunFacts& facts);

/// A line for each folder under `hydra` that only runs of the other kind have, with or without -m.
/// A file may set those of both.
std::vector<std::string> idle_folders(const config::Composed& composed, bool multirun);
/// The sweep that files write, hydra.sweeper.params, as a line that says where it has to stand; ""
/// when there is none.
std::string about_sweep_in_file(const config::Composed& composed);

/// As Hydra does: `folder`/.hydra/config.yaml, though resolved, and overrides.yaml. A run of the
/// former is the same run. DeviceError when they cannot be written.
void write_hydra_files(const std::string& folder, const train::TrainConfig& config,
                       const config::Node& tree, const std::vector<std::string>& overrides);

}  // namespace verlcpp::app
