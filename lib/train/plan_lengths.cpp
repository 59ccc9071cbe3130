#include "train/plan_lengths.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "config/bind.h"
#include "data/json_reason.h"
#include "data/line_file.h"
#include "data/prompts.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

const std::string kMegatron = "actor_rollout_ref.actor.megatron";
const std::string kMicroBatch = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu";

/// Reads single keys of a tree; what is missing or of a wrong type goes to the findings.
struct KeyReader {
  Findings& findings;
  template <class T>
  void operator()(const std::string& key, T& out) {
    const config::Node* node = findings.tree().find(key);
    if (node == nullptr) {
      findings.add_text(key + " is missing");
      return;
    }
    try {
      config::read(*node, key, out);
    } catch (const ConfigError& e) {
      findings.add_text(e.what());
    }
  }
  void positive(const std::string& key, int64_t& out) {
    const size_t before = findings.count();
    (*this)(key, out);
    if (findings.count() != before || (out >= 1 && out <= kMaxAxis)) return;
    findings.add(key, "must be a positive integer of at most " + std::to_string(kMaxAxis));
  }
};

LayoutRule read_layout(KeyReader& read) {
  int64_t nnodes = 1, gpus = 1, ranks = 1;
  LayoutRule layout;
  parallel::AxisSizes& sizes = layout.sizes;
  read.positive("trainer.nnodes", nnodes);
  read.positive("trainer.n_gpus_per_node", gpus);
  read.positive("trainer.ranks_per_gpu", ranks);
  read.positive(kMegatron + ".tensor_model_parallel_size", sizes.tp);
  read.positive(kMegatron + ".pipeline_model_parallel_size", sizes.pp);
  read.positive(kMegatron + ".context_parallel_size", sizes.cp);
  read(kMegatron + ".dynamic_context_parallel", layout.dynamic);
  sizes.world = nnodes * gpus * ranks;
  layout.ranks_beside_gpus = nnodes * ranks;
  return layout;
}

/// Also of a static plan, which a dry run refuses for them too.
void read_scheduler(BatchingRule& rule, KeyReader& read, Findings& findings) {
  const auto optional = [&](const std::string& field, auto& out) {
    const std::string key = kMegatron + "." + field;
    if (findings.tree().find(key) != nullptr) read(key, out);
  };
  std::string scheduler = kDefaultScheduler;
  std::optional<std::string> file;
  const size_t before = findings.count();
  optional("dynamic_cp_scheduler", scheduler);
  optional("dynamic_cp_cost_model", file);
  if (findings.count() != before) return;
  check_dcp_scheduler(findings, kMegatron, scheduler);
  if (file) {
    const std::string about = findings.about(kMegatron + ".dynamic_cp_cost_model");
    rule.cost = read_cost_file(data::expand_home(*file), about).update;
  }
  if (rule.dcp) rule.dcp->balanced = scheduler == kBalancedScheduler;
  const std::string warning =
      scheduler_warning(findings, kMegatron, scheduler, rule.dcp.has_value(), file.has_value());
  if (!warning.empty()) findings.warn(warning);
}

void read_dynamic(BatchingRule& rule, const LayoutRule& layout, Findings& findings) {
  const config::Node null;
  const auto at = [&](const std::string& field) -> const config::Node& {
    const config::Node* node = findings.tree().find(kMegatron + "." + field);
    return node == nullptr ? null : *node;
  };
  const config::Node& limit = at("max_seqlen_per_dp_cp_rank");
  const config::Node& min_cp = at("override_transformer_config.min_dynamic_context_parallel_size");
  check_dcp_limit(findings, kMegatron, limit);
  check_dcp_pool(findings, kMegatron, layout);
  check_min_cp(findings, kMegatron, min_cp, rule.sizes.pool());
  rule.dcp.emplace();
  if (const int64_t* value = limit.get_if<int64_t>()) rule.dcp->max_seqlen_per_rank = *value;
  if (const int64_t* value = min_cp.get_if<int64_t>()) rule.dcp->min_cp = *value;
}

void read_static(BatchingRule& rule, KeyReader& read, Findings& findings) {
  read("actor_rollout_ref.actor.use_dynamic_bsz", rule.use_dynamic_bsz);
  if (rule.use_dynamic_bsz) {
    read.positive("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", rule.max_token_len_per_gpu);
    return;
  }
  std::optional<int64_t> size;
  read(kMicroBatch, size);
  rule.micro_batch_size_per_gpu = size.value_or(0);
  if (rule.micro_batch_size_per_gpu < 1) {
    findings.add(kMicroBatch,
                 "static micro-batches need a positive number of samples (or "
                 "actor_rollout_ref.actor.use_dynamic_bsz=True, or dynamic_context_parallel=True)");
  }
}

nlohmann::json parse_json(std::istream& in, const std::string& where, const std::string& valid) {
  try {
    return nlohmann::json::parse(in);
  } catch (const nlohmann::json::exception& error) {
    throw DataError(where + "not JSON: " + data::json_reason(error.what(), false) + valid);
  }
}

}  // namespace

std::vector<int64_t> read_lengths(const std::string& flag, const std::string& file) {
  std::ifstream in(file);
  std::error_code ignored;
  if (!in || std::filesystem::is_directory(file, ignored)) {
    throw DataError(flag + " " + file + " " + data::why_unreadable(file));
  }
  const std::string where = flag + " " + file + ": ";
  const std::string valid =
      "; must hold a JSON array of positive integers, such as [812, 77, 4096]";
  const nlohmann::json json = parse_json(in, where, valid);
  if (!json.is_array()) throw DataError(where + "holds a JSON " + json.type_name() + valid);
  if (json.empty()) throw DataError(where + "the array is empty" + valid);
  std::vector<int64_t> lengths;
  for (const nlohmann::json& length : json) {
    if (!length.is_number_integer() || length < 1 || length > kMaxCount) {
      throw DataError(where + "element " + std::to_string(lengths.size()) + " is " + length.dump() +
                      valid);
    }
    lengths.push_back(length.get<int64_t>());
  }
  return lengths;
}

BatchingRule plan_rule(const config::Node& resolved_tree) {
  Findings findings(resolved_tree);
  KeyReader read{findings};
  const LayoutRule layout = read_layout(read);
  BatchingRule rule{.sizes = layout.sizes, .dcp = {}};
  findings.finish();
  check_divisible(layout, findings);
  findings.finish();
  if (layout.dynamic) {
    read_dynamic(rule, layout, findings);
  } else {
    read_static(rule, read, findings);
  }
  read_scheduler(rule, read, findings);
  findings.finish();
  for (const std::string& warning : findings.warnings()) log::warning(warning);
  return rule;
}

namespace {

/// What the planner would refuse in its own words, in those of the keys.
void check_lengths(const std::vector<int64_t>& lengths, const BatchingRule& rule,
                   const config::Node& tree) {
  const Findings findings(tree);
  const int64_t ranks = rule.dcp ? rule.sizes.pool() : rule.sizes.cp;
  const bool by_tokens = rule.dcp || rule.use_dynamic_bsz;
  const int64_t of_rank = rule.dcp ? rule.dcp->max_seqlen_per_rank : rule.max_token_len_per_gpu;
  const std::string key = rule.dcp ? kMegatron + ".max_seqlen_per_dp_cp_rank"
                                   : "actor_rollout_ref.actor.ppo_max_token_len_per_gpu";
  const auto text = [](int64_t number) { return std::to_string(number); };
  for (size_t i = 0; by_tokens && i < lengths.size(); ++i) {
    if (lengths[i] <= of_rank * ranks) continue;
    throw DataError("element " + std::to_string(i) + " has " + text(lengths[i]) + " tokens, but " +
                    (rule.dcp ? "the DPxCP group of " : "a micro-batch on the CP group of ") +
                    text(ranks) + " holds " + text(of_rank * ranks) + " with " +
                    findings.about(key) + "; raise it to at least " +
                    text((lengths[i] + ranks - 1) / ranks) + ", or shorten the element");
  }
}

}  // namespace

std::string plan_report(const config::Node& resolved_tree, const std::string& file,
                        PlanFormat format) {
  const BatchingRule rule = plan_rule(resolved_tree);
  const std::vector<int64_t> lengths = read_lengths("--plan", file);
  const schedule::Plan plan = [&] {
    try {
      check_lengths(lengths, rule, resolved_tree);
      return make_planner(rule)(lengths);
    } catch (const DataError& e) {
      throw DataError("--plan " + file + ": " + e.what());
    }
  }();
  return format == PlanFormat::kJson ? schedule::to_json(plan, lengths, rule.sizes.tp)
                                     : schedule::to_text(plan, lengths, rule.sizes.tp);
}

}  // namespace verlcpp::train
