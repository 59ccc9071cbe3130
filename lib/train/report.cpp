#include "train/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <optional>

#include "base/log.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/step_metrics.h"

namespace verlcpp::train {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Report::State {
  Clock::time_point start, phase_start;
  std::string phases;  // "configuration 0.01 s, inputs 0.00 s, ..."
  std::optional<MetricsFile> file;
  bool console = false, terminal = false, first_step_done = false;
  Clock::time_point begin_time;
  int64_t done_at_start = 0, total = 0;
  std::vector<double> rewards;
  int64_t row_step = 0;  // of the step that has not ended
  Metrics row;
  std::string checkpoint, export_folder;
};

namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool has(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// `new_steps` since the start of this process, `done_at_start` before it.
std::string how_to_go_on(const TrainerConfig& trainer, size_t new_steps, int64_t done_at_start) {
  if (new_steps == 0 && done_at_start == 0) {
    return " before a step was done; there is nothing to save";
  }
  if (new_steps == 0) {
    return fmt::format(" before a new step was done; the same command continues after step {}",
                       done_at_start);
  }
  if (trainer.resume_mode == "auto") return "; the same command continues from here";
  return "; the same command with trainer.resume_mode=auto continues from here";
}

}  // namespace

Report::Report(const TrainConfig& config, const config::Node& tree, Clock::time_point start)
    : config_(config), config_text_(config::to_yaml(tree)), state_(std::make_unique<State>()) {
  state_->start = state_->phase_start = start;
  state_->console = has(config.trainer.logger, "console");
  state_->terminal = isatty(STDOUT_FILENO) != 0;
  if (has(config.trainer.logger, "file")) {
    state_->file.emplace(metrics_path(config.trainer.project_name, config.trainer.experiment_name));
  }
  phase("configuration");
}

Report::~Report() = default;

void Report::phase(const std::string& name) {
  state_->phases += fmt::format("{}{} {:.3f} s", state_->phases.empty() ? "" : ", ", name,
                                seconds_since(state_->phase_start));
  state_->phase_start = Clock::now();
}

void Report::check_files() const {
  if (state_->file) state_->file->check();
}

bool Report::keeps_rows() const { return state_->file.has_value(); }

void Report::sync() const {
  if (state_->file) state_->file->sync();
}

void Report::begin(int64_t done_steps, int64_t total_steps) {
  State& s = *state_;
  log::info(fmt::format("Total training steps: {}", total_steps));
  if (s.file) {
    for (const std::string& message : s.file->open(done_steps)) log::warning(message);
  }
  s.done_at_start = done_steps;
  s.total = total_steps;
  if (done_steps >= total_steps) {
    log::warning(
        fmt::format("nothing to train: the checkpoint is at step {} of {}; raise "
                    "trainer.total_training_steps, or "
                    "set trainer.resume_mode=disable or another trainer.experiment_name",
                    done_steps, total_steps));
  }
}

bool Report::lacks_validation(int64_t step) const {
  return state_->file && state_->file->lacks_validation(step);
}

void Report::first_validation(int64_t step, const Metrics& metrics) {
  const State& s = *state_;
  log::info("Initial validation metrics: " + python_dict(metrics));
  if (s.console) log::info(console_line(step, metrics));
  if (s.file && !s.file->add_validation(step, metrics)) {
    log::info(fmt::format(
        "metrics file {}: has a validation of step {} or later rows; this one is not added",
        s.file->path(), step));
  }
  phase("validation");
}

void Report::training_starts() {
  State& s = *state_;
  s.begin_time = Clock::now();
  log::info(
      fmt::format("start to first training step: {:.3f} s ({})", seconds_since(s.start), s.phases));
}

void Report::step(const StepOutcome& outcome) {
  State& s = *state_;
  s.row = step_metrics(config_, outcome);
  s.row_step = outcome.step;
  s.rewards.push_back(s.row.at("critic/score/mean"));
  if (s.terminal) std::cout << "\r\x1b[K" << std::flush;  // the bar makes room for the line
  for (size_t i = 0; i < outcome.updates.size(); ++i) {
    if (std::isfinite(outcome.updates[i].grad_norm)) continue;
    log::warning(fmt::format("step {}: grad_norm of update {} is {}; the update was skipped",
                             outcome.step, i + 1, outcome.updates[i].grad_norm));
  }
  if (s.file) s.file->append(outcome.step, s.row);
}

void Report::end_step(const std::optional<Metrics>& validation) {
  State& s = *state_;
  if (validation) s.row.set(*validation);
  if (s.console) log::info(console_line(s.row_step, s.row));
  if (validation && s.file) s.file->add_validation(s.row_step, *validation);
  if (validation && s.row_step == s.total) {
    log::info("Final validation metrics: " + python_dict(*validation));
  }
  if (!s.first_step_done) {
    s.first_step_done = true;
    log::info(fmt::format("first training step finished {:.3f} s after the start",
                          seconds_since(s.start)));
  }
  if (s.terminal) {
    std::cout << progress_bar(s.row_step, s.total, seconds_since(s.begin_time), s.done_at_start)
              << std::flush;
    if (s.row_step == s.total) std::cout << '\n';
  }
}

void Report::checkpoint_saved(const std::string& folder, const std::string& export_folder) {
  state_->checkpoint = folder;
  state_->export_folder = export_folder;
  if (state_->terminal) std::cout << "\r\x1b[K" << std::flush;
  log::info("Saved checkpoint to " + folder);
}

void Report::finish(const std::string& stopped_by) {
  const State& s = *state_;
  if (!s.rewards.empty()) {
    log::info(fmt::format("mean reward (critic/score/mean) over {} steps: {:.3f} -> {:.3f}",
                          s.rewards.size(), s.rewards.front(), s.rewards.back()));
    log::info(ascii_plot(s.rewards, 64, 8));
  }
  if (!stopped_by.empty()) {
    log::info("stopped by " + stopped_by +
              how_to_go_on(config_.trainer, s.rewards.size(), s.done_at_start));
  }
  if (!s.checkpoint.empty()) log::info("checkpoint:          " + s.checkpoint);
  if (s.file && fs::exists(s.file->path())) log::info("metrics:             " + s.file->path());
  if (!s.export_folder.empty()) log::info("Hugging Face export: " + s.export_folder);
  log::info(fmt::format("done in {:.1f} s", seconds_since(s.start)));
}

}  // namespace verlcpp::train
