#include "train/compare_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "train/memory_plan.h"

namespace verlcpp::train {
namespace {

std::string histogram(const ScheduleStats& stats) {
  std::string text;
  for (size_t cp = 0; cp < stats.groups_by_cp.size(); ++cp) {
    if (stats.groups_by_cp[cp] == 0) continue;
    text += fmt::format("{}{}x cp{}", text.empty() ? "" : ", ", stats.groups_by_cp[cp], cp);
  }
  return text;
}

/// Rows of the table: a label and a cell an arm.
struct Row {
  std::string label;
  std::function<std::string(const ArmResult&)> cell;
};

/// What an arm took and what it did.
std::vector<Row> work_rows(const ArmResult& reference) {
  return {
      {"step time, median",
       [](const ArmResult& a) { return fmt::format("{:.4f} s", a.median_seconds()); }},
      {"  smallest .. largest",
       [](const ArmResult& a) {
         return fmt::format("{:.4f} .. {:.4f}", a.min_seconds(), a.max_seconds());
       }},
      {"  predicted",
       [](const ArmResult& a) {
         return a.predicted_seconds ? fmt::format("{:.4f} s", *a.predicted_seconds) : "-";
       }},
      {"speed",
       [&](const ArmResult& a) {
         return fmt::format("{:.2f}x", difference(a, reference).speedup);
       }},
      {"real tokens", [](const ArmResult& a) { return std::to_string(a.total().tokens); }},
      {"padded tokens", [](const ArmResult& a) { return std::to_string(a.total().padded_tokens); }},
      {"real tokens / s",
       [](const ArmResult& a) { return fmt::format("{:.0f}", a.tokens_per_second()); }},
      {"micro-batches", [](const ArmResult& a) { return std::to_string(a.total().micro_batches); }},
      {"CP groups", [](const ArmResult& a) { return histogram(a.total()); }},
      {"balance, predicted",
       [](const ArmResult& a) { return fmt::format("{:.3f}", a.predicted_balance); }},
      {"balance, measured",
       [](const ArmResult& a) { return fmt::format("{:.3f}", a.measured_balance); }},
      {"peak memory of a rank", [](const ArmResult& a) { return human_bytes(a.peak_bytes); }}};
}

/// What an arm computed, and how far from the reference.
std::vector<Row> number_rows(const ArmResult& reference) {
  return {
      {"loss", [](const ArmResult& a) { return fmt::format("{:.9g}", a.loss()); }},
      {"  difference",
       [&](const ArmResult& a) {
         return fmt::format("{:.1e}", difference(a, reference).loss_abs);
       }},
      {"  in the first mini-batch",
       [&](const ArmResult& a) {
         return fmt::format("{:.1e}", difference(a, reference, 1).loss_abs);
       }},
      {"gradient norm", [](const ArmResult& a) { return fmt::format("{:.9g}", a.grad_norm()); }},
      {"  relative difference",
       [&](const ArmResult& a) {
         return fmt::format("{:.1e}", difference(a, reference).grad_norm_rel);
       }},
      {"  in the first mini-batch", [&](const ArmResult& a) {
         return fmt::format("{:.1e}", difference(a, reference, 1).grad_norm_rel);
       }}};
}

/// Lines of cells, the first to the left and the others to the right.
std::string aligned(const std::vector<std::vector<std::string>>& lines) {
  std::vector<size_t> width(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], line[i].size());
  }
  std::string text;
  for (const auto& line : lines) {
    text += fmt::format("{:<{}}", line[0], width[0]);
    for (size_t i = 1; i < line.size(); ++i) text += fmt::format("  {:>{}}", line[i], width[i]);
    text += '\n';
  }
  return text;
}

}  // namespace

std::string compare_table(const Comparison& comparison) {
  const ArmResult& reference = comparison.arms.front();
  std::vector<std::vector<std::string>> lines = {{""}};
  for (const ArmResult& arm : comparison.arms) lines.front().push_back(arm.name);
  for (const auto& rows : {work_rows(reference), number_rows(reference)}) {
    for (const Row& row : rows) {
      auto& line = lines.emplace_back(1, row.label);
      for (const ArmResult& arm : comparison.arms) line.push_back(row.cell(arm));
    }
  }
  return aligned(lines);
}

std::string predicted_table(const Comparison& comparison) {
  if (comparison.predicted.empty()) return "";
  const bool measured = !comparison.predicted_from.empty();
  std::vector<std::vector<std::string>> lines = {{"GPUs", "CP, pool", "tokens a rank"}};
  for (const ArmResult& arm : comparison.arms) lines.front().push_back(arm.name);
  for (const PredictedStep& step : comparison.predicted) {
    auto& line = lines.emplace_back();
    for (int64_t number : {step.gpus, step.cp, step.limit}) line.push_back(std::to_string(number));
    for (double seconds : step.seconds) {
      const std::string speed = fmt::format("{:.2f}x", step.seconds.front() / seconds);
      line.push_back(measured ? fmt::format("{:.4f} s, {}", seconds, speed) : speed);
    }
  }
  const std::string by = measured
                             ? "predicted step by times measured for " + comparison.predicted_from
                             : "predicted speed by the operations of the layers alone";
  // A mini-batch's own seconds are the file's, whatever the number of GPUs.
  const std::string between =
      measured ? "; gradient reduction and optimizer as measured on the file's ranks" : "";
  return by + (comparison.exchanges_cost ? "" : ", exchanges of K and V for nothing") + between +
         ":\n" + aligned(lines);
}

}  // namespace verlcpp::train
