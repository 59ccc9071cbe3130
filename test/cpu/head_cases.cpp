#include <cmath>

#include "cpu/op_cases.h"

// The head's product with the statistics of its logits, and the way back.

namespace verlcpp::test {
namespace {

struct HeadSizes {
  int64_t rows, width, vocab;
  int64_t first = 0;  // the vocabulary's part begins there
  bool shifted = false;
};

KeptLogits kept_by(const OpRun& run, const HeadSizes& s) {
  if (!s.shifted || run.dtype == DType::kBFloat16) {
    return allocate_kept(run.backend, run.dtype, s.rows, s.vocab);
  }
  return {run.poisoned({s.rows, s.vocab}), run.poisoned({s.rows, kept_groups(s.vocab)})};
}

/// Every fifth label is in another part: the one before, or the one behind.
bool elsewhere(int64_t row) { return row % 5 == 4; }
bool behind(int64_t row) { return row % 10 == 9; }

std::vector<int32_t> labels_of(const HeadSizes& s) {
  std::vector<int32_t> labels;
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t label = behind(r) ? s.vocab : elsewhere(r) ? -1 : r * 7919 % s.vocab;
    labels.push_back(static_cast<int32_t>(s.first + label));
  }
  return labels;
}

/// Outputs: of each row log-prob and entropy. Labels of the part before are 0 there; those of the
/// part behind nobody has, so that their log-prob is -inf.
OpCase head_case(HeadSizes s) {
  std::vector<double> temperature;
  for (int64_t r = 0; r < s.rows; ++r)
    temperature.push_back(0.7 + 0.3 * static_cast<double>(r % 4));
  OpCase c{
      .name = "head_stats " + to_string({s.rows, s.width, s.vocab}) + (s.shifted ? " shifted" : ""),
      .inputs = {{{s.rows, s.width}}, {{s.vocab, s.width}, true}},
      .forward = {},
      .backward = {}};
  const auto labels = labels_of(s);
  c.forward = [=](const OpRun& run, const std::vector<Tensor>& in) {
    const Tensor stats = OpRun{run.backend, DType::kFloat64}.poisoned({2, s.rows, 4});
    const Tensor label_R = run.ints(labels), tau_R = run.wide().from(temperature, {s.rows});
    const KeptLogits kept = kept_by(run, s);
    run.backend.head_stats(stats.slice(0, {s.rows, 4}), kept, in[0], in[1], label_R, tau_R,
                           s.first);
    // The other part: one token that is never drawn, and the label of who has none here.
    std::vector<double> rest;
    for (int64_t r = 0; r < s.rows; ++r) {
      rest.insert(rest.end(), {-900.0, 1, 0, elsewhere(r) && !behind(r) ? 0.0 : -HUGE_VAL});
    }
    run.backend.copy(stats.slice(s.rows * 4, {s.rows, 4}),
                     OpRun{run.backend, DType::kFloat64}.from(rest, {s.rows, 4}));
    OpResult result;
    const Tensor lse = run.wide().poisoned({s.rows});
    result.outputs = {run.wide().poisoned({s.rows}), run.wide().poisoned({s.rows})};
    run.backend.token_log_prob(result.outputs[0], result.outputs[1], lse, stats);
    result.saved = {lse, kept.values_RV};
    if (kept.shift_RG.defined()) result.saved.push_back(kept.shift_RG);
    return result;
  };
  c.backward = [=](const OpRun& run, const std::vector<Tensor>& in, const OpResult& result,
                   const std::vector<Tensor>& d) {
    const Tensor values = run.copy_of(result.saved[1]);
    const Tensor shift = result.saved.size() > 2 ? result.saved[2] : Tensor{};
    const Tensor d_logits = values.memory_for(run.dtype);
    run.backend.token_log_prob_backward(d_logits, {values, shift}, run.ints(labels),
                                        run.wide().from(temperature, {s.rows}), result.outputs[1],
                                        result.saved[0], d[0], d[1], s.first);
    const Tensor d_x = run.poisoned(in[0].shape()), d_w = run.wide().grad_start(in[1].shape());
    run.backend.matmul(d_x, d_logits, in[1], false, false, false);
    run.backend.matmul(d_w, d_logits, in[0], true, false, true);
    return std::vector<Tensor>{d_x, d_w};
  };
  return c;
}

}  // namespace

std::vector<OpCase> head_cases(bool shifted) {
  return {head_case({.rows = 6, .width = 8, .vocab = 24, .shifted = shifted}),
          head_case({.rows = 5, .width = 3, .vocab = 11, .first = 40, .shifted = shifted}),
          misplaced(head_case({.rows = 3, .width = 16, .vocab = 8, .shifted = shifted})),
          head_case({.rows = 0, .width = 8, .vocab = 16, .shifted = shifted})};
}

std::vector<OpCase> large_head_cases() {
  return {head_case({.rows = 129, .width = 72, .vocab = 2056}),
          head_case({.rows = 300, .width = 128, .vocab = 520, .first = 1000}),
          head_case({.rows = 260, .width = 40, .vocab = 777}),  // not in packs of eight
          head_case({.rows = 4500, .width = 64, .vocab = 264}),
          head_case({.rows = 300, .width = 328, .vocab = 2056}),  // more stages than a ring
          head_case({.rows = 17000, .width = 72, .vocab = 264}),  // more items than clusters
          // Rows longer than one block's columns, more parts than a warp has lanes.
          head_case({.rows = 5, .width = 64, .vocab = 33000}),
          head_case({.rows = 3, .width = 40, .vocab = 16411})};
}

}  // namespace verlcpp::test
