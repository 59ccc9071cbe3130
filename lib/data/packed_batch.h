#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/trajectory.h"
#include "schedule/plan.h"

namespace verlcpp::data {

/// One rank's part of one micro-batch, host memory only (THD). Every document is padded to verl's
/// alignment, cut into 2 * cp chunks, and this rank holds chunks `cp_index` and
/// 2 * cp - 1 - cp_index of it, adjacent, at local offset local_offset[i]. Real rows of a document
/// come first in its local range, then pads.
struct PackedBatch {
  int64_t cp = 1, cp_index = 0;
  std::vector<int> sample_ids;             // documents in pack order
  std::vector<int32_t> lengths;            // real length of each whole document
  std::vector<int32_t> cu_seqlens_padded;  // S + 1, whole padded documents
  std::vector<int32_t> local_offset;       // S: cu_seqlens_padded[i] / cp
  std::vector<int32_t> local_length;       // S: real rows of the document on this rank

  // One entry per local row, pads included. A pad has document -1, position 0 and token 0.
  std::vector<int32_t> document;  // index into sample_ids
  std::vector<int32_t> position;  // global position in the document
  std::vector<int32_t> token_ids;
  /// token_ids shifted left by one within the *whole* document before slicing; 0 where there is no
  /// next token.
  std::vector<int32_t> labels;

  int64_t rows() const { return static_cast<int64_t>(token_ids.size()); }
  int64_t real_rows() const;
};

/// Token ids of all samples a plan may refer to, by sample id.
using TokenRows = std::span<const std::vector<int32_t>>;

/// This rank's slice of `group`. `rank` is a pool rank and must be a member.
PackedBatch pack(const schedule::PlanGroup& group, int rank, int64_t tp, TokenRows tokens);

/// Per-token values of whole documents, sliced like token ids: out[row] = values[sample][position];
/// `pad` in pad rows and past the end of a shorter vector.
std::vector<double> pack_values(const PackedBatch& batch,
                                std::span<const std::vector<double>> values, double pad);

/// The inverse: writes values[sample][position] = local[row] for every real row of this rank.
void unpack_values(const PackedBatch& batch, std::span<const double> local,
                   std::span<std::vector<double>> values);

}  // namespace verlcpp::data
