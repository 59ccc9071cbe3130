#include "cpu/op_cases.h"

// The passes of a layer between its products: norms, rotation, activation.

namespace verlcpp::test {
namespace {

using Tensors = std::vector<Tensor>;

OpCase rms_norm_case(Shape shape, bool in_place) {
  const int64_t width = shape.back();
  Shape rows(shape.begin(), shape.end() - 1);
  return {.name = "rms_norm " + to_string(shape) + (in_place ? " d_x in d_y" : ""),
          .inputs = {{shape}, {{width}, true}},
          .forward =
              [=](const OpRun& run, const Tensors& in) {
                Tensor y = run.poisoned(shape), rstd = run.wide().poisoned(rows);
                run.backend.rms_norm(y, rstd, in[0], in[1], 1e-3);
                return OpResult{{y}, {rstd}};
              },
          .backward =
              [=](const OpRun& run, const Tensors& in, const OpResult& result, const Tensors& d) {
                Tensor d_y = run.copy_of(d[0]), d_w = run.wide().grad_start({width});
                Tensor d_x = in_place ? d_y : run.poisoned(shape);
                run.backend.rms_norm_backward(d_x, d_w, d_y, in[0], in[1], result.saved[0], {});
                return Tensors{d_x, d_w};
              }};
}

/// The sum goes on beside the norm, as the residual stream does; in place: in b's place forward, in
/// that of its gradient backward.
OpCase add_rms_norm_case(int64_t rows, int64_t width, bool in_place) {
  const Shape shape{rows, width};
  return {.name = "add_rms_norm " + to_string(shape) + (in_place ? " in place" : ""),
          .inputs = {{shape}, {shape}, {{width}, true}},
          .forward =
              [=](const OpRun& run, const Tensors& in) {
                const Tensor b = run.copy_of(in[1]), y = run.poisoned(shape);
                const Tensor sum = in_place ? b : run.poisoned(shape);
                const Tensor rstd = run.wide().poisoned({rows});
                run.backend.add_rms_norm(sum, y, rstd, in[0], b, in[2], 1e-3);
                return OpResult{{sum, y}, {rstd}};
              },
          .backward =
              [=](const OpRun& run, const Tensors& in, const OpResult& result, const Tensors& d) {
                const Tensor d_sum = run.copy_of(d[0]), d_w = run.wide().grad_start({width});
                const Tensor d_x = in_place ? d_sum : run.poisoned(shape);
                run.backend.rms_norm_backward(d_x, d_w, d[1], result.outputs[0], in[2],
                                              result.saved[0], d_sum);
                return Tensors{d_x, d_x, d_w};
              }};
}

/// RoPE's table of these positions.
Tensor rope_table(const OpRun& run, const std::vector<int32_t>& positions, int64_t head_dim) {
  std::vector<double> inv_freq;
  for (int64_t i = 0; i < head_dim / 2; ++i)
    inv_freq.push_back(1.0 / static_cast<double>(1 + 7 * i));
  const OpRun wide = run.wide();
  const Tensor table = wide.poisoned({static_cast<int64_t>(positions.size()), head_dim});
  run.backend.rope_table(table, run.ints(positions), wide.from(inv_freq, {head_dim / 2}));
  return table;
}

OpCase rope_case(int64_t heads, int64_t head_dim, std::vector<int32_t> positions) {
  const Shape shape{static_cast<int64_t>(positions.size()), heads, head_dim};
  const auto rotate = [=](const OpRun& run, const Tensor& x, bool inverse) {
    Tensor out = run.copy_of(x);
    run.backend.rope(out, rope_table(run, positions, head_dim), inverse);
    return out;
  };
  return {.name = "rope " + to_string(shape),
          .inputs = {{shape}},
          .forward =
              [=](const OpRun& run, const Tensors& in) {
                return OpResult{{rotate(run, in[0], false)}, {}};
              },
          .backward = [=](const OpRun& run, const Tensors&, const OpResult&,
                          const Tensors& d) { return Tensors{rotate(run, d[0], true)}; }};
}

OpCase swiglu_case(int64_t rows, int64_t ffn) {
  return {.name = "swiglu " + to_string({rows, ffn}),
          .inputs = {{{rows, 2 * ffn}}},
          .forward =
              [=](const OpRun& run, const Tensors& in) {
                Tensor out = run.poisoned({rows, ffn});
                run.backend.swiglu(out, in[0]);
                return OpResult{{out}, {}};
              },
          .backward =
              [=](const OpRun& run, const Tensors& in, const OpResult&, const Tensors& d) {
                Tensor d_gate_up = run.poisoned(in[0].shape());
                run.backend.swiglu_backward(d_gate_up, d[0], in[0]);
                return Tensors{d_gate_up};
              }};
}

/// Outputs: the product, and gate and up where they are kept.
OpCase gate_up_case(int64_t rows, int64_t ffn, int64_t width, bool keeps) {
  OpCase c{.name = "gate_up " + to_string({rows, ffn, width}) + (keeps ? " kept" : ""),
           .inputs = {{{rows, width}}, {{2 * ffn, width}, true}},
           .forward = {},
           .backward = {}};
  c.forward = [=](const OpRun& run, const Tensors& in) {
    OpResult result{{run.poisoned({rows, ffn})}, {}};
    if (keeps) result.outputs.push_back(run.poisoned({rows, 2 * ffn}));
    run.backend.gate_up(result.outputs[0], keeps ? result.outputs[1] : Tensor{}, in[0], in[1]);
    return result;
  };
  c.backward = [=](const OpRun& run, const Tensors& in, const OpResult& result, const Tensors& d) {
    const Tensor both = keeps ? result.outputs[1] : run.poisoned({rows, 2 * ffn});
    if (!keeps) run.backend.matmul(both, in[0], in[1], false, true, false);
    const Tensor d_both = run.poisoned(both.shape()), d_x = run.poisoned(in[0].shape());
    run.backend.swiglu_backward(d_both, d[0], both);
    if (keeps) run.backend.add(d_both, d_both, d[1]);
    run.backend.matmul(d_x, d_both, in[1], false, false, false);
    const Tensor d_w = run.wide().grad_start(in[1].shape());
    run.backend.matmul(d_w, d_both, in[0], true, false, true);
    return Tensors{d_x, d_w};
  };
  return c;
}

OpCase qkv_case(int64_t rows, int64_t heads, int64_t kv_heads, int64_t head_dim, bool with_bias,
                bool rotated) {
  const Shape q{rows, heads, head_dim}, kv{rows, kv_heads, head_dim};
  const int64_t width = (heads + 2 * kv_heads) * head_dim;
  OpCase c{.name = "split_qkv " + to_string({rows, heads, kv_heads, head_dim}) +
                   (with_bias ? " with bias" : "") + (rotated ? " rotated" : ""),
           .inputs = {{{rows, width}}},
           .forward = {},
           .backward = {}};
  if (with_bias) c.inputs.push_back({{width}, true});
  const auto table = [=](const OpRun& run) {
    std::vector<int32_t> positions;
    for (int32_t t = 0; t < rows; ++t) positions.push_back(t * 17 % 5);
    return rotated ? rope_table(run, positions, head_dim) : Tensor();
  };
  c.forward = [=](const OpRun& run, const Tensors& in) {
    Tensors parts{run.poisoned(q), run.poisoned(kv), run.poisoned(kv)};
    run.backend.split_qkv(parts[0], parts[1], parts[2], in[0], with_bias ? in[1] : Tensor(),
                          table(run));
    return OpResult{parts, {}};
  };
  c.backward = [=](const OpRun& run, const Tensors&, const OpResult&, const Tensors& d) {
    Tensors grads{run.poisoned({rows, width})};
    if (with_bias) grads.push_back(run.wide().grad_start({width}));
    run.backend.split_qkv_backward(grads[0], with_bias ? grads[1] : Tensor(), d[0], d[1], d[2],
                                   table(run));
    return grads;
  };
  return c;
}

/// Widths that a GPU visits 16 bytes at a time, of models (896, 1536, 4864; heads of 64 and 128),
/// of which a lane, a warp or several warps hold a row; more rows than a block takes.
void add_wide_cases(std::vector<OpCase>& cases) {
  for (const int64_t width : {16, 64, 264, 896, 1536, 3584}) {
    cases.push_back(rms_norm_case({5, width}, true));
    cases.push_back(add_rms_norm_case(3, width, false));
  }
  for (const int64_t width : {257, 1537}) {  // one by one
    cases.push_back(add_rms_norm_case(3, width, true));
  }
  cases.push_back(rms_norm_case({700, 8}, false));
  cases.push_back(add_rms_norm_case(1100, 6, false));
  for (const int64_t rows : {2, 601}) {
    for (int flags = 0; flags < 4; ++flags) {
      cases.push_back(qkv_case(rows, 2, 1, rows == 2 ? 64 : 16, flags & 1, flags & 2));
    }
  }
  cases.push_back(qkv_case(2, 14, 2, 64, true, true));
  cases.push_back(qkv_case(1, 12, 2, 128, true, true));
  cases.push_back(qkv_case(1, 34, 4, 24, true, true));  // more columns than a block; halves of 12
  cases.push_back(rope_case(3, 64, {5, 0, 31000}));
  cases.push_back(rope_case(2, 16, {1, 2, 3}));
  cases.push_back(swiglu_case(3, 48));
  cases.push_back(swiglu_case(2, 4864));
}

}  // namespace

std::vector<OpCase> layer_cases() {
  std::vector<OpCase> cases;
  for (int64_t rows : {0, 1, 6}) {
    cases.push_back(add_rms_norm_case(rows, 33, true));
    cases.push_back(rms_norm_case({rows, 13}, false));
    cases.push_back(rms_norm_case({rows, 3, 8}, true));
    cases.push_back(rms_norm_case({rows, 1}, false));
    cases.push_back(swiglu_case(rows, 9));
    cases.push_back(gate_up_case(rows, 5, 7, true));
    cases.push_back(gate_up_case(rows, 5, 7, false));
    for (int flags = 0; flags < 4; ++flags) {
      cases.push_back(qkv_case(rows, 3, 1, 6, flags & 1, flags & 2));
      cases.push_back(qkv_case(rows, 4, 2, 2, flags & 1, flags & 2));
    }
  }
  cases.push_back(rope_case(3, 10, {0, 1, 1000, 7, 0}));
  cases.push_back(rope_case(1, 2, {3}));
  cases.push_back(rope_case(2, 4, {}));
  add_wide_cases(cases);
  cases.push_back(misplaced(rms_norm_case({5, 64}, false)));
  cases.push_back(misplaced(add_rms_norm_case(3, 896, false)));
  cases.push_back(misplaced(rope_case(2, 16, {1, 2, 3})));
  cases.push_back(misplaced(qkv_case(3, 2, 1, 16, true, true)));
  cases.push_back(misplaced(swiglu_case(3, 48)));
  return cases;
}

std::vector<OpCase> large_layer_cases() {
  return {rms_norm_case({5, 6400}, true),
          add_rms_norm_case(3, 6400, false),
          rms_norm_case({17000, 64}, false),
          add_rms_norm_case(2300, 896, true),
          add_rms_norm_case(1100, 1536, false),
          add_rms_norm_case(1300, 2056, true),
          add_rms_norm_case(2000, 257, false),
          qkv_case(2500, 14, 2, 64, true, true),
          qkv_case(2500, 14, 2, 64, false, false),
          qkv_case(2100, 12, 2, 18, true, true),
          rope_case(14, 64, std::vector<int32_t>(900, 3)),
          swiglu_case(66000, 8)};
}

std::vector<OpCase> large_gate_up_cases() {
  return {gate_up_case(kRowsOfGates, 136, 72, true),  // a tile of 128 columns, and a tail of 8
          gate_up_case(kRowsOfGates + 77, 136, 72, false),
          gate_up_case(4100, 520, 328, true),  // more tiles than clusters, and stages than a ring
          gate_up_case(4100, 520, 328, false),
          gate_up_case(kRowsOfGates, 72, 40, true),  // less than a tile, and than a stage
          gate_up_case(1300, 232, 64, false),        // a tail of 104: the second box is cut
          gate_up_case(kRowsOfGates, 128, 128, true),
          gate_up_case(1100, 9, 64, true),     // copies can take neither such rows of results,
          gate_up_case(1100, 136, 65, true)};  // nor such operands
}

}  // namespace verlcpp::test
