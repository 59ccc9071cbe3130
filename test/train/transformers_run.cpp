#include "transformers_run.h"

#include <algorithm>
#include <cmath>

#include "model/linear_loss.h"
#include "parallel/thread_ranks.h"
#include "train/engine.h"
#include "train/optimizer.h"

namespace verlcpp::test {
namespace {

/// A batch's documents packed on one rank, the head on every row with a target.
model::DeviceBatch upload(const model::Transformer& transformer,
                          const std::vector<std::vector<int32_t>>& documents) {
  schedule::PlanGroup group{.ranks = {0}, .samples = {}};
  for (size_t i = 0; i < documents.size(); ++i) group.samples.push_back(static_cast<int>(i));
  const data::PackedBatch packed = data::pack(group, 0, 1, documents);
  std::vector<int32_t> rows;
  for (size_t row = 0; row < packed.token_ids.size(); ++row) {
    const int32_t document = packed.document[row];
    if (document < 0) continue;
    if (packed.position[row] + 1 < packed.lengths[static_cast<size_t>(document)]) {
      rows.push_back(static_cast<int32_t>(row));
    }
  }
  const std::vector<double> temperature(packed.token_ids.size(), 1.0);
  return transformer.upload(packed, {.ranks = {0}, .index = 0}, rows, temperature);
}

/// The script's sampled_rows of every matrix, vectors whole.
Samples sample(Backend& backend, const model::ParameterBuffer& buffer) {
  constexpr int64_t kSampled = 64;
  Samples samples;
  for (const model::ParamSpec& spec : buffer.layout().specs()) {
    for (const model::HfPiece& piece : spec.pieces) {
      const Tensor whole = buffer.at(spec.name).rows(piece.row, piece.shape[0]);
      if (piece.shape.size() == 1) {
        samples[piece.hf_name] = download(backend, whole);
        continue;
      }
      const int64_t rows = piece.shape[0], wanted = std::min(kSampled, rows);
      std::vector<int32_t> index;
      for (int64_t i = 0; i < wanted; ++i) index.push_back(static_cast<int32_t>(i * rows / wanted));
      const Tensor some =
          backend.allocate(whole.dtype(), {wanted, whole.dim(1)}, MemoryTag::kWorkspace);
      backend.gather_rows(some, whole,
                          upload<int32_t>(backend, index, {wanted}, MemoryTag::kWorkspace));
      samples[piece.hf_name] = download(backend, some);
    }
  }
  return samples;
}

Samples norms(Backend& backend, const model::ParameterBuffer& grad) {
  Samples found;
  const Tensor squares = backend.allocate(DType::kFloat64, {1}, MemoryTag::kWorkspace);
  for (const model::ParamSpec& spec : grad.layout().specs()) {
    for (const model::HfPiece& piece : spec.pieces) {
      backend.fill_zero(squares);
      backend.sum_squares(squares, grad.slice(spec.range_of(piece)));
      found[piece.hf_name] = {std::sqrt(download(backend, squares)[0])};
    }
  }
  return found;
}

/// One rank's model, gradient and optimizer.
class Run {
 public:
  Run(const train::Engine& engine, const Case& c, DType dtype)
      : engine_(engine),
        backend_(engine.backend),
        case_(c),
        layout_(engine.transformer.config(), 1),
        weights_(backend_, layout_, dtype, MemoryTag::kWeights),
        grad_(backend_, layout_, model::statistics_dtype(dtype), MemoryTag::kMainGrad),
        optimizer_(engine, layout_, dtype,
                   {.beta1 = c.adamw.at(1),
                    .beta2 = c.adamw.at(2),
                    .eps = c.adamw.at(3),
                    .weight_decay = c.adamw.at(4),
                    .clip_grad = c.adamw.at(5)}) {
    model::load_hf_weights(backend_, c.folder, weights_);
    optimizer_.take_master(weights_);
    for (const auto& documents : c.batches) {
      batches_.push_back(upload(engine.transformer, documents));
    }
  }

  Numbers numbers() {
    Numbers n;
    const Samples start = sample(backend_, optimizer_.master(weights_));
    for (int64_t step = 0; step < case_.steps; ++step) {
      const TokenRecord now = gradient();
      double sum = 0;
      for (const double log_prob : now.log_prob) sum -= log_prob;
      n.losses.push_back(sum / static_cast<double>(case_.targets));
      if (step == 0) {
        n.log_prob = now.log_prob;
        n.entropy = now.entropy;
        n.gradient = sample(backend_, grad_);
        n.norm = norms(backend_, grad_);
      }
      n.grad_norms.push_back(optimizer_.step(weights_, grad_, case_.adamw.at(0)));
    }
    n.change = sample(backend_, optimizer_.master(weights_));
    for (auto& [name, values] : n.change) {
      for (size_t i = 0; i < values.size(); ++i) values[i] -= start.at(name)[i];
    }
    return n;
  }

 private:
  /// Of the mean -log p over both batches, into grad_; log-probs and entropies are returned.
  TokenRecord gradient() {
    const model::ContextParallelAttention attention(backend_, nullptr);
    TokenRecord tokens;
    backend_.fill_zero(grad_.flat());
    for (const model::DeviceBatch& batch : batches_) {
      const auto constant = [&](double value) {
        return std::vector<double>(batch.head_rows_host.size(), value);
      };
      const double weight = -1.0 / static_cast<double>(case_.targets);
      engine_.transformer.train(weights_, batch, attention, {},
                                linear_loss(backend_, constant(weight), constant(0), &tokens),
                                grad_);
    }
    return tokens;
  }

  const train::Engine& engine_;
  Backend& backend_;
  const Case& case_;
  model::ParameterLayout layout_;
  model::ParameterBuffer weights_, grad_;
  train::Optimizer optimizer_;
  std::vector<model::DeviceBatch> batches_;
};

}  // namespace

Case read_case(const std::string& folder, const Vectors& vectors) {
  Case c{.folder = folder,
         .batches = {},
         .adamw = vectors.doubles("adamw"),
         .steps = static_cast<int64_t>(vectors.doubles("losses").size())};
  const std::vector<int32_t> ids = vectors.ints("token_ids"), lengths = vectors.ints("lengths");
  auto next = ids.begin();
  auto length = lengths.begin();
  for (const int32_t documents : vectors.ints("documents_per_batch")) {
    auto& batch = c.batches.emplace_back();
    for (int32_t i = 0; i < documents; ++i, ++length) {
      batch.emplace_back(next, next + *length);
      next += *length;
      c.targets += *length - 1;
    }
  }
  return c;
}

Numbers run_case(const Case& c, const parallel::MakeDevice& make_device, DType dtype) {
  Numbers numbers;
  parallel::run_thread_ranks({.world = 1}, [&](const parallel::Topology& topology,
                                               const parallel::RankCommunicators& host) {
    const parallel::RankDevice place = make_device(topology, host);
    Backend& backend = *place.backend;
    const model::Transformer transformer(backend, model::read_model_config(c.folder), dtype);
    const train::Engine engine{backend, transformer, topology, place.comm};
    numbers = Run(engine, c, dtype).numbers();
  });
  return numbers;
}

}  // namespace verlcpp::test
