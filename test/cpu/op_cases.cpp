#include "cpu/op_cases.h"

namespace verlcpp::test {
namespace {

using Tensors = std::vector<Tensor>;

OpCase matmul_case(int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool accumulate) {
  OpCase c{.name = "matmul " + to_string({m, n, k}) + (ta ? " ta" : "") + (tb ? " tb" : "") +
                   (accumulate ? " accumulate" : ""),
           .inputs = {{ta ? Shape{k, m} : Shape{m, k}}, {tb ? Shape{n, k} : Shape{k, n}, true}},
           .forward = {},
           .backward = {}};
  if (accumulate) c.inputs.push_back({{m, n}});
  c.forward = [=](const OpRun& run, const Tensors& in) {
    Tensor out = accumulate ? run.copy_of(in[2]) : run.poisoned({m, n});
    run.backend.matmul(out, in[0], in[1], ta, tb, accumulate);
    return OpResult{{out}, {}};
  };
  c.backward = [=](const OpRun& run, const Tensors& in, const OpResult&, const Tensors& d_out) {
    const Tensor &a = in[0], &b = in[1], &d = d_out[0];
    Tensor d_a = run.poisoned(a.shape()), d_b = run.wide().grad_start(b.shape());
    if (ta) {
      run.backend.matmul(d_a, b, d, tb, true, false);
    } else {
      run.backend.matmul(d_a, d, b, false, !tb, false);
    }
    if (tb) {
      run.backend.matmul(d_b, d, a, true, ta, true);
    } else {
      run.backend.matmul(d_b, a, d, !ta, false, true);
    }
    Tensors grads{d_a, d_b};
    if (accumulate) grads.push_back(d);
    return grads;
  };
  return c;
}

OpCase add_case(Shape shape) {
  return {.name = "add " + to_string(shape),
          .inputs = {{shape}, {shape}},
          .forward =
              [](const OpRun& run, const Tensors& in) {
                Tensor out = run.copy_of(in[0]);  // aliases a
                run.backend.add(out, out, in[1]);
                return OpResult{{out}, {}};
              },
          .backward =
              [](const OpRun&, const Tensors&, const OpResult&, const Tensors& d) {
                return Tensors{d[0], d[0]};
              }};
}

OpCase embedding_case(int64_t vocab, int64_t width, std::vector<int32_t> ids, int64_t first = 0) {
  const int64_t rows = static_cast<int64_t>(ids.size());
  return {.name = "embedding " + to_string({rows, vocab, width}),
          .inputs = {{{vocab, width}, true}},
          .forward =
              [=](const OpRun& run, const Tensors& in) {
                Tensor out = run.poisoned({rows, width});
                run.backend.embedding(out, in[0], run.ints(ids), first);
                return OpResult{{out}, {}};
              },
          .backward =
              [=](const OpRun& run, const Tensors& in, const OpResult&, const Tensors& d) {
                Tensor d_table = run.wide().grad_start(in[0].shape());
                run.backend.embedding_backward(d_table, d[0], run.ints(ids), first);
                return Tensors{d_table};
              }};
}

OpCase gather_case(int64_t from, int64_t width, std::vector<int32_t> rows) {
  const int64_t count = static_cast<int64_t>(rows.size());
  return {.name = "gather_rows " + to_string({from, count, width}),
          .inputs = {{{from, width}}},
          .forward =
              [=](const OpRun& run, const Tensors& in) {
                Tensor out = run.poisoned({count, width});
                run.backend.gather_rows(out, in[0], run.ints(rows));
                return OpResult{{out}, {}};
              },
          .backward =
              [=](const OpRun& run, const Tensors& in, const OpResult&, const Tensors& d) {
                Tensor d_x = run.poisoned(in[0].shape());
                run.backend.fill_zero(d_x);
                run.backend.scatter_rows(d_x, d[0], run.ints(rows));
                return Tensors{d_x};
              }};
}

OpCase scatter_case(int64_t to, int64_t width, std::vector<int32_t> rows) {
  const int64_t count = static_cast<int64_t>(rows.size());
  return {.name = "scatter_rows " + to_string({to, count, width}),
          .inputs = {{{to, width}}, {{count, width}}},
          .forward =
              [=](const OpRun& run, const Tensors& in) {
                Tensor out = run.copy_of(in[0]);
                run.backend.scatter_rows(out, in[1], run.ints(rows));
                return OpResult{{out}, {}};
              },
          .backward =
              [=](const OpRun& run, const Tensors& in, const OpResult&, const Tensors& d) {
                Tensor d_base = run.copy_of(d[0]), d_x = run.poisoned(in[1].shape());
                run.backend.scatter_rows(d_base, run.filled(0, in[1].shape()), run.ints(rows));
                run.backend.gather_rows(d_x, d[0], run.ints(rows));
                return Tensors{d_base, d_x};
              }};
}

/// The vocabulary in one part for each element of `parts`, its size; each an input of its own.
/// `in_place`: the gradient lies in the logits' place where their dtypes agree.
OpCase log_prob_case(std::vector<int64_t> parts, std::vector<int32_t> labels,
                     std::vector<double> temperature, bool in_place = false) {
  const int64_t rows = static_cast<int64_t>(labels.size());
  const auto count = static_cast<int64_t>(parts.size());
  OpCase c{.name = "token_log_prob " + to_string({rows}) + " x " + to_string(parts) +
                   (in_place ? " in place" : ""),
           .inputs = {},
           .forward = {},
           .backward = {}};
  for (const int64_t vocab : parts) c.inputs.push_back({{rows, vocab}});
  c.forward = [=](const OpRun& run, const Tensors& in) {
    OpResult result;
    const Tensor stats = OpRun{run.backend, DType::kFloat64}.poisoned({count, rows, 4});
    int64_t first = 0;
    for (int64_t p = 0; p < count; ++p) {
      const auto part = static_cast<size_t>(p);
      const Tensor& logits = result.saved.emplace_back(run.wide().converted(in[part]));
      run.backend.logit_stats(stats.slice(p * rows * 4, {rows, 4}), logits, run.ints(labels),
                              run.wide().from(temperature, {rows}), first);
      first += parts[part];
    }
    const Tensor lse = result.saved.emplace_back(run.wide().poisoned({rows}));
    result.outputs = {run.wide().poisoned({rows}), run.wide().poisoned({rows})};
    run.backend.token_log_prob(result.outputs[0], result.outputs[1], lse, stats);
    return result;
  };
  c.backward = [=](const OpRun& run, const Tensors&, const OpResult& result, const Tensors& d) {
    Tensors d_logits;
    int64_t first = 0;
    for (size_t part = 0; part < parts.size(); ++part) {
      const Tensor logits = run.copy_of(result.saved[part]);
      const bool alias = in_place && logits.dtype() == run.dtype;
      d_logits.push_back(alias ? logits : run.poisoned(logits.shape()));
      run.backend.token_log_prob_backward(d_logits.back(), {logits, {}}, run.ints(labels),
                                          run.wide().from(temperature, {rows}), result.outputs[1],
                                          result.saved.back(), d[0], d[1], first);
      first += parts[part];
    }
    return d_logits;
  };
  return c;
}

}  // namespace

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  for (int flags = 0; flags < 8; ++flags) {
    cases.push_back(matmul_case(7, 5, 3, flags & 1, flags & 2, flags & 4));
    cases.push_back(matmul_case(1, 13, 37, flags & 1, flags & 2, flags & 4));
    cases.push_back(matmul_case(4, 3, 0, flags & 1, flags & 2, flags & 4));
    cases.push_back(matmul_case(0, 3, 2, flags & 1, flags & 2, flags & 4));
  }
  for (int64_t rows : {0, 1, 6}) cases.push_back(add_case({rows, 7}));
  cases.push_back(add_case({3, 896}));
  cases.push_back(add_case({1, 2051}));  // a tail behind the last 16 bytes
  cases.push_back(embedding_case(5, 3, {4, 0, 4, 4, 2}));
  cases.push_back(embedding_case(5, 3, {4, 0, 9, 7, 7, 2}, 4));
  cases.push_back(embedding_case(5, 3, {}));
  cases.push_back(misplaced(add_case({5, 16})));
  cases.push_back(misplaced(gather_case(7, 48, {6, 0, 2})));
  cases.push_back(misplaced(embedding_case(5, 16, {4, 0, 4})));
  cases.push_back(embedding_case(5, 896, {4, 0, 4, 4, 2, 1}));
  cases.push_back(embedding_case(3, 40, std::vector<int32_t>(300, 1)));
  cases.push_back(gather_case(7, 3, {6, 0, 2}));
  cases.push_back(gather_case(7, 3, {}));
  cases.push_back(gather_case(7, 896, {6, 0, 2}));
  cases.push_back(scatter_case(7, 3, {5, 1, 0}));
  cases.push_back(scatter_case(7, 3, {}));
  cases.push_back(scatter_case(7, 48, {5, 1, 0}));
  cases.push_back(log_prob_case({11}, {0, 10, 3}, {1.0, 0.7, 2.5}));
  cases.push_back(log_prob_case({11}, {0, 10, 3}, {1.0, 0.7, 2.5}, true));
  cases.push_back(log_prob_case({4, 5, 2}, {0, 10, 3}, {1.0, 0.7, 2.5}));
  cases.push_back(log_prob_case({1, 1}, {1, 0}, {1.0, 0.5}));
  cases.push_back(log_prob_case({1}, {0}, {1.0}));
  cases.push_back(log_prob_case({11}, {}, {}));
  for (OpCase& c : layer_cases()) cases.push_back(std::move(c));
  for (OpCase& c : head_cases(false)) cases.push_back(std::move(c));
  for (OpCase& c : attention_cases()) cases.push_back(std::move(c));
  return cases;
}

}  // namespace verlcpp::test
