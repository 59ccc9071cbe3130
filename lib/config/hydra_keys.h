#pragma once

#include <string>
#include <vector>

#include "config/compose.h"
#include "config/repository.h"

namespace verlcpp::config {

/// What is said under `hydra`.
struct HydraKeys {
  Node read = Node::map({});  // those that are read, without the leading `hydra.`
  std::vector<std::string> unread =
      {};  // the others with their origins: "hydra.verbose (run.yaml:3)"
};
/// What overrides say under `hydra`, interpolations as written. Other keys are not looked at: they
/// may be sweeps. Adds a problem for a key of Hydra that is deleted, for folders that are no texts
/// and for maps that are none; ConfigError for a sweep over such a key.
HydraKeys hydra_keys(const std::vector<std::string>& overrides, std::vector<std::string>& problems);
/// The block `hydra` of the composed files below them. ConfigError as above.
HydraKeys with_block(const Node& block, HydraKeys overridden);

/// config_name without ".yaml".
std::string primary_name(const ComposeRequest& request);

/// The problem of an override, `number` from 1, that would sweep over a key under hydra.
std::string about_hydra_sweep(const std::string& text, int number);

/// True for `hydra` and what is below it, config groups included.
bool is_hydra_key(const std::string& key);

/// Adds the folders of hydra.searchpath, the command line's or else the primary file's, whose
/// interpolations (oc.env) are followed; pkg://verl.trainer.config is the embedded tree. Returns a
/// line for each that is skipped: a folder that is not there, another package. ConfigError for
/// anything but a list of file:// and pkg:// folders.
std::vector<std::string> add_search_path(Repository& repository, const ComposeRequest& request,
                                         const HydraKeys& overridden);

}  // namespace verlcpp::config
