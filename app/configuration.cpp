#include "app/configuration.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "app/result_file.h"
#include "base/error.h"
#include "config/hydra_keys.h"
#include "config/interpolation.h"
#include "config/override.h"
#include "config/scalar.h"
#include "train/key_kinds.h"
#include "train/prompt_scan.h"
#include "train/train_config.h"

namespace verlcpp::app {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> without_hydra(const std::vector<std::string>& overrides) {
  std::vector<std::string> kept;
  for (const std::string& text : overrides) {
    if (!config::is_hydra_key(config::parse_override(text, 1).key)) kept.push_back(text);
  }
  return kept;
}

/// The tree as a file in which every value counts as set: files of validation that are only verl's
/// default, and not used, are left out.
config::Node record(const train::TrainConfig& config, const config::Node& tree) {
  config::Node kept = tree;
  for (const train::PromptFiles& prompts : train::prompt_files(config, tree)) {
    if (prompts.key == "data.val_files") return kept;
  }
  kept.set("data.val_files", config::Node());
  return kept;
}

}  // namespace

config::ComposeRequest compose_request(const Options& options) {
  return {.search_path = search_path(options),
          .config_name = options.config_name,
          .overrides = options.overrides,
          .old_keys = train::old_keys(),
          .is_read = train::is_read};
}

config::Node for_dump(const config::Node& composed) {
  config::Node tree = composed;
  train::apply_moved_keys(tree);
  try {
    train::apply_token_budget(tree);
  } catch (const ConfigError&) {
    // An interpolation that leads nowhere is printed, to be looked at; a run of the dump names it.
    return composed;
  }
  return tree;
}

config::Node resolved(const config::Node& composed, const config::RunFacts& facts) {
  config::KeyProblems problems;
  config::Node tree = resolved(composed, facts, problems);
  config::throw_problems(problems.texts);
  return tree;
}

config::Node resolved(const config::Node& composed, const config::RunFacts& facts,
                      config::KeyProblems& problems) {
  config::Node tree = config::resolve(composed, facts, problems);
  train::apply_moved_keys(tree);
  train::apply_token_budget(tree);
  return tree;
}

config::RunFacts run_facts(const Options& options, const config::Composed& composed,
                           const SweepMember& member) {
  std::vector<std::string> names = without_hydra(options.overrides);
  std::sort(names.begin(), names.end());
  std::string dirname;
  for (const std::string& name : names) dirname += (dirname.empty() ? "" : ",") + name;
  std::error_code ignored;
  config::RunFacts facts{member.now, composed.hydra, composed.history};
  const auto set = [&](const char* key, config::Scalar value) {
    facts.hydra.set(key, config::Node(std::move(value)));
  };
  set("job.name", "verlcpp-train");
  set("job.config_name", options.config_name);
  set("job.override_dirname", dirname);
  if (member.number) set("job.num", *member.number);
  set("runtime.cwd", fs::current_path(ignored).string());
  return facts;
}

void set_output_folder(config::RunFacts& facts, const std::string& folder) {
  std::error_code ignored;
  const fs::path place = fs::absolute(folder, ignored).lexically_normal();
  const std::string cwd = fs::current_path(ignored).string();
  facts.hydra.set("runtime.output_dir", config::Node(folder.empty() ? cwd : place.string()));
}

std::string hydra_folder(const config::Composed& composed, const std::string& key,
                         const std::string& otherwise, const config::RunFacts& facts) {
  const config::Node* set = composed.hydra.find(key);
  config::Node name =
      set != nullptr ? *set : config::Node(config::string_or_interpolation(otherwise));
  if (name.get_if<config::Interpolation>() != nullptr) {
    config::Node tree = composed.tree;
    tree.set("hydra", facts.hydra);
    name = config::resolve_in(tree, name, "hydra." + key, facts);
  }
  const auto* text = name.get_if<std::string>();
  return text != nullptr ? *text : config::to_inline(name);
}

std::vector<std::string> idle_folders(const config::Composed& composed, bool multirun) {
  const config::Node& hydra = composed.hydra;
  const bool has_run = hydra.find("run") != nullptr, has_sweep = hydra.find("sweep") != nullptr;
  std::vector<std::string> lines;
  const auto look_at = [&](const std::string& key, const std::string& rest) {
    const config::Node* node = hydra.find(key);
    if (node == nullptr) return;
    const bool by_file = node->origin().source != config::Origin::Source::kOverride;
    if (by_file && has_run && has_sweep) return;
    lines.push_back("hydra." + key + " (" + node->origin().text + ") has no effect " + rest);
  };
  if (multirun) {
    look_at("run.dir", "with -m; a job's folder is hydra.sweep.dir/hydra.sweep.subdir");
  } else {
    look_at("sweep.dir", "without -m; a run's folder is hydra.run.dir");
    look_at("sweep.subdir", "without -m; a run's folder is hydra.run.dir");
  }
  return lines;
}

std::string about_sweep_in_file(const config::Composed& composed) {
  const config::Node* params = composed.hydra.find("sweeper.params");
  if (params == nullptr || params->is_null()) return "";
  if (params->is_map() && params->items().empty()) return "";
  const bool is_named = params->is_map() && params->items()[0].second.is_scalar();
  const config::Node* value = is_named ? &params->items()[0].second : nullptr;
  const auto* text = value == nullptr ? nullptr : value->get_if<std::string>();
  return "hydra.sweeper.params = " + config::to_inline(*params) + " (" + params->origin().text +
         "): a sweep is written on the command line, behind -m, as in " +
         (text == nullptr ? "actor_rollout_ref.rollout.n=2,4"
                          : params->items()[0].first + "=" + *text);
}

void write_hydra_files(const std::string& folder, const train::TrainConfig& config,
                       const config::Node& tree, const std::vector<std::string>& overrides) {
  const fs::path place = fs::path(folder) / ".hydra";
  std::error_code failed;
  fs::create_directories(place, failed);
  if (failed) throw DeviceError(place.string() + ": cannot be made: " + failed.message());
  config::List lines;
  for (const std::string& text : without_hydra(overrides)) lines.emplace_back(text);
  const auto write = [&](const std::string& name, std::string text) {
    text.pop_back();  // write_result ends the last line
    write_result((place / name).string(), text);
  };
  write("config.yaml", config::to_yaml(record(config, tree)));
  write("overrides.yaml", config::to_yaml(config::Node::list(std::move(lines))));
}

}  // namespace verlcpp::app
