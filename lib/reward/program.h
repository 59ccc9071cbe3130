#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reward/child_process.h"
#include "reward/rules.h"

// The protocol between verlcpp-train and a program that scores responses, in UTF-8, one JSON object
// a line. verlcpp-train writes a question to the program's stdin:
//
//   {"id": 7, "data_source": "my/task", "solution_str": "the response", "ground_truth": "72",
//    "extra_info": {"index": 3}, "reward_kwargs": {}}
//
// where ground_truth, extra_info and the values of reward_kwargs (a map: the key
// reward.custom_reward_function.reward_kwargs) may be any JSON value. The program answers with one
// line on its stdout, which must be flushed:
//
//   {"id": 7, "result": 1.0}
//   {"id": 7, "result": {"score": 0.5, "acc": true}}      extras beside the score
//   {"id": 7, "result": [1.0, "whatever"]}                the first element is the score
//   {"id": 7, "error": "KeyError: 'x'", "traceback": "..."}    (the traceback may be left out)
//
// A score is a finite number or a truth value. All questions of a step are written without waiting
// for answers, which may come in any order; the program lives as long as the run, between steps it
// waits. It ends when its stdin does. Stderr is for people: it is shown as it comes. Nothing but
// answers may be on stdout.
//
// A .py file (also file://..., pkg://package.module) is run by compute_score_host.py, which speaks
// all this for it: it calls the file's function as verl does, and keeps prints off stdout. Its
// first line is {"ready": true}, or {"fatal": "...", "traceback": "..."} when the file cannot be
// loaded.

namespace verlcpp::reward {

struct ProgramOptions {
  std::string path;                               // of a .py file or of an executable
  std::string name;                               // of the function in a .py file
  std::string reward_kwargs = "{}";               // a JSON object
  std::chrono::milliseconds timeout{60000};       // of an answer
  std::chrono::milliseconds load_timeout{60000};  // of a .py file and all that it imports
  bool zero_on_failure = false;  // else a response that cannot be scored ends the run
};

/// One response to score; `where` names it in messages: its row and uid.
struct Question {
  std::string data_source, response;
  std::string ground_truth_json, extra_json;  // JSON texts
  std::string where;
};

/// Whether a path is for the Python host.
bool is_python(const std::string& path);

/// The user's program, as one child process. A question that gets an error, a wrong kind of score,
/// or none for `timeout` since the last answer, and one during which the program ends or writes
/// what is no answer (the oldest open one), has failed. After the last three the program is started
/// anew for the rest. A failure ends the run with DataError, or with zero_on_failure counts as a
/// score of 0 with a warning; eight program ends in a row without an answer end it in any case.
class Program {
 public:
  /// Starts it; a .py file is loaded before this returns. DataError when it cannot be; `beat` is
  /// called while waiting, and what it throws goes through.
  Program(ProgramOptions options, const std::function<void()>& beat);

  /// The rewards of `questions`, in their order; a failed one is 0 without extras.
  std::vector<Reward> ask(std::span<const Question> questions, const std::function<void()>& beat);

  int64_t failures() const { return failures_; }  // since the start
  int64_t restarts() const { return restarts_; }

 private:
  struct Round;  // what is open of one ask()

  void start(const std::function<void()>& beat);
  void wait_until_ready(const std::function<void()>& beat);
  void pump(bool shows_errors);
  std::optional<std::string> next_line();
  void show_errors(const std::string& bytes);
  void send(Round& round);
  void take_answer(Round& round, const std::string& line);
  std::string trouble(const Round& round);
  void replace_child(Round& round, const std::string& reason, const std::function<void()>& beat);
  void fail(Round& round, size_t index, const std::string& reason);
  std::string with_errors(const std::string& reason);
  std::string about() const;

  ProgramOptions options_;
  std::unique_ptr<ChildProcess> child_;
  std::string out_, err_;  // bytes of unfinished lines
  bool out_ended_ = false;
  std::deque<std::string> last_errors_;
  std::chrono::steady_clock::time_point last_sign_;
  int64_t next_id_ = 0, failures_ = 0, restarts_ = 0, ends_in_a_row_ = 0, warnings_ = 0;
};

}  // namespace verlcpp::reward
