#include "data/row_report.h"

#include <algorithm>

#include "base/error.h"

namespace verlcpp::data {
namespace {

constexpr size_t kShownRows = 5;
constexpr int kShownKinds = 20;
constexpr const char* kDropped = " dropped (data.filter_overlong_prompts=True):";

/// "a.jsonl:1, 4, b.jsonl:2": a file's name once in a run of its rows.
std::string places(const std::vector<std::string>& origins) {
  std::string text, last_file;
  for (const std::string& origin : origins) {
    const size_t at = origin.find_last_of(":[");
    const std::string file = origin.substr(0, at);
    const size_t number = origin[at] == ':' ? at + 1 : at;
    if (!text.empty()) text += ", ";
    text += !text.empty() && file == last_file ? origin.substr(number) : origin;
    last_file = file;
  }
  return text;
}

std::string counted(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

void RowReport::next_row(const std::string& origin) {
  bad_rows_ = bad_rows();
  dropped_rows_ = dropped_rows();
  row_stops_ = row_dropped_ = false;
  origin_ = origin;
  ++rows_;
}

void RowReport::add(const std::string& kind, const std::string& text, Fate fate) {
  (fate == Fate::kStops ? row_stops_ : row_dropped_) = true;
  const auto [found, is_new] = index_.emplace(kind, kinds_.size());
  if (is_new) kinds_.push_back({.name = kind, .text = text, .fate = fate, .origins = {}});
  Kind& entry = kinds_[found->second];
  expects(entry.fate == fate, "a kind of problem has one fate");
  if (entry.last_row == rows_) return;
  entry.last_row = rows_;
  ++entry.rows;
  entry.same_text = entry.same_text && entry.text == text;
  if (entry.origins.size() < kShownRows) entry.origins.push_back(origin_);
}

std::string RowReport::lines(Fate fate) const {
  std::string text;
  int shown = 0;
  int64_t more = 0;
  for (const Kind& kind : kinds_) {
    if (kind.fate != fate) continue;
    if (++shown > kShownKinds) {
      ++more;
      continue;
    }
    text += "\n  " + places(kind.origins);
    const int64_t hidden = kind.rows - static_cast<int64_t>(kind.origins.size());
    if (hidden > 0) text += " and " + std::to_string(hidden) + " more";
    if (kind.rows > 1) text += " (" + counted(kind.rows, "row") + ")";
    text += (kind.same_text ? ": " : ", the first: ") + kind.text;
  }
  if (more > 0) text += "\n  and " + counted(more, "more kind") + " of problems";
  return text;
}

std::string RowReport::dropped_text() const {
  if (dropped_rows() == 0) return "";
  return key_ + ": " + counted(dropped_rows(), "row") + " of " + std::to_string(rows_) + kDropped +
         lines(Fate::kDropped);
}

void RowReport::throw_if_unusable() const {
  if (rows_ == 0) throw DataError(key_ + ": there is no row in the files");
  if (bad_rows() > 0) {
    const std::string dropped = lines(Fate::kDropped);
    throw DataError(key_ + ": " + counted(bad_rows(), "bad row") + ":" + lines(Fate::kStops) +
                    (dropped.empty() ? "" : std::string("\n ") + kDropped + dropped));
  }
  if (dropped_rows() < rows_) return;
  throw DataError(key_ + ": no row can be used; " + counted(rows_, "row") + kDropped +
                  lines(Fate::kDropped));
}

}  // namespace verlcpp::data
