#include <algorithm>
#include <cmath>

#include "cpu/cpu_backend.h"
#include "model/parameters.h"
#include "model/tiny_model.h"
#include "parallel/thread_ranks.h"
#include "support/catch.h"

// The fused head (logits visited once, in chunks) against the plain one.

namespace verlcpp::test {
namespace {

struct HeadResult {
  TokenRecord trained;
  std::vector<double> inference, gradient;
  int64_t peak = 0, inference_peak = 0;  // bytes on top of weights and gradient
};

struct HeadCase {
  model::ModelConfig config;
  int64_t tokens = 12, rows = 0;  // of one document; the first `rows` are head rows
  int64_t tp = 1;
  DType dtype = DType::kFloat64;
};

int64_t bytes_of(const HeadCase& c, int64_t rows) {
  return rows * ((c.config.vocab + c.tp - 1) / c.tp) * size_of(c.dtype);
}

/// One rank's forward and backward, and a forward that keeps nothing.
HeadResult run_rank(const HeadCase& c, const model::TransformerOptions& options,
                    parallel::Communicator& tp) {
  cpu::CpuBackend backend;
  const model::Transformer transformer(backend, c.config, c.dtype, &tp, options);
  const model::ParameterLayout layout(c.config, 1, transformer.tp_place());
  const model::ParameterBuffer weights(backend, layout, c.dtype, MemoryTag::kWeights);
  const model::ParameterBuffer grad(backend, layout, c.dtype, MemoryTag::kMainGrad);
  model::initialize(backend, weights, 5);
  for (int i = 0; i < 3; ++i) backend.add(weights.flat(), weights.flat(), weights.flat());
  backend.fill_zero(grad.flat());

  const Documents documents = random_documents(c.config, {c.tokens});
  const auto packed = data::pack(whole_group(1, documents), 0, c.tp, documents);
  std::vector<int32_t> head_rows;
  std::vector<double> temperature, d_log_prob, d_entropy;
  for (int32_t row = 0; row < packed.rows(); ++row) {
    temperature.push_back(0.5 + 0.25 * (row % 4));
    if (row >= c.rows) continue;
    head_rows.push_back(row);
    d_log_prob.push_back(std::sin(1 + row));
    d_entropy.push_back(std::cos(3 * row));
  }
  const model::DeviceBatch batch = transformer.upload(packed, {{0}, 0}, head_rows, temperature);
  const model::ContextParallelAttention attention(backend, nullptr);
  HeadResult result;
  backend.reset_peak_bytes();
  const int64_t before = backend.peak_bytes().total;
  result.inference = download(backend, transformer.forward(weights, batch, attention).log_prob_R);
  result.inference_peak = backend.peak_bytes().total - before;
  backend.reset_peak_bytes();
  transformer.train(weights, batch, attention, {},
                    linear_loss(backend, d_log_prob, d_entropy, &result.trained), grad);
  result.peak = backend.peak_bytes().total - before;
  result.gradient = download(backend, grad.flat());
  return result;
}

std::vector<HeadResult> run_head(const HeadCase& c, bool fused, int64_t chunk_bytes) {
  std::vector<HeadResult> ranks(static_cast<size_t>(c.tp));
  parallel::run_thread_ranks(
      {.world = c.tp, .tp = c.tp},
      [&](const parallel::Topology& me, const parallel::RankCommunicators& comms) {
        ranks[static_cast<size_t>(me.rank())] =
            run_rank(c, {.fused_head = fused, .head_chunk_bytes = chunk_bytes}, comms.tp);
      });
  return ranks;
}

void check_same(const HeadResult& got, const HeadResult& want, double tolerance) {
  CHECK(relative_difference(got.trained.log_prob, want.trained.log_prob) < tolerance);
  CHECK(relative_difference(got.trained.entropy, want.trained.entropy) < tolerance);
  CHECK(relative_difference(got.inference, want.inference) < tolerance);
  CHECK(relative_difference(got.gradient, want.gradient) < tolerance);
}

}  // namespace

TEST_CASE("the fused head gives the plain head's numbers, whatever the chunk") {
  for (const std::string kind : {"qwen3", "llama"}) {  // tied and untied embeddings
    for (const int64_t tp : {1, 2}) {                  // with two, parts of 6 and 7 tokens
      for (const auto& [dtype, tolerance] :
           {std::pair{DType::kFloat64, 1e-12}, {DType::kFloat32, 1e-5}}) {
        for (const int64_t rows : {0, 1, 4, 5, 7, 11}) {
          const HeadCase c{.config = tiny_config(kind), .rows = rows, .tp = tp, .dtype = dtype};
          const auto want = run_head(c, false, int64_t{1} << 30);
          // With six rows of the wider part, the narrower one holds seven.
          for (const int64_t chunk : {1, 3, 4, 6, 8, 11, 18, 50}) {  // half of it when fused
            CAPTURE(kind, tp, name_of(dtype), rows, chunk);
            const auto got = run_head(c, true, bytes_of(c, chunk));
            const auto plain = run_head(c, false, bytes_of(c, chunk));
            for (size_t rank = 0; rank < want.size(); ++rank) {
              check_same(got[rank], want[rank], tolerance);
              check_same(plain[rank], want[rank], tolerance);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a head's chunks are what its bytes hold, in whole tiles where there are some") {
  const auto chunks = model::head_chunks(151936, DType::kBFloat16, int64_t{1} << 30);
  CHECK(chunks.rows == 1664);        // 1766 of float32
  CHECK(chunks.fused_rows == 1664);  // twice that of bfloat16
  CHECK(model::head_chunks(151936, DType::kFloat64, int64_t{1} << 30).rows == 768);        // 883
  CHECK(model::head_chunks(151936, DType::kFloat32, int64_t{1} << 30).fused_rows == 768);  // 883
  CHECK(model::head_chunks(10, DType::kFloat32, 400).rows == 10);
  CHECK(model::head_chunks(10, DType::kFloat32, 39).rows == 1);
  CHECK(model::head_chunks(10, DType::kFloat32, 39).fused_rows == 1);
  // A twentieth of the logits of 16 384 tokens.
  const auto qwen =
      model::head_chunks(151936, DType::kBFloat16, model::TransformerOptions{}.head_chunk_bytes);
  CHECK(2 * qwen.fused_rows * 2 * 20 <= 16384 * 4);
  CHECK(qwen.fused_rows == 768);
}

TEST_CASE("a pair of chunks holds all rows of a head that is not fused, in whole tiles of 256") {
  const model::HeadChunks chunks{.rows = 1, .fused_rows = 100};
  for (const auto& [rows, half] : {std::pair<int64_t, int64_t>{0, 0},
                                   {1, 1},
                                   {256, 256},
                                   {257, 256},
                                   {512, 256},
                                   {513, 512},
                                   {16364, 8192}}) {
    CAPTURE(rows);
    CHECK(chunks.of_pair(rows, false) == half);
    CHECK(2 * chunks.of_pair(rows, false) >= rows);
    CHECK(chunks.of_pair(rows, true) == std::min<int64_t>(rows, 100));
  }
}

TEST_CASE("the second of two large chunks counts as the first") {
  const HeadCase c{.config = tiny_config("llama"), .tokens = 301, .rows = 300};
  const HeadResult two = run_head(c, false, int64_t{1} << 30)[0];
  check_same(run_head(c, true, bytes_of(c, 2 * 300))[0], two, 1e-12);  // one chunk
  check_same(run_head(c, true, bytes_of(c, 2 * 70))[0], two, 1e-12);
}

TEST_CASE("the head holds one chunk of logits, the plain one also what backward reads") {
  HeadCase c{.config = tiny_config("llama"), .tokens = 65, .rows = 64};
  c.config.vocab = 4001;
  const int64_t chunk = 12, row = bytes_of(c, 1);  // fused: twice six rows
  const HeadResult plain = run_head(c, false, bytes_of(c, chunk))[0];
  const HeadResult fused = run_head(c, true, bytes_of(c, chunk))[0];
  check_same(fused, plain, 1e-12);
  CHECK(plain.peak > 64 * row);
  CHECK(fused.peak < plain.peak - (64 - chunk) * row);
  CHECK(plain.inference_peak < 2 * chunk * row);
  CHECK(fused.inference_peak < 2 * chunk * row);
}

}  // namespace verlcpp::test
