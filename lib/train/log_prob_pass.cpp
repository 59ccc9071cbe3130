#include "train/log_prob_pass.h"

#include <memory>
#include <utility>

namespace verlcpp::train {

std::optional<LogProbs> log_prob_pass(const Engine& engine, const model::ParameterBuffer& weights,
                                      std::span<const data::Trajectory> batch,
                                      const schedule::Plan& plan) {
  const auto tokens = token_rows(batch);
  std::vector<size_t> offset;  // of each sample's first response token in the flat result
  size_t total = 0;
  for (const data::Trajectory& t : batch) {
    offset.push_back(total);
    total += t.response_ids.size();
  }

  // Every response token has one owner, so a sum over the pool assembles the whole.
  const auto flat = std::make_shared<std::vector<double>>(2 * total);
  const model::ContextParallelAttention attention(engine.backend, &engine.comm.cp);
  int64_t number = 0;
  HostWork reading;
  for (const schedule::MicroBatch& micro_batch : plan.micro_batches) {
    if (engine.comm.world_stop.here()) return std::nullopt;
    engine.comm.status.micro_batch(++number);
    const RankMicroBatch mine = prepare(engine, micro_batch, batch, tokens);
    const model::TokenOutputs out = engine.transformer.forward(weights, mine.device, attention);
    std::vector<size_t> place;
    for (const HeadRow& row : mine.head) {
      place.push_back(offset[static_cast<size_t>(row.sample)] + static_cast<size_t>(row.token));
    }
    // The one before is waited for here, behind a micro-batch of other work.
    reading =
        compute_on_host(engine.backend, {out.log_prob_R, out.entropy_R}, {},
                        [flat, place = std::move(place), total](const HostValues& in, HostValues&) {
                          for (size_t i = 0; i < place.size(); ++i) {
                            (*flat)[place[i]] = in[0][i];
                            (*flat)[total + place[i]] = in[1][i];
                          }
                        });
  }
  reading.wait();
  engine.backend.synchronize();
  const std::vector<double> whole = engine.sum_over_pool(*flat);

  LogProbs result;
  for (size_t s = 0; s < batch.size(); ++s) {
    const auto first = whole.begin() + static_cast<int64_t>(offset[s]);
    const int64_t n = batch[s].response_length();
    result.log_prob.emplace_back(first, first + n);
    result.entropy.emplace_back(first + static_cast<int64_t>(total),
                                first + static_cast<int64_t>(total) + n);
  }
  return result;
}

}  // namespace verlcpp::train
