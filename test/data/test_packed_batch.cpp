#include <numeric>

#include "data/packed_batch.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::data;

namespace {

using Tokens = std::vector<std::vector<int32_t>>;
using Values = std::vector<std::vector<double>>;

/// Token t of sample s is 1000 * (s + 1) + t: never 0, and different everywhere.
Tokens tokens_of(const std::vector<int64_t>& lengths) {
  Tokens tokens;
  for (size_t s = 0; s < lengths.size(); ++s) {
    auto& row = tokens.emplace_back(static_cast<size_t>(lengths[s]));
    std::iota(row.begin(), row.end(), static_cast<int32_t>(1000 * (s + 1)));
  }
  return tokens;
}

/// A group on ranks 3, 4, ..., so that a pool rank is not its index in the group.
schedule::PlanGroup group_of(int cp, std::vector<int> samples) {
  schedule::PlanGroup group;
  for (int i = 0; i < cp; ++i) group.ranks.push_back(3 + i);
  group.samples = std::move(samples);
  return group;
}

Values zeros_like(const Tokens& tokens) {
  Values values;
  for (const auto& row : tokens) values.emplace_back(row.size(), 0.0);
  return values;
}

/// Offsets, counts and the place of pads in one rank's part.
void check_layout(const PackedBatch& batch, int64_t tp) {
  const size_t documents = batch.sample_ids.size();
  REQUIRE(batch.cu_seqlens_padded.size() == documents + 1);
  REQUIRE(batch.rows() * batch.cp == batch.cu_seqlens_padded.back());
  REQUIRE(batch.document.size() == batch.token_ids.size());
  REQUIRE(batch.position.size() == batch.token_ids.size());
  REQUIRE(batch.labels.size() == batch.token_ids.size());
  int64_t real = 0;
  for (size_t i = 0; i < documents; ++i) {
    const int32_t padded = batch.cu_seqlens_padded[i + 1] - batch.cu_seqlens_padded[i];
    REQUIRE(padded == schedule::padded_length(batch.lengths[i], tp, batch.cp));
    REQUIRE(batch.local_offset[i] * batch.cp == batch.cu_seqlens_padded[i]);
    for (int64_t j = 0; j < padded / batch.cp; ++j) {
      const auto row = static_cast<size_t>(batch.local_offset[i] + j);
      const bool is_real = j < batch.local_length[i];
      REQUIRE(batch.document[row] == (is_real ? static_cast<int32_t>(i) : -1));
      if (is_real) continue;
      REQUIRE(batch.position[row] == 0);
      REQUIRE(batch.token_ids[row] == 0);
      REQUIRE(batch.labels[row] == 0);
    }
    real += batch.local_length[i];
  }
  REQUIRE(batch.real_rows() == real);
}

/// Every real row shows its document's token and the next one; marks the rows in `seen`.
void check_rows(const PackedBatch& batch, const Tokens& tokens, Values& seen) {
  for (size_t row = 0; row < batch.document.size(); ++row) {
    if (batch.document[row] < 0) continue;
    const auto sample =
        static_cast<size_t>(batch.sample_ids[static_cast<size_t>(batch.document[row])]);
    const auto position = static_cast<size_t>(batch.position[row]);
    const auto& whole = tokens[sample];
    REQUIRE(batch.token_ids[row] == whole.at(position));
    REQUIRE(batch.labels[row] == (position + 1 < whole.size() ? whole[position + 1] : 0));
    seen[sample][position] += 1;
  }
}

}  // namespace

TEST_CASE("Two ranks hold a document zigzag, with labels across the cuts") {
  // 7 tokens padded to 8, chunks of 2: rank 0 has positions 0 1 | 6 pad, rank 1 has 2 3 | 4 5.
  const Tokens tokens = {{10, 11, 12, 13, 14, 15, 16}};
  const PackedBatch first = pack(group_of(2, {0}), 3, 1, tokens);
  CHECK(first.cp == 2);
  CHECK(first.cp_index == 0);
  CHECK(first.token_ids == std::vector<int32_t>{10, 11, 16, 0});
  CHECK(first.labels == std::vector<int32_t>{11, 12, 0, 0});
  CHECK(first.position == std::vector<int32_t>{0, 1, 6, 0});
  CHECK(first.document == std::vector<int32_t>{0, 0, 0, -1});
  CHECK(first.local_length == std::vector<int32_t>{3});
  CHECK(first.cu_seqlens_padded == std::vector<int32_t>{0, 8});
  const PackedBatch second = pack(group_of(2, {0}), 4, 1, tokens);
  CHECK(second.cp_index == 1);
  CHECK(second.token_ids == std::vector<int32_t>{12, 13, 14, 15});
  CHECK(second.labels == std::vector<int32_t>{13, 14, 15, 16});
}

TEST_CASE("One rank holds whole documents, padded to TP, in pack order") {
  const Tokens tokens = {{1, 2, 3}, {4}, {5, 6}};
  const PackedBatch batch = pack(group_of(1, {2, 0}), 3, 2, tokens);
  CHECK(batch.sample_ids == std::vector<int>{2, 0});
  CHECK(batch.cu_seqlens_padded == std::vector<int32_t>{0, 2, 6});
  CHECK(batch.local_offset == std::vector<int32_t>{0, 2});
  CHECK(batch.token_ids == std::vector<int32_t>{5, 6, 1, 2, 3, 0});
  CHECK(batch.labels == std::vector<int32_t>{6, 0, 2, 3, 0, 0});
  CHECK(batch.document == std::vector<int32_t>{0, 0, 1, 1, 1, -1});
}

TEST_CASE("The parts of a group's ranks are the batch, each token once") {
  for (int64_t tp : {1, 2}) {
    for (int cp = 1; cp <= 8; ++cp) {
      INFO("tp " << tp << ", cp " << cp);
      const int64_t unit = schedule::alignment(tp, cp);
      const std::vector<int64_t> lengths = {1,        2 * cp - 1,   2 * cp, 17,          unit,
                                            3 * unit, 3 * unit + 1, 2,      3 * unit - 1};
      const Tokens tokens = tokens_of(lengths);
      Values seen = zeros_like(tokens);
      const schedule::PlanGroup group = group_of(cp, {8, 0, 3, 1, 2, 6, 4, 5});  // not 7
      for (int rank : group.ranks) {
        const PackedBatch batch = pack(group, rank, tp, tokens);
        check_layout(batch, tp);
        check_rows(batch, tokens, seen);
      }
      for (size_t s = 0; s < seen.size(); ++s) {
        for (double times : seen[s]) REQUIRE(times == (s == 7 ? 0 : 1));
      }
    }
  }
}

TEST_CASE("Values go out and come back") {
  for (int cp = 1; cp <= 8; ++cp) {
    INFO("cp " << cp);
    const Tokens tokens = tokens_of({1, 5, 16, 33});
    Values values = zeros_like(tokens);
    for (size_t s = 0; s < values.size(); ++s) {
      for (size_t t = 0; t < values[s].size(); ++t) values[s][t] = 0.5 + tokens[s][t];
    }
    Values back = zeros_like(tokens);
    const schedule::PlanGroup group = group_of(cp, {2, 0, 3, 1});
    for (int rank : group.ranks) {
      const PackedBatch batch = pack(group, rank, 1, tokens);
      const std::vector<double> local = pack_values(batch, values, -7);
      for (size_t row = 0; row < local.size(); ++row) {
        REQUIRE(local[row] == (batch.document[row] < 0 ? -7 : 0.5 + batch.token_ids[row]));
      }
      unpack_values(batch, local, back);
    }
    CHECK(back == values);
  }
}

TEST_CASE("A shorter vector of values is continued with the pad value") {
  const Tokens tokens = {{10, 11, 12, 13}};
  const PackedBatch batch = pack(group_of(1, {0}), 3, 1, tokens);
  CHECK(pack_values(batch, Values{{1, 2}}, 9) == std::vector<double>{1, 2, 9, 9});
}

TEST_CASE("A group without samples packs to nothing") {
  const PackedBatch batch = pack(group_of(2, {}), 4, 1, Tokens{});
  CHECK(batch.rows() == 0);
  CHECK(batch.real_rows() == 0);
  CHECK(batch.cu_seqlens_padded == std::vector<int32_t>{0});
}

TEST_CASE("Packing refuses what no plan may ask for") {
  const Tokens tokens = {{1, 2}, {}};
  CHECK_THROWS_AS(pack(group_of(2, {0}), 5, 1, tokens), std::logic_error);   // not a member
  CHECK_THROWS_AS(pack(group_of(2, {2}), 3, 1, tokens), std::logic_error);   // no such sample
  CHECK_THROWS_AS(pack(group_of(2, {-1}), 3, 1, tokens), std::logic_error);  // no such sample
  CHECK_THROWS_AS(pack(group_of(2, {1}), 3, 1, tokens), std::logic_error);   // empty
  const PackedBatch batch = pack(group_of(1, {0}), 3, 1, tokens);
  Values room = {{0.0}};
  CHECK_THROWS_AS(unpack_values(batch, std::vector<double>{1, 2}, room), std::logic_error);
  CHECK_THROWS_AS(unpack_values(batch, std::vector<double>{1}, room), std::logic_error);
}
