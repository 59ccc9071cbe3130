#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "data/packed_batch.h"
#include "data/trajectory.h"
#include "model/parameters.h"
#include "options.h"
#include "report.h"
#include "train/engine.h"

namespace verlcpp::bench {

std::unique_ptr<Backend> make_backend(const Options& options);

/// Normal(0, scale) numbers, a function of the seed: few are drawn on the host and laid end to end
/// on the device, so that billions of them take seconds. The period is odd: rows of a matrix
/// differ.
Tensor random_tensor(Backend& backend, DType dtype, Shape shape, uint64_t seed, double scale,
                     MemoryTag tag);
/// normal(0, 0.02) matrices and biases, norms of 1.
void random_weights(Backend& backend, const model::ParameterBuffer& weights, uint64_t seed);

/// Documents of options.lengths with random tokens; the first token, or options.prompt_fraction of
/// a document, is its prompt.
std::vector<data::Trajectory> random_documents(const Options& options);
/// All rows the head runs on: response tokens of all documents.
int64_t head_rows(std::span<const data::Trajectory> documents);

/// Runs `body` as the one rank of a run.
void with_engine(const Options& options, const std::function<void(const train::Engine&)>& body);
/// As many micro-batches as options.micro_batch_tokens asks for.
train::Planner planner_of(const Options& options);

// What each subcommand measures.
std::vector<Row> run_op(const Options& options);
std::vector<Row> run_attention(const Options& options);
std::vector<Row> run_step(const Options& options);
std::vector<Row> run_log_prob(const Options& options);
std::vector<Row> run_decode(const Options& options);
std::vector<Row> run_comm(const Options& options);

}  // namespace verlcpp::bench
