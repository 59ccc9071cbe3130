#include "schedule/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"

namespace verlcpp::schedule {

namespace {

int64_t group_cp(const PlanGroup& group) { return static_cast<int64_t>(group.ranks.size()); }

int64_t length_of(std::span<const int64_t> lengths, int sample) {
  return lengths[static_cast<size_t>(sample)];
}

int64_t group_tokens(const PlanGroup& group, std::span<const int64_t> lengths) {
  int64_t sum = 0;
  for (int sample : group.samples) sum += length_of(lengths, sample);
  return sum;
}

int64_t group_padded_tokens(const PlanGroup& group, std::span<const int64_t> lengths, int64_t tp) {
  int64_t sum = 0;
  for (int sample : group.samples) {
    sum += padded_length(length_of(lengths, sample), tp, group_cp(group));
  }
  return sum;
}

[[noreturn]] void broken(size_t micro_batch, const std::string& what) {
  throw std::logic_error("plan, micro-batch " + std::to_string(micro_batch) + ": " + what);
}

void check_ranks(const MicroBatch& micro_batch, size_t index, int pool) {
  int next = 0;
  for (const PlanGroup& group : micro_batch.groups) {
    if (group.ranks.empty()) broken(index, "a group without ranks");
    for (int rank : group.ranks) {
      if (rank != next) {
        broken(index,
               "rank " + std::to_string(rank) + " where rank " + std::to_string(next) + " is next");
      }
      ++next;
    }
  }
  if (next != pool) {
    broken(index, "covers " + std::to_string(next) + " of " + std::to_string(pool) + " ranks");
  }
}

std::string join(const std::vector<int>& values) {
  std::string text;
  for (int value : values) {
    if (!text.empty()) text += ',';
    text += std::to_string(value);
  }
  return text.empty() ? "none" : text;
}

std::string group_text(const PlanGroup& group, std::span<const int64_t> lengths) {
  const bool one = group.ranks.size() == 1;
  std::string text = one ? "rank " : "ranks ";
  text += std::to_string(group.ranks.front());
  if (!one) text += "-" + std::to_string(group.ranks.back());
  text += " cp" + std::to_string(group.ranks.size());
  text += group.samples.size() == 1 ? ": sample " : ": samples ";
  return text + join(group.samples) + " (" + std::to_string(group_tokens(group, lengths)) +
         " tokens)";
}

nlohmann::ordered_json micro_batch_json(const MicroBatch& micro_batch,
                                        std::span<const int64_t> lengths, int64_t tp) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
  nlohmann::ordered_json padded = nlohmann::ordered_json::array();
  for (const PlanGroup& group : micro_batch.groups) {
    nlohmann::ordered_json entry;
    entry["ranks"] = group.ranks;
    entry["samples"] = group.samples;
    groups.push_back(entry);
    const int64_t cp = group_cp(group);
    for (int64_t index = 0; index < cp; ++index) {
      int64_t real = 0;
      for (int sample : group.samples) {
        real += shard_tokens(length_of(lengths, sample), tp, cp, index);
      }
      ranks.push_back(group.samples);
      tokens.push_back(real);
      padded.push_back(group_padded_tokens(group, lengths, tp) / cp);
    }
  }
  nlohmann::ordered_json out;
  out["ranks"] = ranks;
  out["groups"] = groups;
  out["tokens"] = tokens;
  out["padded_tokens"] = padded;
  return out;
}

}  // namespace

int64_t alignment(int64_t tp, int64_t cp) { return cp == 1 ? tp : tp * 2 * cp; }

int64_t padded_length(int64_t length, int64_t tp, int64_t cp) {
  const int64_t unit = alignment(tp, cp);
  return (length + unit - 1) / unit * unit;
}

int64_t shard_tokens(int64_t length, int64_t tp, int64_t cp, int64_t index) {
  if (cp == 1) return length;
  const int64_t chunk = padded_length(length, tp, cp) / (2 * cp);
  const auto real_in_chunk = [&](int64_t which) {
    return std::clamp<int64_t>(length - which * chunk, 0, chunk);
  };
  return real_in_chunk(index) + real_in_chunk(2 * cp - 1 - index);
}

int64_t padded_rows_bound(int64_t budget, int64_t samples, int64_t shortest, int64_t longest,
                          int64_t tp, int64_t cp) {
  const int64_t everything = samples * longest;
  // A budget without limit must not overflow.
  const int64_t tokens = std::min(std::min(budget, everything) * cp, everything);
  const int64_t documents = std::min(samples, tokens / shortest);
  const int64_t padded = tokens + documents * (alignment(tp, cp) - 1);
  return std::min(padded, documents * padded_length(longest, tp, cp)) / cp;
}

void check_plan(const Plan& plan, std::span<const int64_t> lengths, bool allow_empty_groups) {
  std::vector<char> seen(lengths.size(), 0);
  size_t count = 0;
  for (size_t i = 0; i < plan.micro_batches.size(); ++i) {
    check_ranks(plan.micro_batches[i], i, plan.pool);
    for (const PlanGroup& group : plan.micro_batches[i].groups) {
      if (group.samples.empty() && !allow_empty_groups) broken(i, "a group without samples");
      for (int sample : group.samples) {
        if (sample < 0 || static_cast<size_t>(sample) >= lengths.size()) {
          broken(i, "sample " + std::to_string(sample) + " does not exist");
        }
        if (seen[static_cast<size_t>(sample)]) {
          broken(i, "sample " + std::to_string(sample) + " a second time");
        }
        seen[static_cast<size_t>(sample)] = 1;
        ++count;
      }
    }
  }
  if (count != lengths.size()) {
    throw std::logic_error("plan: holds " + std::to_string(count) + " of " +
                           std::to_string(lengths.size()) + " samples");
  }
}

PlanTotals totals(const Plan& plan, std::span<const int64_t> lengths, int64_t tp) {
  PlanTotals sums;
  for (const MicroBatch& micro_batch : plan.micro_batches) {
    for (const PlanGroup& group : micro_batch.groups) {
      sums.tokens += group_tokens(group, lengths);
      sums.padded_tokens += group_padded_tokens(group, lengths, tp);
    }
  }
  return sums;
}

std::string to_text(const Plan& plan, std::span<const int64_t> lengths, int64_t tp) {
  const PlanTotals sums = totals(plan, lengths, tp);
  std::string text =
      "pool of " + std::to_string(plan.pool) + ": " + std::to_string(lengths.size()) +
      " samples in " + std::to_string(plan.micro_batches.size()) + " micro-batches, " +
      std::to_string(sums.tokens) + " tokens (" + std::to_string(sums.padded_tokens) + " padded)\n";
  for (size_t i = 0; i < plan.micro_batches.size(); ++i) {
    text += "micro-batch " + std::to_string(i) + ": ";
    bool first = true;
    for (const PlanGroup& group : plan.micro_batches[i].groups) {
      if (!first) text += "; ";
      first = false;
      text += group_text(group, lengths);
    }
    text += "\n";
  }
  return text;
}

std::string to_json(const Plan& plan, std::span<const int64_t> lengths, int64_t tp) {
  const PlanTotals sums = totals(plan, lengths, tp);
  nlohmann::ordered_json out;
  out["pool"] = plan.pool;
  out["micro_batches"] = nlohmann::ordered_json::array();
  for (const MicroBatch& micro_batch : plan.micro_batches) {
    out["micro_batches"].push_back(micro_batch_json(micro_batch, lengths, tp));
  }
  out["total_tokens"] = sums.tokens;
  out["total_padded_tokens"] = sums.padded_tokens;
  return out.dump();
}

}  // namespace verlcpp::schedule
