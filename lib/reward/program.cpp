#include "reward/program.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "reward/host_text.h"
#include "reward/program_answer.h"

namespace verlcpp::reward {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr std::string_view kKey = "reward.custom_reward_function.";
constexpr std::chrono::milliseconds kPoll{50};  // between signs of life
constexpr size_t kLongestLine = size_t{16} << 20;
constexpr size_t kSentAhead = size_t{1} << 18;  // bytes that are made before they can be written
constexpr size_t kShownErrors = 20;
constexpr int64_t kMostEnds = 8;
constexpr int64_t kMostWarnings = 20;

std::string question_line(const Question& question, int64_t id, const std::string& kwargs) {
  const auto value = [](const std::string& text, const char* none) {
    return Json::parse(text.empty() ? none : text);
  };
  const Json json = {{"id", id},
                     {"data_source", question.data_source},
                     {"solution_str", question.response},
                     {"ground_truth", value(question.ground_truth_json, "null")},
                     {"extra_info", value(question.extra_json, "{}")},
                     {"reward_kwargs", value(kwargs, "{}")}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string seconds(std::chrono::milliseconds time) {
  std::string text = std::to_string(static_cast<double>(time.count()) / 1000);
  text.erase(text.find_last_not_of('0') + 1);
  return (text.ends_with('.') ? text + "0" : text) + " s";
}

}  // namespace

struct Program::Round {
  std::span<const Question> questions;
  std::vector<Reward> rewards;
  std::vector<bool> done;
  size_t open = 0;
  size_t next = 0;                  // the next to be made into a line
  std::string outgoing;             // lines that are not written yet
  std::map<int64_t, size_t> asked;  // id -> question, of this child, without an answer

  explicit Round(std::span<const Question> all)
      : questions(all), rewards(all.size()), done(all.size()), open(all.size()) {}
  void close(size_t index) {
    done[index] = true;
    --open;
  }
  size_t oldest() const {
    if (!asked.empty()) return asked.begin()->second;
    return static_cast<size_t>(std::find(done.begin(), done.end(), false) - done.begin());
  }
  void ask_again() {
    next = 0;
    outgoing.clear();
    asked.clear();
  }
};

bool is_python(const std::string& path) {
  return path.ends_with(".py") || path.starts_with("pkg://") || path.starts_with("file://");
}

Program::Program(ProgramOptions options, const std::function<void()>& beat)
    : options_(std::move(options)) {
  start(beat);
}

std::vector<Reward> Program::ask(std::span<const Question> questions,
                                 const std::function<void()>& beat) {
  Round round(questions);
  pump(false);
  if (out_ended_ || child_->ended({})) {  // nobody's fault in these questions
    log::warning(about() + " ended between two steps; it is started again");
    ++restarts_;
    start(beat);
  }
  last_sign_ = Clock::now();
  while (round.open > 0) {
    beat();
    send(round);
    child_->wait(kPoll, !round.outgoing.empty());
    pump(true);
    std::string reason;
    while (round.open > 0 && reason.empty()) {
      const std::optional<std::string> line = next_line();
      if (!line) break;
      const std::optional<Answer> answer = parse_answer(*line);
      const bool known = answer && answer->id >= 0 && round.asked.contains(answer->id);
      if (known) take_answer(round, *line);
      if (!known) reason = "it wrote what is no answer to a question: " + shown(*line, 200);
    }
    if (round.open > 0 && reason.empty()) reason = trouble(round);
    if (!reason.empty()) replace_child(round, reason, beat);
  }
  return std::move(round.rewards);
}

void Program::start(const std::function<void()>& beat) {
  child_.reset();
  out_.clear();
  err_.clear();
  last_errors_.clear();
  out_ended_ = false;
  std::vector<std::string> arguments = {options_.path};
  if (is_python(options_.path)) {
    arguments = {"python3",     "-c",          compute_score_host(),
                 options_.path, options_.name, options_.reward_kwargs};
  } else if (options_.path.find('/') == std::string::npos) {
    arguments[0] = "./" + options_.path;  // a file, not a command
  }
  child_ = std::make_unique<ChildProcess>(arguments, about());
  last_sign_ = Clock::now();
  if (is_python(options_.path)) wait_until_ready(beat);
}

void Program::wait_until_ready(const std::function<void()>& beat) {
  const auto cannot = [&](const std::string& reason) {
    child_->kill();
    pump(true);
    throw DataError(about() + with_errors(" cannot be loaded: " + reason));
  };
  while (true) {
    beat();
    child_->wait(kPoll, false);
    pump(true);
    if (const auto line = next_line()) {
      const auto answer = parse_answer(*line);
      if (answer && answer->kind == Answer::Kind::kReady) return;
      cannot(answer ? answer->reason : "it wrote " + shown(*line, 200));
    }
    if (out_ended_) {
      cannot("it ended with " + child_->ended(std::chrono::seconds(1)).value_or("no exit code"));
    }
    if (Clock::now() - last_sign_ > options_.load_timeout) {
      cannot("not done after " + seconds(options_.load_timeout) + "; " + std::string(kKey) +
             "timeout_s may raise that");
    }
  }
}

/// Takes what the program has written.
void Program::pump(bool shows_errors) {
  using Stream = ChildProcess::Stream;
  while (out_.size() <= kLongestLine) {
    const std::optional<std::string> bytes = child_->read(Stream::kOut);
    if (!bytes) out_ended_ = true;
    if (!bytes || bytes->empty()) break;
    out_ += *bytes;
  }
  while (shows_errors) {
    const std::optional<std::string> bytes = child_->read(Stream::kErr);
    if (!bytes || bytes->empty()) break;
    show_errors(*bytes);
  }
}

std::optional<std::string> Program::next_line() {
  const size_t end = out_.find('\n');
  if (end == std::string::npos) return {};
  std::string line = out_.substr(0, end);
  out_.erase(0, end + 1);
  return line;
}

void Program::show_errors(const std::string& bytes) {
  constexpr size_t kLongest = 4096;
  err_ += bytes;
  for (size_t end = err_.find('\n'); end != std::string::npos || err_.size() > kLongest;
       end = err_.find('\n')) {
    end = std::min(end, kLongest);
    const std::string line = shown(err_.substr(0, end), kLongest);
    err_.erase(0, err_[end] == '\n' ? end + 1 : end);
    log::info("reward program: " + line);
    last_errors_.push_back(line);
    if (last_errors_.size() > kShownErrors) last_errors_.pop_front();
  }
}

void Program::send(Round& round) {
  while (round.outgoing.size() < kSentAhead && round.next < round.questions.size()) {
    const size_t index = round.next++;
    if (round.done[index]) continue;
    round.asked[next_id_] = index;
    round.outgoing += question_line(round.questions[index], next_id_++, options_.reward_kwargs);
  }
  if (!round.outgoing.empty()) round.outgoing.erase(0, child_->write(round.outgoing));
}

void Program::take_answer(Round& round, const std::string& line) {
  Answer answer = parse_answer(line).value();
  const size_t index = round.asked.at(answer.id);
  round.asked.erase(answer.id);
  last_sign_ = Clock::now();
  ends_in_a_row_ = 0;
  if (answer.kind == Answer::Kind::kReward) {
    round.rewards[index] = std::move(answer.reward);
    round.close(index);
  } else {
    fail(round, index, answer.reason);
  }
}

/// Why the program cannot go on; "" while it can.
std::string Program::trouble(const Round& round) {
  if (out_.size() > kLongestLine) {
    return "it wrote a line of more than " + std::to_string(kLongestLine) + " bytes";
  }
  if (out_ended_) {
    const auto how = child_->ended(std::chrono::milliseconds(200));
    return how ? "it ended with " + *how : "it closed its stdout";
  }
  if (!round.asked.empty() && Clock::now() - last_sign_ > options_.timeout) {
    return "no answer for " + seconds(options_.timeout) + " (" + std::string(kKey) + "timeout_s)";
  }
  return "";
}

/// The oldest open question has failed; a new child takes the rest.
void Program::replace_child(Round& round, const std::string& reason,
                            const std::function<void()>& beat) {
  child_->kill();
  pump(true);
  const std::string whole = with_errors(reason);
  if (++ends_in_a_row_ >= kMostEnds) {
    throw DataError(about() + ": " + round.questions[round.oldest()].where + ": " + whole +
                    "\nIt was the " + std::to_string(kMostEnds) +
                    "th end in a row without an answer.");
  }
  fail(round, round.oldest(), whole);
  round.ask_again();
  ++restarts_;
  start(beat);
}

void Program::fail(Round& round, size_t index, const std::string& reason) {
  ++failures_;
  const std::string message = about() + ": " + round.questions[index].where + ": " + reason;
  if (!options_.zero_on_failure) {
    throw DataError(message + (message.ends_with('\n') ? "" : "\n") + std::string(kKey) +
                    "on_failure=zero scores such a response 0 and goes on.");
  }
  if (++warnings_ <= kMostWarnings) {
    log::warning(message + "; it scores 0" +
                 (warnings_ == kMostWarnings
                      ? ". Further ones are only counted: the metric reward/failures"
                      : ""));
  }
  round.close(index);
}

std::string Program::with_errors(const std::string& reason) {
  if (!err_.empty()) show_errors("\n");
  if (last_errors_.empty()) return reason;
  std::string text = reason + "\nIts last lines on stderr:";
  for (const std::string& line : last_errors_) text += "\n  " + line;
  return text;
}

std::string Program::about() const {
  return std::string(kKey) + "path=" + options_.path +
         (is_python(options_.path) ? " (" + options_.name + ")" : "");
}

}  // namespace verlcpp::reward
