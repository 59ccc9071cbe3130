#include "config/sweep.h"

#include <algorithm>

#include "base/error.h"
#include "config/hydra_keys.h"
#include "config/sweep_values.h"

namespace verlcpp::config {

namespace {

/// An override with what the jobs take from it.
struct Axis {
  std::string key;                  // with + or ++
  std::vector<std::string> values;  // for a sweep
  std::string text;                 // as typed
  size_t number = 0;                // of the override
  bool swept = false;
};

/// Where the value begins, or npos; no key holds a `=`.
size_t value_start(const std::string& text) {
  const size_t equals = text.find('=');
  return equals == std::string::npos ? equals : equals + 1;
}

/// `+group@package` -> `group`.
std::string group_of(const std::string& key) {
  const size_t begin = std::min(key.find_first_not_of("+~"), key.size());
  return key.substr(begin, key.find('@') - begin);
}

Axis axis(const std::string& text, size_t number,
          const std::function<std::vector<std::string>(const std::string&)>& options) {
  const size_t start = value_start(text);
  Axis found;
  found.text = text;
  found.number = number;
  found.key = start == std::string::npos ? text : text.substr(0, start - 1);
  if (start == std::string::npos) return found;
  try {
    const auto values = sweep_values(text, start, [&] { return options(group_of(found.key)); });
    found.swept = values.has_value();
    if (found.swept && is_hydra_key(group_of(found.key))) {
      throw ConfigError(about_hydra_sweep(text, static_cast<int>(number)));
    }
    if (values) found.values = *values;
  } catch (const GrammarError& error) {
    throw ConfigError("override " + std::to_string(number) + ", column " +
                      std::to_string(error.position + 1) + ": " + error.message + "\n  " + text);
  }
  return found;
}

std::string replaced(const Axis& earlier, const Axis& later) {
  const auto who = [](const Axis& axis) {
    return axis.text + " (override " + std::to_string(axis.number) + ")";
  };
  return who(earlier) + " has no effect: " + who(later) + " comes later";
}

/// One problem a line; nothing when all is well.
std::vector<Axis> axes_of(
    const std::vector<std::string>& overrides,
    const std::function<std::vector<std::string>(const std::string&)>& options,
    std::vector<std::string>& notes) {
  std::vector<Axis> axes;
  std::string problems;
  for (size_t i = 0; i < overrides.size(); ++i) {
    try {
      Axis next = axis(overrides[i], i + 1, options);
      const auto same = std::find_if(axes.begin(), axes.end(),
                                     [&](const Axis& each) { return each.key == next.key; });
      if (same == axes.end()) {
        axes.push_back(std::move(next));
      } else {
        if (same->text != next.text) notes.push_back(replaced(*same, next));
        *same = std::move(next);
      }
    } catch (const ConfigError& error) {
      problems += (problems.empty() ? "" : "\n") + std::string(error.what());
    }
  }
  if (!problems.empty()) throw ConfigError(problems);
  return axes;
}

void expect_few(const std::vector<Axis>& axes) {
  size_t count = 1;
  std::string product;
  for (const Axis& each : axes) {
    if (!each.swept) continue;
    product += (product.empty() ? "" : " x ") + std::to_string(each.values.size());
    count = std::min(count * each.values.size(), kMaxSweepJobs + 1);
  }
  if (count <= kMaxSweepJobs) return;
  throw ConfigError("the sweep has " + product + " jobs; at most " + std::to_string(kMaxSweepJobs) +
                    " are run");
}

}  // namespace

bool is_sweep(const std::string& override_text) {
  const size_t start = value_start(override_text);
  return start != std::string::npos && is_sweep_value(override_text, start);
}

Sweep sweep_of(const std::vector<std::string>& overrides,
               const std::function<std::vector<std::string>(const std::string& group)>& options) {
  Sweep sweep{std::vector<SweepJob>(1), {}};
  const std::vector<Axis> axes = axes_of(overrides, options, sweep.notes);
  expect_few(axes);
  std::vector<SweepJob>& jobs = sweep.jobs;
  for (const Axis& each : axes) {
    if (!each.swept) {
      for (SweepJob& job : jobs) job.overrides.push_back(each.text);
      continue;
    }
    std::vector<SweepJob> more;
    for (const SweepJob& job : jobs) {
      for (const std::string& value : each.values) {
        more.push_back(job);
        more.back().overrides.push_back(each.key + "=" + value);
        more.back().swept.emplace_back(each.key, value);
      }
    }
    jobs = std::move(more);
  }
  return sweep;
}

}  // namespace verlcpp::config
