#include "reward/rules.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "reward/cycle.h"
#include "reward/extras.h"
#include "reward/geo3k.h"
#include "reward/math.h"
#include "reward/math_dapo.h"
#include "reward/search_r1.h"

namespace verlcpp::reward {
namespace {

struct Rule {
  std::string_view data_source;
  bool prefix;  // any source that begins so
  Reward (*score)(std::string_view response, const data::PromptRow& row, Gsm8kMethod gsm8k);
  std::string_view ground_truth;  // what is valid
  bool (*accepts)(const data::PromptRow& row);
};

Reward number(double score) { return {score, {extra("acc", score)}}; }

Reward gsm8k(std::string_view response, const data::PromptRow& row, Gsm8kMethod method) {
  return number(score_gsm8k(response, row.ground_truth, method));
}
Reward math(std::string_view response, const data::PromptRow& row, Gsm8kMethod) {
  return number(score_math(response, row.ground_truth));
}
Reward math_dapo(std::string_view response, const data::PromptRow& row, Gsm8kMethod) {
  const DapoScore s = score_math_dapo(response, row.ground_truth);
  return {s.score, {extra("score", s.score), extra("acc", s.acc), extra("pred", s.pred)}};
}
Reward geo3k(std::string_view response, const data::PromptRow& row, Gsm8kMethod) {
  return number(score_geo3k(response, row.ground_truth));
}
Reward cycle(std::string_view response, const data::PromptRow& row, Gsm8kMethod) {
  return number(score_cycle(response, row.ground_truth));
}

/// {"target": TEXT or [TEXT, ...]}; empty for anything else.
std::vector<std::string> search_targets(const data::PromptRow& row) {
  const auto json = nlohmann::json::parse(row.ground_truth_json, nullptr, false);
  const auto target = json.is_object() ? json.find("target") : json.end();
  if (!json.is_object() || target == json.end()) return {};
  if (target->is_string()) return {target->get<std::string>()};
  std::vector<std::string> all;
  for (const auto& one : *target) {
    if (!target->is_array() || !one.is_string()) return {};
    all.push_back(one.get<std::string>());
  }
  return all;
}
Reward search_r1(std::string_view response, const data::PromptRow& row, Gsm8kMethod) {
  return number(score_search_r1(response, search_targets(row)));
}

/// Lists and objects are given as JSON text, which no scorer of texts may take for an answer.
bool is_text(const data::PromptRow& row) {
  const char first = row.ground_truth_json.empty() ? '"' : row.ground_truth_json[0];
  return first == '"' || first == '-' || (first >= '0' && first <= '9');
}
bool is_cycle(const data::PromptRow& row) {
  return is_text(row) && is_cycle_truth(row.ground_truth);
}
bool has_targets(const data::PromptRow& row) { return !search_targets(row).empty(); }

constexpr std::string_view kText = "a string or a number";
constexpr std::string_view kTargets = R"({"target": a string or a list of strings})";

constexpr std::array<Rule, 17> kRules = {{
    {"openai/gsm8k", false, gsm8k, kText, is_text},
    {"lighteval/MATH", false, math, kText, is_text},
    {"DigitalLearningGmbH/MATH-lighteval", false, math, kText, is_text},
    {"HuggingFaceH4/MATH-500", false, math, kText, is_text},
    {"math_dapo", false, math_dapo, kText, is_text},
    {"math", false, math_dapo, kText, is_text},
    {"math_dapo_reasoning", false, math_dapo, kText, is_text},
    {"aime", true, math_dapo, kText, is_text},
    {"hiyouga/geometry3k", false, geo3k, kText, is_text},
    {"searchR1_nq", false, search_r1, kTargets, has_targets},
    {"searchR1_triviaqa", false, search_r1, kTargets, has_targets},
    {"searchR1_popqa", false, search_r1, kTargets, has_targets},
    {"searchR1_hotpotqa", false, search_r1, kTargets, has_targets},
    {"searchR1_2wikimultihopqa", false, search_r1, kTargets, has_targets},
    {"searchR1_musique", false, search_r1, kTargets, has_targets},
    {"searchR1_bamboogle", false, search_r1, kTargets, has_targets},
    {"verlcpp/cycle", false, cycle,
     "LETTER LOW HIGH, such as \"b 8 32\" (a to d, 1 <= LOW <= HIGH)", is_cycle},
}};

/// Sources that verl scores and this build does not, with the reason.
constexpr std::array<std::string_view, 6> kNumina = {"numina_aops_forum", "numina_synthetic_math",
                                                     "numina_amc_aime",   "numina_synthetic_amc",
                                                     "numina_cn_k12",     "numina_olympiads"};
constexpr std::array<std::string_view, 4> kCode = {"codecontests", "apps", "codeforces", "taco"};

const Rule* find_rule(std::string_view data_source) {
  const auto found = std::find_if(kRules.begin(), kRules.end(), [&](const Rule& rule) {
    return rule.prefix ? data_source.starts_with(rule.data_source)
                       : data_source == rule.data_source;
  });
  return found == kRules.end() ? nullptr : &*found;
}

template <size_t N>
bool holds(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string not_implemented(const std::string& data_source) {
  std::string text = "Reward function is not implemented for data_source='" + data_source + "'";
  if (holds(kNumina, data_source)) text += " (verl's prime_math grader, which needs SymPy)";
  if (holds(kCode, data_source)) text += " (verl runs the response's code, in a sandbox)";
  return text;
}

std::string implemented() {
  std::string names;
  for (const Rule& rule : kRules) {
    names += (names.empty() ? "" : ", ") + std::string(rule.data_source) + (rule.prefix ? "*" : "");
  }
  return names + "; for any other, reward.custom_reward_function.path names a program of yours";
}

}  // namespace

Reward compute_score(const data::PromptRow& row, std::string_view response, Gsm8kMethod gsm8k) {
  const Rule* rule = find_rule(row.data_source);
  if (rule == nullptr) {
    throw DataError(not_implemented(row.data_source) + "; implemented: " + implemented());
  }
  return rule->score(response, row, gsm8k);
}

std::string why_not_scored(const data::PromptRow& row, bool has_ground_truth) {
  const Rule* rule = find_rule(row.data_source);
  if (rule == nullptr) {
    return not_implemented(row.data_source) + "; implemented: " + implemented();
  }
  if (!has_ground_truth || rule->accepts(row)) return "";
  return row.data_source + ": reward_model.ground_truth is \"" + row.ground_truth +
         "\"; valid: " + std::string(rule->ground_truth);
}

}  // namespace verlcpp::reward
