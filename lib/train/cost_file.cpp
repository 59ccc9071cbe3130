#include "train/cost_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/line_file.h"

namespace verlcpp::train {
namespace {

using nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr double kMostSeconds = 1e6;  // of any term
constexpr double kBadFit = 0.1;       // mean relative error
constexpr const char* kPasses[] = {kUpdateCost, kLogProbCost};

ordered_json to_json(const schedule::CostModel& model) {
  ordered_json out;
  const auto terms = model.terms();
  for (size_t i = 0; i < terms.size(); ++i) out[schedule::CostModel::kNames[i]] = terms[i];
  return out;
}

ordered_json to_json(const std::vector<TimedMicroBatch>& timed) {
  ordered_json out = ordered_json::array();
  for (const TimedMicroBatch& m : timed) {
    out.push_back({{"pass", m.pass},
                   {"cp", m.cp},
                   {"lengths", m.lengths},
                   {"seconds", m.seconds},
                   {"predicted", m.predicted}});
  }
  return out;
}

ordered_json errors_json(const std::vector<TimedMicroBatch>& timed) {
  ordered_json out;
  for (const char* pass : kPasses) {
    const CostError error = cost_error(timed, pass);
    out[pass] = {{"count", error.count}, {"mean", error.mean}, {"largest", error.largest}};
  }
  return out;
}

/// Reads what to_json() wrote; errors name the key that the file's path came from.
struct CostReader {
  std::string about;

  [[noreturn]] void fail(const std::string& problem) const {
    throw ConfigError(about + ": " + problem + "; must be a file that --calibrate has written");
  }

  [[noreturn]] void fail_of(const std::string& key, const ordered_json& value,
                            const std::string& valid) const {
    constexpr size_t kShown = 40;
    std::string text = value.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
    if (text.size() > kShown) text = text.substr(0, kShown) + "...";
    fail(key + " is " + text + " in the file, not " + valid);
  }

  /// `place`: the object's name and a dot, or "".
  const ordered_json& value(const ordered_json& json, const std::string& place,
                            const char* name) const {
    const auto found = json.find(name);
    if (found == json.end()) fail("the file lacks " + place + name);
    return *found;
  }

  double amount(const ordered_json& json, const std::string& place, const char* name) const {
    const ordered_json& found = value(json, place, name);
    const double seconds = found.is_number() ? found.get<double>() : -1;
    if (!(seconds >= 0 && seconds <= kMostSeconds)) {
      fail_of(place + name, found, "a number from 0 to 1e6");
    }
    return seconds;
  }

  const ordered_json& member(const ordered_json& json, const std::string& place,
                             const char* name) const {
    const ordered_json& found = value(json, place, name);
    if (!found.is_object()) fail_of(place + name, found, "an object");
    return found;
  }

  std::string text(const ordered_json& json, const char* name) const {
    const ordered_json& found = value(json, "", name);
    if (!found.is_string()) fail_of(name, found, "a string");
    return found.get<std::string>();
  }

  schedule::CostModel model(const ordered_json& seconds, const char* pass) const {
    const ordered_json& json = member(seconds, "seconds.", pass);
    const std::string place = std::string("seconds.") + pass + ".";
    std::array<double, 6> terms{};
    for (size_t i = 0; i < terms.size(); ++i) {
      terms[i] = amount(json, place, schedule::CostModel::kNames[i]);
    }
    const schedule::CostModel model = schedule::CostModel::of(terms);
    if (model.linear + model.quadratic == 0) {
      fail("by the file's seconds." + std::string(pass) + " tokens cost nothing");
    }
    return model;
  }

  PassCosts costs(std::istream& in) const {
    const ordered_json json = ordered_json::parse(in, nullptr, false);
    if (!json.is_object()) fail("the file is no JSON object");
    const ordered_json& version = value(json, "", "version");
    if (version != kVersion) fail_of("version", version, std::to_string(kVersion));
    const std::string subject = text(json, "subject");
    const ordered_json& seconds = member(json, "", "seconds");
    return {.update = model(seconds, kPasses[0]),
            .log_prob = model(seconds, kPasses[1]),
            .mini_batch = amount(seconds, "seconds.", "mini_batch"),
            .measured = true,
            .subject = subject,
            .device = json.contains("device") ? text(json, "device") : ""};
  }
};

std::string error_line(const std::string& of, const std::vector<TimedMicroBatch>& timed) {
  std::string line = of;
  for (const char* pass : kPasses) {
    const CostError error = cost_error(timed, pass);
    line += fmt::format("{} {} of {} micro-batches: mean error {:.1f} %, largest {:.1f} %",
                        pass == kPasses[0] ? ":" : ";", pass, error.count, 100 * error.mean,
                        100 * error.largest);
  }
  return line + "\n";
}

}  // namespace

CostError cost_error(const std::vector<TimedMicroBatch>& timed, const std::string& pass) {
  CostError error;
  for (const TimedMicroBatch& m : timed) {
    if (m.pass != pass) continue;
    const double off = std::abs(m.predicted / m.seconds - 1);
    ++error.count;
    error.mean += off;
    error.largest = std::max(error.largest, off);
  }
  if (error.count > 0) error.mean /= static_cast<double>(error.count);
  return error;
}

std::vector<std::string> fit_warnings(const std::vector<TimedMicroBatch>& fitted) {
  std::vector<std::string> warnings;
  for (const char* pass : kPasses) {
    const CostError error = cost_error(fitted, pass);
    if (error.mean <= kBadFit) continue;
    warnings.push_back(fmt::format(
        "--calibrate: the cost model of {} is off by {:.0f} % on the mean (at most {:.0f} %) even "
        "for what it was fitted to: the machine may have other work; measure again",
        pass, 100 * error.mean, 100 * error.largest));
  }
  return warnings;
}

std::string to_json(const Calibration& calibration) {
  ordered_json out;
  out["version"] = kVersion;
  out["subject"] = calibration.costs.subject;
  out["device"] = calibration.device;
  out["seconds"]["update"] = to_json(calibration.costs.update);
  out["seconds"]["log_prob"] = to_json(calibration.costs.log_prob);
  out["seconds"]["mini_batch"] = calibration.costs.mini_batch;
  out["errors"] = errors_json(calibration.fitted);
  out["fitted"] = to_json(calibration.fitted);
  out["checks"] = ordered_json::array();
  for (const CostCheck& check : calibration.checks) {
    out["checks"].push_back({{"file", check.file},
                             {"errors", errors_json(check.micro_batches)},
                             {"micro_batches", to_json(check.micro_batches)}});
  }
  return out.dump(1);
}

std::string to_text(const Calibration& calibration) {
  const PassCosts& costs = calibration.costs;
  std::string text = fmt::format("cost model of {} on {}\n\n{:<12} {:>14} {:>14}\n", costs.subject,
                                 calibration.device, "seconds of", "update", "log_prob");
  const auto update = costs.update.terms(), log_prob = costs.log_prob.terms();
  for (size_t i = 0; i < update.size(); ++i) {
    text += fmt::format("{:<12} {:>14.4g} {:>14.4g}\n", schedule::CostModel::kNames[i], update[i],
                        log_prob[i]);
  }
  text += fmt::format("{:<12} {:>14.4g}\n\n", "mini_batch", costs.mini_batch);
  text += error_line("fitted to", calibration.fitted);
  for (const CostCheck& check : calibration.checks) {
    text += error_line("check " + check.file, check.micro_batches);
  }
  return text;
}

PassCosts read_cost_file(const std::string& path, const std::string& about) {
  const CostReader reader{about};
  if (const std::string reason = data::why_unreadable(path); !reason.empty()) reader.fail(reason);
  std::ifstream in(path);
  return reader.costs(in);
}

}  // namespace verlcpp::train
