#include <cmath>

#include "cpu/cpu_backend.h"
#include "model/context_parallel_attention.h"
#include "model/tiny_model.h"
#include "support/catch.h"

namespace verlcpp::test {
namespace {

std::vector<int32_t> ints(Backend& backend, const Tensor& x) {
  std::vector<int32_t> values(static_cast<size_t>(x.numel()));
  backend.read(std::as_writable_bytes(std::span(values)), x);
  return values;
}

schedule::Plan one_group(int cp, const Documents& documents) {
  return {cp, {{{whole_group(cp, documents)}}}};
}

constexpr model::TransformerOptions kRing{.cp_comm_type = model::CpCommType::kP2p};
constexpr model::TransformerOptions kAllGather{.cp_comm_type = model::CpCommType::kAllGather};

void check_same(const RunResult& result, const RunResult& wanted) {
  CHECK(difference(result.log_probs, wanted.log_probs) < 1e-10);
  CHECK(difference(result.entropies, wanted.entropies) < 1e-10);
  CHECK(relative_difference(result.gradient, wanted.gradient) < 1e-10);
}

}  // namespace

TEST_CASE("the ring's spans follow the zigzag layout") {
  // Ten tokens on two ranks: padded to 12, chunks of three. Rank 0 holds positions 0-2 and 9, rank
  // 1 holds 3-5 and 6-8.
  cpu::CpuBackend backend;
  const Documents documents{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
  const model::ContextParallelAttention attention(backend, nullptr);
  const auto plan = [&](int rank) {
    const auto batch = data::pack(schedule::PlanGroup{{4, 5}, {0}}, 4 + rank, 1, documents);
    return attention.plan(batch, {{4, 5}, rank});
  };
  const auto spans = [&](const model::RingStep& step) {
    return std::vector<int32_t>{ints(backend, step.block.spans.q_offset_S)[0],
                                ints(backend, step.block.spans.q_length_S)[0],
                                ints(backend, step.block.spans.kv_offset_S)[0],
                                ints(backend, step.block.spans.kv_length_S)[0]};
  };
  const model::AttentionPlan low = plan(0), high = plan(1);
  REQUIRE(low.steps.size() == 2);
  REQUIRE(high.steps.size() == 2);
  CHECK(low.rows == 6);
  CHECK(low.steps[0].block.mask == AttentionMask::kCausal);
  CHECK(spans(low.steps[0]) == std::vector<int32_t>{0, 4, 0, 4});
  CHECK(spans(high.steps[0]) == std::vector<int32_t>{0, 6, 0, 6});
  CHECK(low.steps[1].block.mask == AttentionMask::kNone);
  CHECK(low.steps[1].send_peer == 5);
  CHECK(low.steps[1].receive_peer == 5);
  CHECK(spans(low.steps[1]) == std::vector<int32_t>{3, 1, 0, 6});
  CHECK(spans(high.steps[1]) == std::vector<int32_t>{0, 6, 0, 3});
  CHECK(low.steps[1].block.spans.max_q_length == 1);
  CHECK(low.steps[1].block.spans.max_kv_length == 6);
}

TEST_CASE("the gathered rows' order and spans follow the zigzag layout") {
  // Ten and three tokens on two ranks, padded to 12 and 4: chunks of three and of one. Locally the
  // first document lies in rows 0-5, the second in 6 and 7.
  cpu::CpuBackend backend;
  const Documents documents{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1}};
  const model::ContextParallelAttention attention(backend, nullptr);
  using Ints = std::vector<int32_t>;
  for (const int rank : {0, 1}) {
    const auto batch = data::pack(schedule::PlanGroup{{4, 5}, {0, 1}}, 4 + rank, 1, documents);
    const auto plan = attention.plan(batch, {{4, 5}, rank}, model::CpCommType::kAllGather);
    REQUIRE(plan.gather);
    CHECK(plan.steps.empty());
    CHECK(ints(backend, plan.gather->order_G) ==
          Ints{0, 1, 2, 8, 9, 10, 11, 12, 13, 3, 4, 5, 6, 14, 15, 7});
    const auto check = [&](const AttentionSpans& spans, const Ints& q_offset, const Ints& q_length,
                           const Ints& kv_length) {
      CHECK(ints(backend, spans.q_offset_S) == q_offset);
      CHECK(ints(backend, spans.q_length_S) == q_length);
      CHECK(ints(backend, spans.kv_offset_S) == Ints{0, 12});
      CHECK(ints(backend, spans.kv_length_S) == kv_length);
    };
    if (rank == 0) {
      check(plan.gather->first.spans, {0, 6}, {3, 1}, {3, 1});
      check(plan.gather->second.spans, {3, 7}, {1, 0}, {10, 0});
      CHECK(ints(backend, plan.gather->second_rows_R) == Ints{3});
    } else {
      check(plan.gather->first.spans, {0, 6}, {3, 1}, {6, 2});
      check(plan.gather->second.spans, {3, 7}, {3, 1}, {9, 3});
      CHECK(ints(backend, plan.gather->second_rows_R) == Ints{3, 4, 5, 7});
    }
  }
  const auto alone = data::pack(schedule::PlanGroup{{4}, {0}}, 4, 1, documents);
  CHECK(!attention.plan(alone, {{4}, 0}, model::CpCommType::kAllGather).gather);
}

TEST_CASE("log-probs and gradient do not depend on the CP size") {
  const std::string kind = GENERATE("qwen2", "qwen3", "llama");
  const model::ModelConfig config = tiny_config(kind);
  const std::vector<int64_t> lengths = GENERATE(values<std::vector<int64_t>>({
      {1, 17, 2, 40, 5, 8},  // mixed: single token, odd, shorter than 2 cp, long
      {1},                   // most ranks hold no real row, no head row at all
      {3},                   // ranks without real rows next to ranks with some
      {24, 48},              // no padding for any CP size
  }));
  const Documents documents = random_documents(config, lengths);
  const RunResult wanted = run_plan(config, one_group(1, documents), 1, documents);
  for (const auto& [name, options] : {std::pair{"ring", kRing}, {"all-gather", kAllGather}}) {
    for (const int cp : {1, 2, 3, 4, 6}) {
      for (const int64_t tp : {1, 2}) {
        CAPTURE(kind, lengths, name, cp, tp);
        check_same(
            run_plan(config, one_group(cp, documents), tp, documents, DType::kFloat64, options),
            wanted);
      }
    }
  }
}

TEST_CASE("float32 keeps the layout's tolerance and is close to float64") {
  const model::ModelConfig config = tiny_config("qwen3");
  const Documents documents = random_documents(config, {21, 2, 33});
  const auto run = [&](int cp, DType dtype, const model::TransformerOptions& options = {}) {
    return run_plan(config, one_group(cp, documents), 1, documents, dtype, options);
  };
  const RunResult exact = run(1, DType::kFloat64), wanted = run(1, DType::kFloat32);
  CHECK(difference(wanted.log_probs, exact.log_probs) < 1e-4);
  CHECK(relative_difference(wanted.gradient, exact.gradient) < 1e-5);
  for (const int cp : {2, 3}) {
    for (const auto& options : {kRing, kAllGather}) {
      CAPTURE(cp);
      const RunResult result = run(cp, DType::kFloat32, options);
      CHECK(difference(result.log_probs, wanted.log_probs) < 1e-5);
      CHECK(relative_difference(result.gradient, wanted.gradient) < 1e-5);
    }
  }
}

TEST_CASE("groups of several sizes run side by side and one after the other") {
  const model::ModelConfig config = tiny_config("qwen3");
  const Documents documents = random_documents(config, {30, 4, 7, 19, 12, 3, 1});
  const RunResult wanted = run_plan(config, one_group(1, documents), 1, documents);
  // Micro-batch one: 1 + 3 ranks; two: 2 + 1 + 1 ranks; three: all four.
  const schedule::Plan plan{4,
                            {{{{{0}, {1}}, {{1, 2, 3}, {0, 6}}}},
                             {{{{0, 1}, {3}}, {{2}, {2}}, {{3}, {5}}}},
                             {{{{0, 1, 2, 3}, {4}}}}}};
  for (const auto& options : {kRing, kAllGather}) {
    check_same(run_plan(config, plan, 1, documents, DType::kFloat64, options), wanted);
  }
}

TEST_CASE("a CP group of several ranks needs a communicator") {
  const model::ModelConfig config = tiny_config("llama");
  cpu::CpuBackend backend;
  const model::ParameterLayout layout(config, 1);
  const model::ParameterBuffer weights(backend, layout, DType::kFloat64, MemoryTag::kWeights);
  const Documents documents = random_documents(config, {9});
  const model::ContextParallelAttention attention(backend, nullptr);
  for (const auto& options : {kRing, kAllGather}) {
    const model::Transformer transformer(backend, config, DType::kFloat64, nullptr, options);
    const RankBatch batch(transformer, whole_group(2, documents), 0, 1, documents);
    CHECK_THROWS_AS(transformer.forward(weights, batch.device(), attention), std::logic_error);
  }
}

TEST_CASE("a plan is refused for a batch packed for another group") {
  cpu::CpuBackend backend;
  const Documents documents{{1, 2, 3}};
  const auto batch = data::pack(schedule::PlanGroup{{0, 1}, {0}}, 0, 1, documents);
  const model::ContextParallelAttention attention(backend, nullptr);
  CHECK_NOTHROW(attention.plan(batch, {{0, 1}, 0}));
  CHECK_THROWS_AS(attention.plan(batch, {{0, 1}, 1}), std::logic_error);
  CHECK_THROWS_AS(attention.plan(batch, {{0}, 0}), std::logic_error);
}

}  // namespace verlcpp::test
