#pragma once

#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/key_history.h"
#include "config/old_keys.h"
#include "config/problems.h"
#include "config/tree.h"

namespace verlcpp::config {

/// One place YAML files come from: a folder on disk or the tree embedded in the executable.
struct SearchPath {
  std::string label;  // how origins begin: "conf" -> "conf/actor/actor.yaml:3"
  Origin::Source source = Origin::Source::kFile;
  bool absent = false;  // a folder that is not there
  /// Text of "group/name.yaml", or nothing.
  std::function<std::optional<std::string>(const std::string& relative_path)> read;
  /// Names of the options of a group ("engine" -> {"megatron"}), sorted; empty without such a
  /// group.
  std::function<std::vector<std::string>(const std::string& group)> list;
};

/// A folder on disk; it need not exist.
SearchPath folder(const std::string& path);
/// Files held in memory, by relative path.
SearchPath in_memory(std::string label, std::map<std::string, std::string> files,
                     Origin::Source source = Origin::Source::kFile);

struct ComposeRequest {
  std::vector<SearchPath> search_path;  // first match wins
  std::string config_name;              // with or without ".yaml"
  std::vector<std::string> overrides;   // Hydra grammar, in order; the last one wins
  OldKeys old_keys = {};                // for messages about keys that are not there
  /// Keys that something reads, which messages offer first in the place of one that is not there.
  std::function<bool(const std::string& key)> is_read = [](const std::string&) { return true; };
};

struct Composed {
  Node tree;  // interpolations still unresolved
  Node
      hydra;  // searchpath, run.dir, sweep.dir, sweep.subdir, sweeper.params as far as they are set
  std::vector<std::string> notes = {};  // for the user: what has no effect, and why
  KeyHistory history = {};
};

/// Hydra's composition (version 1.3): defaults lists (nested, `group@package: name`, `../group`,
/// `override group: name`, `group: [a, b]`, `_self_`, interpolated choices, `# @package _global_`),
/// group choices and value overrides. A list without `_self_` has it last. As Hydra does,
/// `+key=value` also sets an existing null and merges a list or a map, and an override below an
/// interpolated group
/// (`+a.b.c=1` where a.b is `${x}`) replaces the interpolation. `hydra.searchpath` (of the
/// primary file or the command line) names file:// folders that are searched last, and
/// pkg://verl.trainer.config, the embedded tree; the folders under `hydra` are handed on, its other
/// keys have no effect. Throws ConfigError, with every syntax error at once; one names the
/// override's number and column, an unknown key the nearest one (and `+` in a map of free keys), a
/// missing option the available ones.
Composed compose(const ComposeRequest& request);
/// The same, but an override of a key that cannot be applied becomes a problem and is left out. The
/// problem's keys: its own, and those that it may have meant.
Composed compose(const ComposeRequest& request, KeyProblems& problems);

/// The options of a config group, sorted; none when there is no such group.
std::vector<std::string> group_options(const ComposeRequest& request, const std::string& group);

/// What the resolvers `now` and `hydra` lead to, and more about the tree.
struct RunFacts {
  std::time_t now = 0;
  Node hydra = Node::map({});  // by keys without the leading `hydra.`
  KeyHistory history = {};     // for messages about keys that are not there
};

/// Replaces every interpolation by its value: `${a.b}`, `${.x}` (nested, relative, whole sub-trees;
/// string pieces) and OmegaConf's and Hydra's resolvers oc.select, oc.env, oc.decode, oc.create,
/// oc.dict.keys, oc.dict.values, now and hydra. oc.select gives its default (or null) for a missing
/// key, also when a key on the way is missing, and null for a present null. A resolved value keeps
/// the origin of what it resolved to; a default or a joined string has the origin of the
/// interpolation. Throws one ConfigError that names every key with a missing target or a cycle.
Node resolve(const Node& tree, const RunFacts& run = {});
/// The same, but a key whose interpolation leads nowhere becomes null and a problem.
Node resolve(const Node& tree, const RunFacts& run, KeyProblems& problems);

}  // namespace verlcpp::config
