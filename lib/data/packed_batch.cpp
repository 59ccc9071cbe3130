#include "data/packed_batch.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace verlcpp::data {

namespace {

/// Appends `count` rows of one document from global position `first` on; positions past its real
/// length become pads.
void append_rows(PackedBatch& batch, int32_t document, const std::vector<int32_t>& tokens,
                 int64_t first, int64_t count) {
  const auto length = static_cast<int64_t>(tokens.size());
  for (int64_t position = first; position < first + count; ++position) {
    const bool real = position < length;
    const bool has_next = position + 1 < length;
    batch.document.push_back(real ? document : -1);
    batch.position.push_back(real ? static_cast<int32_t>(position) : 0);
    batch.token_ids.push_back(real ? tokens[static_cast<size_t>(position)] : 0);
    batch.labels.push_back(has_next ? tokens[static_cast<size_t>(position + 1)] : 0);
  }
}

void append_document(PackedBatch& batch, int sample, int64_t tp,
                     const std::vector<int32_t>& tokens) {
  const auto length = static_cast<int64_t>(tokens.size());
  expects(length >= 1, "pack: every sample has at least one token");
  const int64_t padded = schedule::padded_length(length, tp, batch.cp);
  const int64_t end = batch.cu_seqlens_padded.back() + padded;
  expects(end <= std::numeric_limits<int32_t>::max(), "pack: more than 2^31 - 1 padded tokens");
  const auto document = static_cast<int32_t>(batch.sample_ids.size());
  batch.sample_ids.push_back(sample);
  batch.lengths.push_back(static_cast<int32_t>(length));
  batch.local_offset.push_back(static_cast<int32_t>(batch.cu_seqlens_padded.back() / batch.cp));
  batch.local_length.push_back(
      static_cast<int32_t>(schedule::shard_tokens(length, tp, batch.cp, batch.cp_index)));
  batch.cu_seqlens_padded.push_back(static_cast<int32_t>(end));
  if (batch.cp == 1) {
    append_rows(batch, document, tokens, 0, padded);
    return;
  }
  const int64_t chunk = padded / (2 * batch.cp);
  append_rows(batch, document, tokens, batch.cp_index * chunk, chunk);
  append_rows(batch, document, tokens, (2 * batch.cp - 1 - batch.cp_index) * chunk, chunk);
}

size_t sample_of(const PackedBatch& batch, int32_t document) {
  return static_cast<size_t>(batch.sample_ids[static_cast<size_t>(document)]);
}

}  // namespace

int64_t PackedBatch::real_rows() const {
  int64_t sum = 0;
  for (int32_t length : local_length) sum += length;
  return sum;
}

PackedBatch pack(const schedule::PlanGroup& group, int rank, int64_t tp, TokenRows tokens) {
  const auto member = std::find(group.ranks.begin(), group.ranks.end(), rank);
  expects(member != group.ranks.end(), "pack: the rank is not a member of the group");
  PackedBatch batch;
  batch.cp = static_cast<int64_t>(group.ranks.size());
  batch.cp_index = member - group.ranks.begin();
  batch.cu_seqlens_padded.push_back(0);
  for (int sample : group.samples) {
    expects(sample >= 0 && static_cast<size_t>(sample) < tokens.size(),
            "pack: the plan names a sample that does not exist");
    append_document(batch, sample, tp, tokens[static_cast<size_t>(sample)]);
  }
  return batch;
}

std::vector<double> pack_values(const PackedBatch& batch,
                                std::span<const std::vector<double>> values, double pad) {
  std::vector<double> out(batch.document.size(), pad);
  for (size_t row = 0; row < out.size(); ++row) {
    if (batch.document[row] < 0) continue;
    const size_t sample = sample_of(batch, batch.document[row]);
    expects(sample < values.size(), "pack_values: no values for a sample of the batch");
    const auto position = static_cast<size_t>(batch.position[row]);
    if (position < values[sample].size()) out[row] = values[sample][position];
  }
  return out;
}

void unpack_values(const PackedBatch& batch, std::span<const double> local,
                   std::span<std::vector<double>> values) {
  expects(local.size() == batch.document.size(), "unpack_values: one value per local row");
  for (size_t row = 0; row < local.size(); ++row) {
    if (batch.document[row] < 0) continue;
    const size_t sample = sample_of(batch, batch.document[row]);
    const auto position = static_cast<size_t>(batch.position[row]);
    expects(sample < values.size() && position < values[sample].size(),
            "unpack_values: no room for a position of the batch");
    values[sample][position] = local[row];
  }
}

}  // namespace verlcpp::data
