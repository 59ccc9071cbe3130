#include "train/val_metrics.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "algo/response_statistics.h"
#include "base/error.h"
#include "reward/manager.h"

namespace verlcpp::train {
namespace {

using Group = std::span<const data::Trajectory>;  // the responses to one prompt

const std::string kReward = "reward", kAcc = "acc", kPred = "pred";

/// Values by name, in the order in which the names came up: the order of Python's dict.
template <class T>
class Named {
 public:
  T& operator[](const std::string& name) {
    for (auto& [known, value] : items_) {
      if (known == name) return value;
    }
    return items_.emplace_back(name, T{}).second;
  }
  bool contains(const std::string& name) const {
    return std::any_of(items_.begin(), items_.end(),
                       [&](const auto& item) { return item.first == name; });
  }
  const std::vector<std::pair<std::string, T>>& items() const { return items_; }

 private:
  std::vector<std::pair<std::string, T>> items_;
};

struct Mean {
  double sum = 0;
  int64_t count = 0;
};
using Statistics = Named<Mean>;       // by statistic, over prompts
using Variables = Named<Statistics>;  // by variable
using DataSources = Named<Variables>;

const data::RewardExtra* find_extra(const data::Trajectory& response, const std::string& name) {
  for (const data::RewardExtra& extra : response.reward_extras) {
    if (extra.name == name) return &extra;
  }
  return nullptr;
}

/// The numbers called `name`, where all responses have one. A response without an acc could not be
/// scored (reward.custom_reward_function.on_failure=zero) and counts as 0 beside others.
std::optional<std::vector<double>> numbers(Group group, const std::string& name) {
  std::vector<double> values;
  for (const data::Trajectory& response : group) {
    const data::RewardExtra* extra = find_extra(response, name);
    const bool failed = extra == nullptr && name == kAcc;
    if (!failed && (extra == nullptr || !extra->number)) return std::nullopt;
    values.push_back(failed ? 0 : *extra->number);
  }
  return values;
}

/// The names of extras in their order. `with_acc`: the data source has some.
std::vector<std::string> extra_names(Group group, bool with_acc) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    const bool known = std::find(names.begin(), names.end(), name) != names.end();
    if (!known && name != kReward) names.push_back(name);  // reward is verl's own name
  };
  for (const data::Trajectory& response : group) {
    for (const data::RewardExtra& extra : response.reward_extras) add(extra.name);
  }
  if (with_acc) add(kAcc);
  return names;
}

/// What the responses answered; nothing where one has no `pred`.
std::vector<std::string> votes(Group group) {
  std::vector<std::string> all;
  for (const data::Trajectory& response : group) {
    const data::RewardExtra* pred = find_extra(response, kPred);
    if (pred == nullptr) return {};
    all.push_back(pred->json);
  }
  return all;
}

void add_group(const algo::ResponseStatistics& statistics, Group group, bool with_acc,
               Variables& variables) {
  const std::vector<std::string> answers = votes(group);
  const auto add = [&](const std::string& variable, std::span<const double> values) {
    Statistics& means = variables[variable];
    for (const algo::NamedStatistic& statistic : statistics.of(values, answers)) {
      Mean& mean = means[statistic.name];
      mean.sum += statistic.value;
      ++mean.count;
    }
  };
  std::vector<double> scores;
  for (const data::Trajectory& response : group) scores.push_back(response.reward);
  add(kReward, scores);
  for (const std::string& name : extra_names(group, with_acc)) {
    if (const auto values = numbers(group, name)) add(name, *values);
  }
}

bool is_core(const std::string& statistic, int64_t n) {
  const std::string at = "@" + std::to_string(n);
  for (const char* name : {"mean", "maj", "best"}) {
    const std::string begin = name + at;
    if (statistic == begin || statistic.starts_with(begin + "/")) return true;
  }
  return false;
}

}  // namespace

Metrics validation_metrics(std::span<const data::Trajectory> responses, int64_t n) {
  expects(n >= 1 && std::ssize(responses) % n == 0, "n responses to each prompt");
  const algo::ResponseStatistics statistics(n);
  std::set<std::string> with_acc;  // data sources
  for (const data::Trajectory& response : responses) {
    if (find_extra(response, kAcc) != nullptr) with_acc.insert(response.data_source);
  }
  DataSources sources;
  for (size_t first = 0; first < responses.size(); first += static_cast<size_t>(n)) {
    const Group group = responses.subspan(first, static_cast<size_t>(n));
    const std::string& source = group.front().data_source;
    add_group(statistics, group, with_acc.contains(source), sources[source]);
  }
  Metrics metrics;
  for (const auto& [source, variables] : sources.items()) {
    const std::string& core = variables.contains(kAcc) ? kAcc : kReward;
    for (const auto& [variable, means] : variables.items()) {
      for (const auto& [statistic, mean] : means.items()) {
        const bool in_core = variable == core && is_core(statistic, n);
        metrics.set(
            (in_core ? "val-core/" : "val-aux/") + source + "/" + variable + "/" + statistic,
            mean.sum / static_cast<double>(mean.count));
      }
    }
  }
  for (const char* name : {"min", "max", "mean"}) {
    metrics.set(std::string("val-aux/num_turns/") + name, reward::kTurns);
  }
  return metrics;
}

}  // namespace verlcpp::train
