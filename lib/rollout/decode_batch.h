#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rollout/admission.h"
#include "rollout/generate.h"

namespace verlcpp::rollout {

/// Rows of a decoding step: the smallest of 8, 12, 16, 24, 32, 48, ... that holds the active
/// sequences, `slots` at most. Few numbers, because a backend keeps something for each.
int64_t bucket_of(int64_t active, int64_t slots);

/// What the device keeps of the sequences being decoded, one a row, from step to step: the token
/// fed next, its position, random counter and block table. Rows change when sequences come or go.
class DecodeBatch {
 public:
  DecodeBatch(Backend& backend, DType statistics, int64_t slots, int64_t table_length);

  /// Lays out `active` in rows 0, 1, ...: those there already bring their token along, new ones
  /// start with the last token of their prompt.
  void lay_out(std::span<const Sequence> active, std::span<const Request> requests, uint32_t step);

  int64_t rows() const { return rows_; }
  Tensor ids() const { return ids_.rows(0, rows_); }
  Tensor log_prob() const { return log_prob_.rows(0, rows_); }
  Tensor counters() const { return counters_.rows(0, rows_); }
  KvPages pages() const;

 private:
  void move_ids(std::span<const Sequence> active, std::span<const Request> requests);

  Backend& backend_;
  int64_t slots_, table_length_, rows_ = 0;
  Tensor ids_, positions_, counters_, tables_, log_prob_;  // of `slots` rows
  std::vector<size_t> requests_;                           // by row, as last laid out
};

}  // namespace verlcpp::rollout
