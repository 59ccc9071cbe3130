#include "cuda/attention_plan_key.h"
#include "cuda/document_groups.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::cuda;
using Catch::Matchers::ContainsSubstring;

namespace {

using Lengths = std::vector<int32_t>;
const Lengths kQ{300, 0, 5, 129, 64, 7}, kKv{300, 40, 5, 600, 0, 128};

}  // namespace

TEST_CASE("all documents of a call are one group, empty ones too") {
  const auto groups = document_groups(kQ, kKv, false);
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].documents == 6);
  CHECK(groups[0].bucket == 8);
  CHECK(groups[0].q_bucket == 512);
  CHECK(groups[0].kv_bucket == 1024);
  CHECK(groups[0].order.empty());
}

TEST_CASE("by length, documents with both sides share a group with those of their buckets") {
  const auto groups = document_groups(kQ, kKv, true);
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].q_bucket == 128);
  CHECK(groups[0].kv_bucket == 128);
  CHECK(groups[0].order == Lengths{2, 5});
  CHECK(groups[0].bucket == 2);
  CHECK(groups[1].q_bucket == 256);
  CHECK(groups[1].kv_bucket == 1024);
  CHECK(groups[1].order == Lengths{3});
  CHECK(groups[2].q_bucket == 512);
  CHECK(groups[2].order == Lengths{0});
  CHECK(document_groups(Lengths{0, 3}, Lengths{4, 0}, true).empty());
}

TEST_CASE("a plan serves calls of its buckets; rows count in the backward alone") {
  AttentionCall call{.scale = 0.125,
                     .dtype = DType::kBFloat16,
                     .q_rows = 500,
                     .kv_rows = 1100,
                     .heads = 14,
                     .kv_heads = 2,
                     .head_dim = 64,
                     .q_lengths = kQ,
                     .kv_lengths = kKv};
  const auto key = [&] {
    return plan_key(call, document_groups(call.q_lengths, call.kv_lengths, false).front());
  };
  const AttentionPlanKey forward = key();
  call.q_rows = 700;
  CHECK(key() == forward);
  call.backward = true;
  const AttentionPlanKey backward = key();
  CHECK(backward.q_rows == 1024);
  CHECK(backward.kv_rows == 2048);
  call.q_rows = 1000;
  CHECK(key() == backward);
  call.q_rows = 1100;
  CHECK(key() != backward);
  CHECK_THAT(to_text(backward),
             ContainsSubstring("attention backward, causal, 14/2 heads of 64, up to 8 documents of "
                               "up to 512 rows against 1024, of 1024 against 2048 in all"));
  CHECK_THAT(to_text(forward), ContainsSubstring("against 1024"));
}

TEST_CASE("a length has a plan of its own where one document is the whole call") {
  const auto key_of = [](const Lengths& q, const Lengths& kv, int64_t q_rows, int64_t kv_rows) {
    return own_length_key({.q_rows = q_rows,
                           .kv_rows = kv_rows,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_dim = 64,
                           .q_lengths = q,
                           .kv_lengths = kv,
                           .backward = true});
  };
  const auto key = key_of({333}, {500}, 333, 500);
  REQUIRE(key.has_value());
  CHECK(key->q_length == 333);
  CHECK(key->kv_length == 500);
  CHECK_THAT(to_text(*key), ContainsSubstring("one document of 333 rows against 500"));
  CHECK_FALSE(key_of({333}, {500}, 334, 500).has_value());
  CHECK_FALSE(key_of({333}, {500}, 333, 512).has_value());
  CHECK_FALSE(key_of({333, 0}, {500, 0}, 333, 500).has_value());
}

namespace {

AttentionPlanKey key_of_length(int32_t length, bool backward, AttentionMask mask) {
  const Lengths lengths{length};
  return *own_length_key({.mask = mask,
                          .q_rows = length,
                          .kv_rows = length,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 64,
                          .q_lengths = lengths,
                          .kv_lengths = lengths,
                          .backward = backward});
}

}  // namespace

TEST_CASE("a plan of its own pays for a length whose calls have cost enough, once") {
  const auto causal = key_of_length(100, false, AttentionMask::kCausal);
  const auto full = key_of_length(100, false, AttentionMask::kNone);
  const auto backward = key_of_length(100, true, AttentionMask::kCausal);
  RepeatedLengths repeated({.passes = 1, .flops = 3 * 2.0 * 100 * 100 * 4 * 64});  // three causal
  CHECK_FALSE(repeated.pays(causal, true));
  CHECK_FALSE(repeated.pays(full, true));
  CHECK_FALSE(repeated.pays(causal, false));
  CHECK(repeated.pays(causal, false));
  CHECK_FALSE(repeated.pays(causal, false));
  CHECK(repeated.pays(full, false));  // each pair of rows costs, not half of them
  CHECK_FALSE(repeated.pays(backward, true));
  CHECK(repeated.pays(backward, false));  // five products instead of two
}

TEST_CASE("a plan of its own pays for a length that comes in several passes") {
  const auto key = key_of_length(100, false, AttentionMask::kCausal);
  RepeatedLengths repeated({.passes = 3, .flops = 0});
  for (int layer = 0; layer < 100; ++layer) CHECK_FALSE(repeated.pays(key, layer == 0));
  CHECK_FALSE(repeated.pays(key, true));
  CHECK_FALSE(repeated.pays(key, false));
  CHECK(repeated.pays(key, true));
  RepeatedLengths never(OwnLengthRule::never());
  for (int pass = 0; pass < 1000; ++pass) CHECK_FALSE(never.pays(key, true));
}

TEST_CASE(
    "only so many lengths get plans of their own, and long ones that never return take none") {
  RepeatedLengths repeated({.passes = 2, .flops = 0});
  const auto key = [](int32_t length) {
    return key_of_length(length, false, AttentionMask::kCausal);
  };
  int chosen = 0;
  for (int32_t n = 1; n <= 1000; ++n) chosen += repeated.pays(key(n), true) ? 1 : 0;
  CHECK(chosen == 0);
  for (int32_t n = 1; n <= 1000; ++n) chosen += repeated.pays(key(n), true) ? 1 : 0;
  CHECK(chosen == RepeatedLengths::kMost);
}
