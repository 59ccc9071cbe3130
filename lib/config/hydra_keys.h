#pragma once

#include <string>

#include "config/compose.h"
#include "config/repository.h"

namespace verlcpp::config {

/// config_name without ".yaml".
std::string primary_name(const ComposeRequest& request);

/// True for `hydra` and what is below it, config groups included.
bool is_hydra_key(const std::string& key);

/// Adds the folders of hydra.searchpath. ConfigError for anything but a list of file:// folders.
void add_search_path(Repository& repository, const Node& hydra);

}  // namespace verlcpp::config
