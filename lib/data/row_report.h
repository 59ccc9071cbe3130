#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace verlcpp::data {

/// What becomes of a row that has a problem.
enum class Fate {
  kStops,    // the run does not start
  kDropped,  // as verl does with prompts that do not render or are too long, when it filters
};

/// What is wrong with the rows of some files: a line per kind of problem, with its count and the
/// first rows that have it.
class RowReport {
 public:
  /// `key` names the files in messages: "data.train_files".
  explicit RowReport(std::string key) : key_(std::move(key)) {}

  /// The next row; the problems added up to the following call are its own. `origin` is
  /// "file:number", or "file[index]".
  void next_row(const std::string& origin);
  /// `kind` is the same for all rows with the same mistake; `text` says what is wrong and what
  /// would be valid, and may hold the row's value. A row counts once a kind.
  void add(const std::string& kind, const std::string& text, Fate fate = Fate::kStops);

  bool row_has_problem() const { return row_stops_ || row_dropped_; }
  int64_t rows() const { return rows_; }
  /// Rows that stop the run; rows that are only dropped.
  int64_t bad_rows() const { return bad_rows_ + (row_stops_ ? 1 : 0); }
  int64_t dropped_rows() const { return dropped_rows_ + (row_dropped_ && !row_stops_ ? 1 : 0); }

  /// One DataError for all rows that stop the run, with those dropped below them; or, when every
  /// row was dropped or there was none, for that.
  void throw_if_unusable() const;
  /// What was dropped and why; "" when nothing was.
  std::string dropped_text() const;

 private:
  struct Kind {
    std::string name, text;  // `text` of the first row
    Fate fate = Fate::kStops;
    bool same_text = true;
    int64_t rows = 0, last_row = 0;
    std::vector<std::string> origins;  // the first few
  };
  std::string lines(Fate fate) const;

  std::string key_, origin_;
  int64_t rows_ = 0, bad_rows_ = 0, dropped_rows_ = 0;
  bool row_stops_ = false, row_dropped_ = false;  // of the row at hand
  std::vector<Kind> kinds_;                       // in order of appearance
  std::map<std::string, size_t> index_;           // into kinds_, by name
};

}  // namespace verlcpp::data
