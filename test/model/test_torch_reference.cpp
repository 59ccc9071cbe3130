// Against PyTorch in float64 (scripts/make_reference.py): logits, log-probs, entropies, loss, every
// gradient and ten training steps of tiny Qwen2, Qwen3 and Llama models.

#include <cmath>

#include "base/error.h"
#include "cpu/cpu_backend.h"
#include "model/linear_loss.h"
#include "model/reference_vectors.h"
#include "model/transformer.h"
#include "model/weights_io.h"
#include "parallel/thread_ranks.h"
#include "support/catch.h"
#include "train/optimizer.h"

using namespace verlcpp;
using namespace verlcpp::model;
using test::linear_loss;
using test::relative_error;
using test::TokenRecord;
using test::Vectors;

namespace {

constexpr double kTolerance = 1e-9;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The documents of the vectors, packed on one rank.
data::PackedBatch pack_documents(const Vectors& vectors) {
  const std::vector<int32_t> ids = vectors.ints("token_ids");
  std::vector<std::vector<int32_t>> documents;
  schedule::PlanGroup group;
  group.ranks = {0};
  auto next = ids.begin();
  for (const int32_t length : vectors.ints("lengths")) {
    group.samples.push_back(static_cast<int>(documents.size()));
    documents.emplace_back(next, next + length);
    next += length;
  }
  return data::pack(group, 0, 1, documents);
}

/// A model from its folder with the batch of its vectors.
class Fixture {
 public:
  explicit Fixture(const std::string& name)
      : folder_(std::string(VERLCPP_REFERENCE) + "/" + name),
        vectors(folder_ + "/reference.safetensors"),
        config(read_model_config(folder_)),
        layout(config, 1),
        weights(backend, layout, DType::kFloat64, MemoryTag::kWeights),
        grad(backend, layout, DType::kFloat64, MemoryTag::kMainGrad),
        transformer(backend, config, DType::kFloat64),
        attention(backend, nullptr),
        packed(pack_documents(vectors)) {
    load_hf_weights(backend, folder_, weights);
    batch = upload(vectors.ints("head_rows"));
    d_log_prob = vectors.doubles("weight_log_prob");
    d_entropy = vectors.doubles("weight_entropy");
  }

  DeviceBatch upload(const std::vector<int32_t>& head_rows) const {
    const double temperature = vectors.doubles("temperature")[0];
    const std::vector<double> row_temperature(static_cast<size_t>(packed.rows()), temperature);
    const parallel::CpGroup alone{.ranks = {0}, .index = 0};
    return transformer.upload(packed, alone, head_rows, row_temperature);
  }

  std::vector<double> host(const Tensor& x) { return download(backend, x); }

  double loss(const TokenRecord& tokens) const {
    return dot(d_log_prob, tokens.log_prob) + dot(d_entropy, tokens.entropy);
  }

  /// Loss before the step; the gradient is left in `grad`.
  double forward_backward() {
    TokenRecord trained;
    backend.fill_zero(grad.flat());
    transformer.train(weights, batch, attention, {},
                      linear_loss(backend, d_log_prob, d_entropy, &trained), grad);
    return loss(trained);
  }

  /// Calls visit(hf name, our values) for every Hugging Face tensor of `buffer`.
  template <class Visit>
  void for_each_piece(const ParameterBuffer& buffer, Visit visit) {
    for (const ParamSpec& spec : layout.specs()) {
      for (const HfPiece& piece : spec.pieces) {
        visit(piece.hf_name, host(buffer.at(spec.name).rows(piece.row, piece.shape[0])));
      }
    }
  }

 private:
  std::string folder_;

 public:
  Vectors vectors;
  cpu::CpuBackend backend;
  ModelConfig config;
  ParameterLayout layout;
  ParameterBuffer weights, grad;
  Transformer transformer;
  ContextParallelAttention attention;
  data::PackedBatch packed;
  DeviceBatch batch;
  std::vector<double> d_log_prob, d_entropy;
};

}  // namespace

TEST_CASE("logits, log-probs, entropies and loss equal PyTorch's") {
  const std::string name =
      GENERATE("qwen2", "qwen3", "llama", "mistral", "llama3", "linear", "yarn");
  INFO(name);
  Fixture f(name);
  std::vector<int32_t> all_rows(static_cast<size_t>(f.packed.rows()));
  for (size_t i = 0; i < all_rows.size(); ++i) all_rows[i] = static_cast<int32_t>(i);
  const Tensor logits = f.transformer.logits(f.weights, f.upload(all_rows), f.attention);
  CHECK(relative_error(f.host(logits), f.vectors.doubles("logits")) < kTolerance);

  std::vector<int32_t> labels;
  for (const int32_t row : f.vectors.ints("head_rows")) {
    labels.push_back(f.packed.labels[static_cast<size_t>(row)]);
  }
  CHECK(labels == f.vectors.ints("labels"));
  const TokenOutputs out = f.transformer.forward(f.weights, f.batch, f.attention);
  const TokenRecord tokens{f.host(out.log_prob_R), f.host(out.entropy_R)};
  CHECK(relative_error(tokens.log_prob, f.vectors.doubles("log_prob")) < kTolerance);
  CHECK(relative_error(tokens.entropy, f.vectors.doubles("entropy")) < kTolerance);
  CHECK(relative_error({f.loss(tokens)}, f.vectors.doubles("loss")) < kTolerance);
}

TEST_CASE("every gradient equals PyTorch's") {
  const std::string name =
      GENERATE("qwen2", "qwen3", "llama", "mistral", "llama3", "linear", "yarn");
  Fixture f(name);
  f.forward_backward();
  f.for_each_piece(f.grad, [&](const std::string& hf_name, const std::vector<double>& ours) {
    INFO(name << " " << hf_name);
    const std::vector<double> theirs = f.vectors.doubles("grad." + hf_name);
    CHECK(relative_error(ours, theirs) < kTolerance);
  });
}

TEST_CASE("ten AdamW steps give PyTorch's losses, norms and weights") {
  const std::string name =
      GENERATE("qwen2", "qwen3", "llama", "mistral", "llama3", "linear", "yarn");
  Fixture f(name);
  const std::vector<double> losses = f.vectors.doubles("train_losses");
  const std::vector<double> norms = f.vectors.doubles("train_grad_norms");
  REQUIRE(norms.size() == 10);
  REQUIRE(losses.size() == 11);
  const std::vector<double> adamw = f.vectors.doubles("adamw");
  parallel::run_thread_ranks(
      {}, [&](const parallel::Topology& alone, parallel::RankCommunicators comm) {
        const train::Engine engine{f.backend, f.transformer, alone, comm};
        train::Optimizer optimizer(engine, f.layout, DType::kFloat64,
                                   {.beta1 = adamw.at(1),
                                    .beta2 = adamw.at(2),
                                    .eps = adamw.at(3),
                                    .weight_decay = adamw.at(4),
                                    .clip_grad = adamw.at(5)});
        for (size_t step = 0; step < norms.size(); ++step) {
          INFO(name << " step " << step);
          CHECK(relative_error({f.forward_backward()}, {losses[step]}) < kTolerance);
          CHECK(relative_error({optimizer.step(f.weights, f.grad, adamw[0])}, {norms[step]}) <
                kTolerance);
        }
      });
  CHECK(relative_error({f.forward_backward()}, {losses.back()}) < kTolerance);
  f.for_each_piece(f.weights, [&](const std::string& hf_name, const std::vector<double>& ours) {
    INFO(name << " " << hf_name);
    double sum = 0, squares = 0;
    for (const double w : ours) {
      sum += w;
      squares += w * w;
    }
    const std::vector<double> theirs = f.vectors.doubles("trained." + hf_name);
    CHECK(std::abs(sum - theirs[0]) < kTolerance * std::sqrt(squares * ours.size()));
    CHECK(std::abs(squares - theirs[1]) < kTolerance * squares);
  });
}

TEST_CASE("the ten steps meet both sides of the clip") {
  int clipped = 0, free = 0;
  for (const std::string name : {"qwen2", "qwen3", "llama"}) {
    const Vectors vectors(std::string(VERLCPP_REFERENCE) + "/" + name + "/reference.safetensors");
    const double clip = vectors.doubles("adamw").at(5);
    for (const double norm : vectors.doubles("train_grad_norms")) ++(norm > clip ? clipped : free);
  }
  CHECK(clipped >= 5);
  CHECK(free >= 2);
}
