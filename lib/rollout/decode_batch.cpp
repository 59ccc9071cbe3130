#include "rollout/decode_batch.h"

#include <algorithm>

#include "base/error.h"

namespace verlcpp::rollout {

int64_t bucket_of(int64_t active, int64_t slots) {
  int64_t rows = 8;
  while (rows < active) rows = rows * 3 / 2 >= active ? rows * 3 / 2 : rows * 2;
  return std::min(rows, slots);
}

DecodeBatch::DecodeBatch(Backend& backend, DType statistics, int64_t slots, int64_t table_length)
    : backend_(backend), slots_(slots), table_length_(table_length) {
  const auto ints = [&](Shape shape) {
    Tensor x = backend.allocate(DType::kInt32, std::move(shape), MemoryTag::kWorkspace);
    backend.fill_zero(x);
    return x;
  };
  ids_ = ints({slots});
  positions_ = ints({slots});
  counters_ = ints({slots, 4});
  tables_ = ints({slots, table_length});
  log_prob_ = backend.allocate(statistics, {slots}, MemoryTag::kWorkspace);
}

KvPages DecodeBatch::pages() const {
  return {.tables_BM = tables_.rows(0, rows_),
          .positions_B = positions_.rows(0, rows_),
          .block = model::kKvBlock};
}

void DecodeBatch::lay_out(std::span<const Sequence> active, std::span<const Request> requests,
                          uint32_t step) {
  rows_ = bucket_of(static_cast<int64_t>(active.size()), slots_);
  const auto rows = static_cast<size_t>(rows_), width = static_cast<size_t>(table_length_);
  std::vector<int32_t> positions(rows, -1), counters(4 * rows, 0), tables(rows * width, 0);
  for (size_t i = 0; i < active.size(); ++i) {
    const Sequence& s = active[i];
    const Request& r = requests[s.request];
    positions[i] = static_cast<int32_t>(r.prompt_ids.size()) - 1 + s.made;
    const uint32_t words[] = {step, r.sample, r.response, static_cast<uint32_t>(s.made)};
    std::copy_n(words, 4, counters.begin() + static_cast<int64_t>(4 * i));
    std::copy(s.table.begin(), s.table.end(), tables.begin() + static_cast<int64_t>(i * width));
  }
  const auto write = [&](const Tensor& x, const std::vector<int32_t>& values) {
    backend_.write(x.rows(0, rows_), std::as_bytes(std::span(values)));
  };
  write(positions_, positions);
  write(counters_, counters);
  write(tables_, tables);
  move_ids(active, requests);
}

/// The tokens of sequences that stay are on the device alone.
void DecodeBatch::move_ids(std::span<const Sequence> active, std::span<const Request> requests) {
  std::vector<int32_t> from(static_cast<size_t>(rows_), 0), fresh_ids, fresh_rows;
  std::vector<size_t> now;
  bool moved = false;
  auto old = requests_.cbegin();
  for (size_t i = 0; i < active.size(); ++i) {
    const size_t request = active[i].request;
    now.push_back(request);
    if (active[i].made == 0) {
      fresh_ids.push_back(requests[request].prompt_ids.back());
      fresh_rows.push_back(static_cast<int32_t>(i));
      continue;
    }
    old = std::find(old, requests_.cend(), request);  // both in order of request
    expects(old != requests_.cend(), "a sequence without a row");
    from[i] = static_cast<int32_t>(old - requests_.cbegin());
    moved = moved || from[i] != static_cast<int32_t>(i);
  }
  const auto up = [&](const std::vector<int32_t>& values, Shape shape) {
    return upload<int32_t>(backend_, values, std::move(shape), MemoryTag::kWorkspace);
  };
  const Tensor ids_B1 = ids_.view({slots_, 1});
  if (moved) {
    const Tensor gathered = backend_.allocate(DType::kInt32, {rows_, 1}, MemoryTag::kWorkspace);
    backend_.gather_rows(gathered, ids_B1, up(from, {rows_}));
    backend_.copy(ids_B1.rows(0, rows_), gathered);
  }
  if (!fresh_ids.empty()) {
    const auto count = static_cast<int64_t>(fresh_ids.size());
    backend_.scatter_rows(ids_B1, up(fresh_ids, {count, 1}), up(fresh_rows, {count}));
  }
  requests_ = std::move(now);
}

}  // namespace verlcpp::rollout
