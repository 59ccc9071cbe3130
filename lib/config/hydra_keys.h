#pragma once

#include <string>
#include <vector>

#include "config/compose.h"
#include "config/repository.h"

namespace verlcpp::config {

/// config_name without ".yaml".
std::string primary_name(const ComposeRequest& request);

/// True for `hydra` and what is below it, config groups included.
bool is_hydra_key(const std::string& key);

/// Adds the folders of hydra.searchpath, whose interpolations (oc.env) are followed. Returns a line
/// for each that is not there. ConfigError for anything but a list of file:// folders.
std::vector<std::string> add_search_path(Repository& repository, const Node& hydra);

}  // namespace verlcpp::config
