#pragma once

#include <string>
#include <vector>

#include "config/override.h"
#include "config/repository.h"

namespace verlcpp::config {

/// One file's own keys and the dotted place ("" is the root) they are merged at.
struct Layer {
  std::string package;
  Node body;
  bool is_primary = false;
};

/// Expands the defaults list of `primary` and of every file it names, depth first: the layers in
/// merging order, later ones on top. `group_overrides` are the overrides whose key is a group.
/// Groups of Hydra's own (hydra/job_logging) are left out, each with a line in `unread`.
/// Throws ConfigError for a missing file, an unused override, a repeated group, and a cycle.
std::vector<Layer> expand_defaults(const Repository& repository, const std::string& primary,
                                   const std::vector<Override>& group_overrides,
                                   std::vector<std::string>& unread);

}  // namespace verlcpp::config
