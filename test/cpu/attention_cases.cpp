#include "cpu/attention_cases.h"

#include "cpu/op_cases.h"

namespace verlcpp::test {

std::vector<AttentionCase> attention_table() {
  using enum AttentionMask;
  return {
      {"one causal document", kCausal, 7, 7, 4, 2, 5, {0}, {7}, {0}, {7}},
      {"causal, gaps, an empty document",
       kCausal,
       17,
       17,
       3,
       1,
       4,
       {1, 6, 7},
       {4, 0, 9},
       {1, 6, 7},
       {4, 0, 9}},
      {"causal, fewer kv than q rows", kCausal, 6, 4, 2, 2, 3, {0}, {6}, {1}, {3}},
      {"none, other lengths, no kv rows for one",
       kNone,
       13,
       9,
       6,
       3,
       3,
       {0, 4, 9},
       {3, 5, 4},
       {2, 0, 7},
       {4, 0, 1}},
      {"none, kv ranges in another order", kNone, 5, 9, 2, 1, 2, {0, 2}, {2, 3}, {5, 1}, {3, 4}},
      {"bottom right, decode beside prefill",
       kBottomRight,
       5,
       12,
       4,
       1,
       7,
       {0, 2},
       {1, 3},
       {0, 8},
       {6, 3}},
      {"bottom right, rows that see nothing", kBottomRight, 6, 3, 2, 2, 1, {1}, {5}, {0}, {3}},
      {"longer than a tile, causal", kCausal, 139, 139, 3, 1, 2, {2}, {131}, {5}, {131}},
      {"longer than a tile, bottom right", kBottomRight, 71, 150, 2, 1, 3, {0}, {71}, {1}, {149}},
      {"wide heads", kCausal, 3, 3, 1, 1, 64, {0}, {3}, {0}, {3}},
      {"no documents", kCausal, 4, 4, 2, 1, 3, {}, {}, {}, {}},
      {"no rows", kNone, 0, 0, 2, 1, 3, {0}, {0}, {0}, {0}},
  };
}

std::vector<OpCase> attention_cases() {
  using Tensors = std::vector<Tensor>;
  std::vector<OpCase> cases;
  const auto add_case = [&](const AttentionCase& a, bool accumulate) {
    cases.push_back(
        {.name = std::string("attention_block, ") + (accumulate ? "" : "overwriting, ") + a.name,
         .inputs = {{a.q_shape(), accumulate},
                    {a.kv_shape(), accumulate},
                    {a.kv_shape(), accumulate}},
         .forward =
             [a](const OpRun& run, const Tensors& in) {
               Tensor o = run.poisoned(a.q_shape()), lse = run.wide().poisoned(a.lse_shape());
               run.backend.attention_block(
                   a.mask, run.spans(a.q_offset, a.q_length, a.kv_offset, a.kv_length), a.scale(),
                   in[0], in[1], in[2], o, lse);
               return OpResult{{o}, {lse}};
             },
         .backward =
             [a, accumulate](const OpRun& run, const Tensors& in, const OpResult& result,
                             const Tensors& d) {
               Tensors grads;
               for (const Tensor& x : in) {
                 grads.push_back(accumulate ? run.wide().grad_start(x.shape())
                                            : run.poisoned(x.shape()));
               }
               run.backend.attention_block_backward(
                   a.mask, run.spans(a.q_offset, a.q_length, a.kv_offset, a.kv_length), a.scale(),
                   in[0], in[1], in[2], result.outputs[0], result.saved[0], d[0], grads[0],
                   grads[1], grads[2], accumulate);
               return grads;
             }});
  };
  for (const AttentionCase& a : attention_table()) {
    for (const bool accumulate : {true, false}) add_case(a, accumulate);
  }
  return cases;
}

}  // namespace verlcpp::test
