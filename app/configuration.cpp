#include "app/configuration.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <regex>

#include "app/result_file.h"
#include "base/error.h"
#include "config/hydra_keys.h"
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

/// `${now:%H}` as that time, `${hydra:x}` as `${hydra.x}`.
std::string with_time(std::string text, std::time_t now) {
  static const std::regex kNow("\\$\\{now:([^}]*)\\}"), kHydra("\\$\\{hydra:");
  std::tm local{};
  ::localtime_r(&now, &local);
  for (std::smatch match; std::regex_search(text, match, kNow);) {
    std::array<char, 256> time{};
    const size_t length = std::strftime(time.data(), time.size(), match.str(1).c_str(), &local);
    const std::string shown(time.data(), length);
    text = match.prefix().str() + shown + match.suffix().str();
  }
  return std::regex_replace(text, kHydra, "$${hydra.");
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

config::Node resolved(const config::Node& composed) {
  config::Node tree = config::resolve(composed);
  train::apply_moved_keys(tree);
  train::apply_token_budget(tree);
  return tree;
}

std::string override_dirname(const std::vector<std::string>& overrides) {
  std::vector<std::string> names = without_hydra(overrides);
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

std::string hydra_folder(const config::Composed& composed, const std::string& key,
                         const std::string& otherwise, const JobNames& names) {
  const config::Node* set = composed.hydra.find(key);
  config::Node name =
      set != nullptr ? *set : config::Node(config::string_or_interpolation(otherwise));
  if (const auto* text = name.get_if<config::Interpolation>()) {
    name = config::Node(config::string_or_interpolation(with_time(text->text, names.now)),
                        name.origin());
  }
  if (name.get_if<config::Interpolation>() != nullptr) {
    config::Node tree = composed.tree;
    if (names.number) {
      tree.set("hydra.job.num", config::Node(static_cast<int64_t>(*names.number)));
    }
    tree.set("hydra.job.override_dirname", config::Node(names.override_dirname));
    tree.set("hydra." + key, name);
    name = *config::resolve(tree).find("hydra." + key);
  }
  const auto* text = name.get_if<std::string>();
  return text != nullptr ? *text : config::to_inline(name);
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
