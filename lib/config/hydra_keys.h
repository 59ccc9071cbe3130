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
/// The block of the primary file with the overrides on top, interpolations as written. Overrides of
/// other keys are not looked at: they may be sweeps. ConfigError for a sweep over a key of Hydra,
/// and for folders that are no texts.
HydraKeys hydra_keys(const ComposeRequest& request);

/// config_name without ".yaml".
std::string primary_name(const ComposeRequest& request);

/// The problem of an override, `number` from 1, that would sweep over a key under hydra.
std::string about_hydra_sweep(const std::string& text, int number);

/// True for `hydra` and what is below it, config groups included.
bool is_hydra_key(const std::string& key);

/// Adds the folders of hydra.searchpath, whose interpolations (oc.env) are followed. Returns a line
/// for each that is not there. ConfigError for anything but a list of file:// folders.
std::vector<std::string> add_search_path(Repository& repository, const Node& hydra);

}  // namespace verlcpp::config
