#include "app/cli.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "config/embedded.h"
#include "config/tree.h"

namespace verlcpp::app {
namespace {

constexpr const char* kVersion =
    "verlcpp-train " VERLCPP_VERSION
    "\nscheduler: default_dynamic_cp, the DefaultDynamicCPScheduler of Megatron-Core #5154 "
    "(d2e7ec5b)";

constexpr const char* kFooter =
    "Everything else is an override in Hydra's grammar:\n"
    "  a.b=value  change    +a.b=value  add    ++a.b=value  add or change    ~a.b  delete\n"
    "hydra.run.dir=FOLDER puts the relative output paths of a run, and .hydra/config.yaml, into "
    "FOLDER.\n"
    "Exit codes: 0 done, 1 a bug, 2 configuration or data, 3 the machine, 75 stopped after a save.";

/// Refuses all but these words.
CLI::Validator one_of(const std::vector<std::string>& words) {
  return {[words](const std::string& value) {
            std::string valid;
            for (const std::string& word : words) {
              if (word == value) return std::string();
              valid += (valid.empty() ? "" : " or ") + word;
            }
            return value + " is not known; must be " + valid;
          },
          ""};
}

CLI::Option* define_comparison(CLI::App& cli, Options& options) {
  auto* compare = cli.add_flag("--compare-dcp", options.compare_dcp,
                               "compare dynamic with static context parallelism on the same "
                               "samples and weights, print times and differences, and stop");
  const CLI::Range count(int64_t{1}, int64_t{1000000});
  cli.add_option("--compare-steps", options.compare_steps, "timed steps of each arm")
      ->check(count)
      ->needs(compare)
      ->capture_default_str();
  cli.add_option("--compare-warmup", options.compare_warmup, "steps of each arm before those")
      ->check(CLI::Range(int64_t{0}, int64_t{1000000}))
      ->needs(compare)
      ->capture_default_str();
  cli.add_option("--compare-json", options.compare_json, "file that takes the result as JSON")
      ->needs(compare);
  return compare;
}

CLI::Option* define_calibration(CLI::App& cli, Options& options) {
  auto* calibrate =
      cli.add_option("--calibrate", options.calibrate,
                     "time micro-batches of this model and layout, fit a cost model to them, "
                     "write it to this file (for dynamic_cp_cost_model), and stop");
  cli.add_option("--calibrate-check", options.calibrate_checks,
                 "JSON array of lengths whose micro-batches the fitted model is held against; may "
                 "be given several times")
      ->needs(calibrate)
      ->expected(1)
      ->allow_extra_args(false)  // the overrides are next
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return calibrate;
}

CLI::Option* define_multirun(CLI::App& cli, Options& options) {
  auto* multirun = cli.add_flag(
      "-m,--multirun", options.multirun,
      "run every combination of a=1,2 b=range(0,1,0.5) c=choice(x,y) +group=glob(*), one after the "
      "other, the last varying fastest. Each job is a process with a folder of its own, "
      "hydra.sweep.dir/hydra.sweep.subdir, in which its relative output paths lie; what it reads "
      "is looked for where the sweep was started. A job that fails does not stop the others");
  cli.add_flag("--stop-on-failure", options.stop_on_failure,
               "with -m: no further job after one that failed")
      ->needs(multirun);
  cli.add_option("--sweep-job", options.sweep_job)->expected(2)->group("");  // hidden
  return multirun;
}

void define(CLI::App& cli, Options& options, std::string& cfg, std::string& format, bool& version) {
  cli.footer(kFooter);
  cli.add_option("--config-dir", options.config_dir, "folder searched before the primary tree");
  cli.add_option("--config-path", options.config_path, "folder instead of the embedded tree");
  cli.add_option("--config-name", options.config_name, "primary file, with or without .yaml")
      ->capture_default_str();
  auto* print = cli.add_option("--cfg", cfg, "print the composed configuration and stop (job)")
                    ->check(one_of({"job"}));
  cli.add_flag("--resolve", options.resolve, "with --cfg: interpolations replaced by their values")
      ->needs(print);
  auto* explain = cli.add_flag("--explain-keys", options.explain_keys,
                               "print every key with its default and whether it is honoured, "
                               "without effect or refused when changed, and why, and stop");
  auto* dry = cli.add_flag("--dry-run", options.dry_run,
                           "check everything, print layout, memory and schedule, and stop");
  cli.add_option("--assume-response-length", options.assume_response_length,
                 "with --dry-run: memory and schedule also for responses of so many tokens, beside "
                 "the worst case")
      ->needs(dry);
  auto* plan = cli.add_option("--plan", options.plan_file,
                              "print the schedule of the lengths in this JSON array and stop");
  auto* multirun = define_multirun(cli, options);
  auto* compare = define_comparison(cli, options);
  auto* calibrate = define_calibration(cli, options);
  auto* selftest = cli.add_flag("--selftest-layout", options.selftest_layout,
                                "run one update of this configuration and model under many layouts "
                                "on a few samples, print how far apart they are, and stop");
  cli.add_option("--format", format, "of --plan and --compare-dcp: text or json")
      ->check(one_of({"text", "json"}));
  plan->excludes(print)->excludes(dry)->excludes(multirun);
  dry->excludes(print);
  compare->excludes(print)->excludes(dry)->excludes(plan)->excludes(multirun);
  selftest->excludes(print)->excludes(dry)->excludes(plan)->excludes(multirun)->excludes(compare);
  for (auto* other : {print, dry, plan, multirun, compare, selftest}) calibrate->excludes(other);
  for (auto* other : {print, dry, plan, multirun, compare, selftest, calibrate}) {
    explain->excludes(other);
  }
  cli.add_flag("--version", version, "print the version and stop");
  cli.add_option("overrides", options.overrides, "overrides, in order; the last one wins");
  for (const char* other : {"--config-dir", "--config-path", "--config-name", "overrides"}) {
    explain->excludes(cli.get_option(other));  // the table is one for all configurations
  }
  cli.allow_extras();
}

/// Flags the parser did not know.
void refuse_unknown(const CLI::App& cli) {
  const std::vector<std::string> extras = cli.remaining();
  if (extras.empty()) return;
  std::vector<std::string> known;
  for (const CLI::Option* option : cli.get_options()) {
    if (!option->get_positional()) known.push_back(option->get_name());
  }
  const std::string flag = extras.front().substr(0, extras.front().find('='));
  if (flag.find('.') != std::string::npos) {
    throw ConfigError("unknown flag " + flag +
                      "; an override has no dashes: " + flag.substr(flag.find_first_not_of('-')) +
                      (flag == extras.front() ? "=VALUE" : extras.front().substr(flag.size())));
  }
  const std::string near = config::nearest_name(flag, known);
  throw ConfigError("unknown flag " + flag + (near.empty() ? "" : "; did you mean " + near + "?") +
                    " (see --help)");
}

void refuse_carriage_returns(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (!text.ends_with('\r')) continue;
    throw ConfigError("argument " + std::to_string(i) + ", " + text.substr(0, text.size() - 1) +
                      ", ends in a carriage return: a script with Windows line ends?");
  }
}

/// What an editor has put in the place of plain characters.
void refuse_foreign_characters(const std::vector<std::string>& overrides) {
  for (size_t i = 0; i < overrides.size(); ++i) {
    const std::string& text = overrides[i];
    const std::string name = "override " + std::to_string(i + 1);
    for (const char* dash : {"\u2013", "\u2014", "\u2212"}) {
      if (!text.starts_with(dash)) continue;
      throw ConfigError(name + " begins with '" + dash +
                        "', which is not the hyphen of a flag: " + text);
    }
  }
}

/// `--flag=` of an unset variable of the shell; the library would take the next word for the value.
/// An empty word of its own is no value either.
void refuse_empty_values(const CLI::App& cli, int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const std::string flag = text.substr(0, text.find('='));
    const CLI::Option* option = flag.starts_with("--") ? cli.get_option_no_throw(flag) : nullptr;
    if (option == nullptr || option->get_items_expected_max() == 0) continue;
    const bool next_is_empty = text == flag && i + 1 < argc && *argv[i + 1] == '\0';
    if (text != flag + "=" && !next_is_empty) continue;
    throw ConfigError(flag + " lacks its value (an unset variable of the shell?; see --help)");
  }
}

/// Hydra's own short flags.
std::vector<std::string> in_long_form(int argc, const char* const* argv) {
  constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"-cn", "--config-name"}, {"-cp", "--config-path"}, {"-cd", "--config-dir"}, {"-c", "--cfg"}};
  std::vector<std::string> words(argv, argv + argc);
  for (std::string& word : words) {
    for (const auto& [hydras, ours] : kShort) {
      const bool whole = word == hydras;
      if (whole || word.starts_with(std::string(hydras) + "=")) {
        word = std::string(ours) + word.substr(hydras.size());
        break;
      }
    }
  }
  return words;
}

/// How often a flag stands on the command line, as `--flag value` or `--flag=value`.
int times_given(const std::string& flag, int argc, const char* const* argv) {
  int times = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    times += static_cast<int>(argument == flag || argument.starts_with(flag + "="));
  }
  return times;
}

/// A user's folder. Its label never looks like the shipped tree's.
config::SearchPath user_folder(const std::string& path) {
  config::SearchPath folder = config::folder(path);
  if (path == "conf" || path.starts_with("conf/")) folder.label = "./" + path;
  return folder;
}

/// Files of `folder` that equal the embedded ones are left to the embedded tree, which is searched
/// next: running on the project's own conf/ is then no different from running without it.
config::SearchPath unless_shipped(config::SearchPath folder) {
  folder.read = [read = folder.read, shipped = config::embedded()](const std::string& file) {
    std::optional<std::string> text = read(file);
    if (text && text == shipped.read(file)) text.reset();
    return text;
  };
  return folder;
}

}  // namespace

ParsedCommandLine parse_command_line(int argc, const char* const* argv) {
  ParsedCommandLine parsed;
  std::string cfg, format = "text";
  bool version = false;
  CLI::App cli("Reinforcement learning post-training of language models.", "verlcpp-train");
  define(cli, parsed.options, cfg, format, version);
  refuse_carriage_returns(argc, argv);
  std::vector<std::string> words = in_long_form(argc, argv);
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  argv = pointers.data();
  refuse_empty_values(cli, argc, argv);
  try {
    cli.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.text = cli.help();
    return parsed;
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string text = e.what();  // "--flag: 1 required ..."
    const std::string flag = text.substr(0, text.find(':'));
    throw ConfigError(
        flag +
        (times_given(flag, argc, argv) > 1 ? " is given twice; valid: once" : " lacks its value") +
        " (see --help)");
  } catch (const CLI::ConversionError& e) {
    const std::string text = e.what();  // "Could not convert: --flag = value"
    throw ConfigError(text.substr(text.find("--")) + ": must be an integer (see --help)");
  } catch (const CLI::ExcludesError& e) {
    const std::string text = e.what();  // "--flag excludes --other"
    throw ConfigError(text.substr(0, text.find(' ')) + " cannot be used together with " +
                      text.substr(text.rfind(' ') + 1) + " (see --help)");
  } catch (const CLI::ParseError& e) {
    throw ConfigError(std::string(e.what()) + " (see --help)");
  }
  refuse_unknown(cli);
  refuse_foreign_characters(parsed.options.overrides);
  if (cli.count("--format") > 0 && parsed.options.plan_file.empty() &&
      !parsed.options.compare_dcp) {
    throw ConfigError("--format requires --plan or --compare-dcp (see --help)");
  }
  if (version) parsed.text = kVersion;
  parsed.options.print_config = cfg == "job";
  parsed.options.json = format == "json";
  return parsed;
}

std::vector<config::SearchPath> search_path(const Options& options) {
  const std::filesystem::path name = options.config_name;
  if (name.is_absolute() || options.config_name.starts_with(".")) {
    const bool is_file = name.has_parent_path() && name.has_stem() && name.stem() != "..";
    throw ConfigError("--config-name " + options.config_name +
                      ": must be a name inside the folder of --config-dir; valid: --config-dir=" +
                      (is_file ? name.parent_path().string() : "FOLDER") +
                      " --config-name=" + (is_file ? name.stem().string() : "NAME"));
  }
  std::vector<config::SearchPath> path;
  if (!options.config_dir.empty()) {
    if (!std::filesystem::is_directory(options.config_dir)) {
      throw ConfigError("--config-dir " + options.config_dir + ": no such folder");
    }
    path.push_back(user_folder(options.config_dir));
  }
  const std::string& primary = options.config_path;
  if (!primary.empty()) {
    const bool verls_own = primary == "config" || primary == "./config";
    if (std::filesystem::is_directory(primary)) {
      path.push_back(user_folder(primary));
    } else if (!verls_own) {
      throw ConfigError("--config-path " + primary +
                        ": no such folder; valid: a folder of YAML files, or config, verl's own, "
                        "which stands for the files inside verlcpp-train");
    }
  }
  if (!path.empty()) path.back() = unless_shipped(path.back());
  path.push_back(config::embedded());
  return path;
}

}  // namespace verlcpp::app
