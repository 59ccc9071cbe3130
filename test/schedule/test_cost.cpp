#include <cmath>

#include "schedule/cost.h"
#include "schedule/default_dynamic_cp.h"
#include "schedule/static_cp.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::schedule;

TEST_CASE("the cost of a document: padded rows and its share of the attention") {
  const CostModel model{.linear = 10, .quadratic = 2};
  CHECK(document_cost(model, 5, 1, 1) == 10 * 5 + 2 * 25);
  // Five tokens on two ranks are eight rows: alignment 4.
  CHECK(document_cost(model, 5, 1, 2) == (10 * 8 + 2 * 25) / 2.0);
  // TP 2, one rank: six rows.
  CHECK(document_cost(model, 5, 2, 1) == 10 * 6 + 2 * 25);
  // The default is verl's workload.
  CHECK(document_cost({}, 100, 1, 1) == workload(100));
}

TEST_CASE("the costs of a group are its counts times the terms, whatever they are") {
  const CostModel model{.micro_batch = 3,
                        .document = 1.5,
                        .linear = 0.25,
                        .quadratic = 0.125,
                        .exchange = 7,
                        .exchanged = 0.5};
  const std::vector<int64_t> lengths = {1, 17, 4096, 999};
  const auto terms = model.terms();
  for (const int64_t tp : {1, 2, 4}) {
    for (const int64_t cp : {1, 2, 3, 8}) {
      const auto counts = cost_counts(lengths, tp, cp);
      double by_counts = 0;
      for (size_t i = 0; i < terms.size(); ++i) by_counts += counts[i] * terms[i];
      double by_documents = group_overhead(model, cp);
      for (int64_t length : lengths) by_documents += document_cost(model, length, tp, cp);
      CHECK(std::abs(by_documents / by_counts - 1) < 1e-12);
    }
  }
}

TEST_CASE("the cost of a group: what it has of each term") {
  const CostModel model{.micro_batch = 1000,
                        .document = 100,
                        .linear = 10,
                        .quadratic = 2,
                        .exchange = 7,
                        .exchanged = 0.5};
  const std::vector<int64_t> lengths = {5, 4};
  // On three ranks with TP 1 five tokens are six rows, two a rank, and so are four.
  const std::array<double, 6> counts = cost_counts(lengths, 1, 3), want{1, 2, 4, 41 / 3.0, 2, 8};
  for (size_t i = 0; i < want.size(); ++i) CHECK(std::abs(counts[i] - want[i]) < 1e-12);
  const double by_hand = 1000 + 200 + 40 + 2 * 41 / 3.0 + 14 + 4;
  const double got = group_cost(model, {{0, 1, 2}, {0, 1}}, lengths, 1);
  CHECK(std::abs(got - by_hand) < 1e-9);
  CHECK(group_cost(model, {{0, 1, 2}, {}}, lengths, 1) == 0);
  CHECK(cost_counts({}, 1, 3) == std::array<double, 6>{});
  CHECK(CostModel::of(model.terms()) == model);
}

TEST_CASE("costs of a plan go to every rank of a group") {
  const CostModel model{.linear = 1, .quadratic = 1};
  const std::vector<int64_t> lengths = {8, 3, 2};
  const Plan plan{
      .pool = 4,
      .micro_batches = {{{{{0, 1}, {0}}, {{2}, {1}}, {{3}, {2}}}}, {{{{0, 1, 2, 3}, {}}}}}};
  // (8 + 64) / 2 on ranks 0 and 1; 3 + 9; 2 + 4; the empty group costs nothing.
  CHECK(rank_costs(model, plan, lengths, 1) == std::vector<double>{36, 36, 12, 6});
}

TEST_CASE("a group starts when the last of its ranks is free") {
  const CostModel model{.linear = 1, .quadratic = 0};
  const std::vector<int64_t> lengths = {8, 3, 2, 5};
  // 8 and 3 side by side, then 2 on both after the 8, then 5 on rank 0 alone.
  const Plan plan{
      .pool = 2,
      .micro_batches = {{{{{0}, {0}}, {{1}, {1}}}}, {{{{0, 1}, {2}}}}, {{{{0}, {3}}, {{1}, {}}}}}};
  CHECK(makespan(model, plan, lengths, 1) == 8 + 4 / 2.0 + 5);
}

TEST_CASE("imbalance is largest over mean") {
  CHECK(imbalance(std::vector<double>{2, 2, 2}) == 1);
  CHECK(imbalance(std::vector<double>{4, 0, 0, 0}) == 4);
  CHECK(imbalance(std::vector<double>{3, 1}) == 1.5);
  CHECK(imbalance(std::vector<double>{0, 0}) == 1);
}

TEST_CASE("dynamic CP and balanced packing beat packing in order by this measure") {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 40; ++i) lengths.push_back(100 + i * i * 977 % 4000);
  const auto of = [&](const Plan& plan) { return imbalance(rank_costs({}, plan, lengths, 1)); };
  StaticCpOptions options{.dp = 4, .cp = 2, .token_budget = 8192};
  const double balanced = of(schedule_static_cp(lengths, options));
  options.packing = Packing::kInOrder;
  CHECK(balanced < of(schedule_static_cp(lengths, options)));
  CHECK(of(schedule_default_dynamic_cp(lengths, {.pool = 8, .max_seqlen_per_rank = 4096})) < 1.3);
}
