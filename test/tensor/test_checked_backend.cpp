// CheckedBackend over two CpuBackends, one of which is wrong in one place, or none.

#include "base/error.h"
#include "cpu/op_cases.h"
#include "faulty_backend.h"
#include "layout_case.h"
#include "support/catch.h"
#include "tensor/checked_backend.h"

using namespace verlcpp;
using namespace verlcpp::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

FaultyBackend::Fault add_to(int64_t element, float value) {
  return [=](const Tensor& x) {
    if (element < x.numel()) x.as<float>()[element] += value;
  };
}

CheckedBackend with_faulty_reference(const std::string& op, FaultyBackend::Fault fault) {
  return {std::make_unique<cpu::CpuBackend>(),
          std::make_unique<FaultyBackend>(op, std::move(fault))};
}

std::unique_ptr<Backend> sound(DType reference = DType::kFloat32) {
  return std::make_unique<CheckedBackend>(std::make_unique<cpu::CpuBackend>(),
                                          std::make_unique<cpu::CpuBackend>(), reference);
}

/// The message of the DeviceError that `body` throws, or "".
template <class Body>
std::string divergence_of(Body&& body) {
  try {
    body();
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "";
}

void run_case(const OpCase& c, const OpRun& run) {
  std::vector<Tensor> inputs, projections;
  for (const OpInput& in : c.inputs) {
    inputs.push_back(run.from(random_values(numel_of(in.shape), inputs.size()), in.shape));
  }
  const OpResult result = c.forward(run, inputs);
  for (const Tensor& x : result.outputs) {
    const auto values = random_values(x.numel(), 100 + projections.size());
    projections.push_back(OpRun{run.backend, x.dtype()}.from(values, x.shape()));
  }
  c.backward(run, inputs, result, projections);
}

}  // namespace

TEST_CASE("a wrong element is named with op, output, place, values and tolerance") {
  CheckedBackend backend = with_faulty_reference("matmul", add_to(4, 0.25f));
  const OpRun run{backend, DType::kFloat32};
  const Tensor a = run.from({1, 2, 3, 4}, {2, 2}), b = run.from({1, 0, 2, 0, 1, 1}, {2, 3});
  const Tensor c = run.filled(8, {2, 3});
  backend.fill_zero(run.poisoned({5}));
  CHECK(backend.checked_ops() == 1);
  CHECK(divergence_of([&] { backend.matmul(c, a, b, false, false, true); }) ==
        "trainer.device=check: op 2, matmul: c (float32[2, 3]) diverges in 1 of 6 elements, the "
        "first at [1, 1]: 12, by the reference 12.25; the largest difference is 0.0138888889 of "
        "the tensor's scale, the tolerance 1e-05");
  CHECK(download(backend, c) == std::vector<double>{9, 10, 12, 11, 12, 18});  // the subject's
}

TEST_CASE("rms_norm_backward in place: each output is found") {
  for (const char* op : {"rms_norm_backward", "rms_norm_backward d_w"}) {
    CheckedBackend backend = with_faulty_reference(op, add_to(3, 0.01f));
    const OpRun run{backend, DType::kFloat32};
    const Tensor x = run.from(random_values(20, 1), {4, 5}), w = run.from(random_values(5, 2), {5});
    const Tensor d = run.from(random_values(20, 3), {4, 5}), d_w = run.grad_start({5});
    const Tensor y = run.poisoned({4, 5}), rstd = run.poisoned({4});
    backend.rms_norm(y, rstd, x, w, 1e-6);
    const std::string message =
        divergence_of([&] { backend.rms_norm_backward(d, d_w, d, x, w, rstd, {}); });
    CHECK_THAT(message, ContainsSubstring(std::string(op).ends_with("d_w")
                                              ? "op 2, rms_norm_backward: d_w (float32[5]) "
                                                "diverges in 1 of 5 elements, the first at [3]: "
                                              : "op 2, rms_norm_backward: d_x (float32[4, 5]) "
                                                "diverges in 1 of 20 elements, the first at [0, "
                                                "3]: "));
  }
}

TEST_CASE("gate_up with and without memory for gate and up: each output is found") {
  const auto run_with = [](const char* op, bool keeps) {
    CheckedBackend backend = with_faulty_reference(op, add_to(3, 0.01f));
    const OpRun run{backend, DType::kFloat32};
    const Tensor x = run.from(random_values(8, 1), {2, 4}),
                 w = run.from(random_values(24, 2), {6, 4});
    const Tensor out = run.poisoned({2, 3}), both = keeps ? run.poisoned({2, 6}) : Tensor{};
    return divergence_of([&] { backend.gate_up(out, both, x, w); });
  };
  const std::string of_out =
      "op 1, gate_up: out (float32[2, 3]) diverges in 1 of 6 elements, the first at [1, 0]: ";
  CHECK_THAT(run_with("gate_up", true), ContainsSubstring(of_out));
  CHECK_THAT(run_with("gate_up", false), ContainsSubstring(of_out));
  CHECK_THAT(run_with("gate_up gate_up", true),
             ContainsSubstring("op 1, gate_up: gate_up (float32[2, 6]) diverges in 1 of 12 "
                               "elements, the first at [0, 3]: "));
  CHECK(run_with("none", true) == "");
  CHECK(run_with("none", false) == "");
}

TEST_CASE("split_qkv, which is exact without bias and table, and what it may do without") {
  const auto split = [](const char* op, float fault, bool bias, bool table, bool back) {
    CheckedBackend backend = with_faulty_reference(op, add_to(1, fault));
    const OpRun run{backend, DType::kFloat32};
    const Tensor q = run.from(random_values(8, 1), {2, 2, 2});
    const Tensor k = run.from(random_values(4, 2), {2, 1, 2});
    const Tensor v = run.from(random_values(4, 3), {2, 1, 2});
    const Tensor qkv = run.from(random_values(16, 4), {2, 8});
    const Tensor b = bias ? run.from(random_values(8, 5), {8}) : Tensor();
    const Tensor angles = table ? run.from({1, 0, 0, 1}, {2, 2}) : Tensor();
    return divergence_of([&] {
      back ? backend.split_qkv_backward(qkv, b, q, k, v, angles)
           : backend.split_qkv(q, k, v, qkv, b, angles);
    });
  };
  CHECK_THAT(split("split_qkv", 1e-6f, false, true, false),
             ContainsSubstring("split_qkv: v (float32[2, 1, 2]) diverges in 1 of 4 elements"));
  CHECK(split("split_qkv", 1e-6f, true, false, false) == "");
  CHECK_THAT(split("split_qkv", 1e-3f, true, false, false),
             ContainsSubstring("split_qkv: v (float32[2, 1, 2]) diverges in 1 of 4 elements"));
  for (const bool bias : {false, true}) {
    for (const bool table : {false, true}) {
      CHECK(split("none", 0, bias, table, false) == "");
      CHECK(split("none", 0, bias, table, true) == "");
    }
  }
  CHECK_THAT(split("split_qkv_backward d_bias", 1e-3f, true, true, true),
             ContainsSubstring("split_qkv_backward: d_bias (float32[8]) diverges in 1 of 8"));
}

TEST_CASE("attention_block: o and lse") {
  for (const std::string op : {"attention_block", "attention_block lse"}) {
    CheckedBackend backend = with_faulty_reference(op, add_to(5, 1e-3f));
    const OpRun run{backend, DType::kFloat32};
    const Tensor q = run.from(random_values(24, 1), {3, 2, 4});
    const Tensor k = run.from(random_values(12, 2), {3, 1, 4}), v = k;
    const Tensor o = run.poisoned({3, 2, 4}), lse = run.poisoned({3, 2});
    const AttentionSpans spans = run.spans({0}, {3}, {0}, {3});
    const std::string message = divergence_of(
        [&] { backend.attention_block(AttentionMask::kCausal, spans, 0.5, q, k, v, o, lse); });
    CHECK_THAT(message, ContainsSubstring(op == "attention_block"
                                              ? "attention_block: o (float32[3, 2, 4]) diverges in "
                                                "1 of 24 elements, the first at [0, 1, 1]: "
                                              : "attention_block: lse (float32[3, 2]) diverges in "
                                                "1 of 6 elements, the first at [2, 1]: "));
  }
}

TEST_CASE("adamw, where weight and master are one tensor and where they are not") {
  const AdamWOptions options{.lr = 0.1, .step = 1};
  for (const bool one : {true, false}) {
    CheckedBackend backend = with_faulty_reference("adamw", add_to(2, 0.125f));
    const OpRun run{backend, DType::kFloat32};
    const Tensor master = run.filled(2, {4}), weight = one ? master : run.poisoned({4});
    const Tensor grad = run.filled(1, {4}), m = run.filled(0, {4}), v = run.filled(0, {4});
    CHECK_THAT(
        divergence_of([&] { backend.adamw(weight, master, grad, m, v, options); }),
        ContainsSubstring("adamw: weight (float32[4]) diverges in 1 of 4 elements, the first at "
                          "[2]: 1.89999998, by the reference 2.025"));
  }
  CheckedBackend backend = with_faulty_reference("adamw exp_avg_sq", add_to(0, 1e-6f));
  const OpRun run{backend, DType::kFloat32};
  const Tensor x = run.filled(2, {4}), m = run.filled(0, {4}), v = run.filled(0, {4});
  CHECK_THAT(divergence_of([&] { backend.adamw(x, x, run.filled(1, {4}), m, v, options); }),
             ContainsSubstring("adamw: exp_avg_sq (float32[4])"));
}

TEST_CASE("sample: a wrong token and a wrong log-prob") {
  const auto draw = [](const std::string& op, FaultyBackend::Fault fault) {
    CheckedBackend backend = with_faulty_reference(op, std::move(fault));
    const OpRun run{backend, DType::kFloat32};
    const SamplingOptions options{.key = rng_key(3, RngPurpose::kSampling)};
    const Tensor ids = run.ints({-1, -1}), log_prob = run.poisoned({2});
    return divergence_of([&] {
      backend.sample(ids, log_prob, run.from(random_values(16, 1), {2, 8}),
                     run.ints({0, 0, 0, 0, 1, 0, 0, 0}, {2, 4}), options);
    });
  };
  CHECK_THAT(draw("sample", [](const Tensor& ids) { ids.as<int32_t>()[1] ^= 1; }),
             ContainsSubstring("op 1, sample: ids (int32[2]) diverges in 1 of 2 elements, the "
                               "first at [1]: "));
  CHECK_THAT(draw("sample log_prob", add_to(0, 1e-3f)),
             ContainsSubstring("op 1, sample: log_prob (float32[2]) diverges in 1 of 2 elements"));
  CHECK(draw("none", {}) == "");
}

TEST_CASE("a fault in place shows at its op, outside of the rows that it is to change too") {
  CheckedBackend backend = with_faulty_reference("scatter_rows", add_to(7, 1e-6f));
  const OpRun run{backend, DType::kFloat32};
  const Tensor out = run.filled(1, {4, 2}), x = run.filled(3, {2, 2});
  CHECK_THAT(divergence_of([&] {
               backend.scatter_rows(out, x, run.ints({2, 0}));
             }),
             ContainsSubstring("op 1, scatter_rows: out (float32[4, 2]) diverges in 1 of 8 "
                               "elements, the first at [3, 1]: 1, by the reference 1.00000") &&
                 ContainsSubstring("the tolerance 0"));

  int64_t calls = 0;
  CheckedBackend turned = with_faulty_reference("rope", [&](const Tensor& t) {
    if (++calls == 2) t.as<float>()[0] += 1;
  });
  const OpRun on{turned, DType::kFloat32};
  const Tensor q = on.from(random_values(16, 1), {2, 2, 4});
  const Tensor table = on.poisoned({2, 4});
  turned.rope_table(table, on.ints({0, 5}), on.from({1, 0.1}, {2}));
  turned.rope(q, table, false);
  CHECK_THAT(divergence_of([&] { turned.rope(q, table, false); }),
             ContainsSubstring("op 3, rope: x (float32[2, 2, 4]) diverges in 1 of 16 elements"));
}

TEST_CASE("an element that an op leaves out shows, though its memory held the right value") {
  struct LeavesOut final : cpu::CpuBackend {
    void gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows) override {
      const float kept = out.as<float>()[1];
      CpuBackend::gather_rows(out, x, rows);
      out.as<float>()[1] = kept;
    }
  };
  CheckedBackend backend(std::make_unique<LeavesOut>(), std::make_unique<cpu::CpuBackend>());
  const OpRun run{backend, DType::kFloat32};
  const Tensor out = run.filled(4, {2, 1}), x = run.filled(4, {3, 1});
  const std::string message = divergence_of([&] { backend.gather_rows(out, x, run.ints({0, 2})); });
  CHECK_THAT(message,
             ContainsSubstring("gather_rows: out (float32[2, 1]) diverges in 1 of 2 elements, the "
                               "first at [1, 0]: ") &&
                 ContainsSubstring("nan, by the reference 4; the largest difference is inf"));
}

TEST_CASE("16-bit storage is widened for the reference, float64 and integers stay") {
  const auto backend = sound();
  const OpRun half{*backend, DType::kBFloat16}, wide{*backend, DType::kFloat64};
  const Tensor x = half.from({1, 2, 3, 1e-3, -5, 6}, {3, 2}), out = half.filled(0, {2, 2});
  backend->gather_rows(out, x, half.ints({2, 0}));
  CHECK(download(*backend, out) == std::vector<double>{-5, 6, 1, 2});
  backend->copy(half.filled(0, {3, 2}),
                OpRun{*backend, DType::kFloat32}.from(random_values(6, 1), {3, 2}));
  backend->add(wide.filled(0, {2}), wide.filled(1e-300, {2}), wide.filled(1e-300, {2}));
  backend->gather_rows(half.ints({0}, {1, 1}), half.ints({7, 8}, {2, 1}), half.ints({1}));
  // Beyond float16's range both sides store infinity.
  backend->copy(OpRun{*backend, DType::kFloat16}.filled(0, {1}),
                OpRun{*backend, DType::kFloat32}.filled(1e6, {1}));
}

TEST_CASE("every op of the table runs clean, and float32 against float64") {
  for (const DType reference : {DType::kFloat32, DType::kFloat64}) {
    const auto backend = sound(reference);
    for (const OpCase& c : op_cases()) {
      INFO(c.name << ", reference " << name_of(reference));
      CHECK_NOTHROW(run_case(c, {*backend, DType::kFloat32}));
    }
    CHECK(static_cast<CheckedBackend&>(*backend).checked_ops() > 100);
  }
}

TEST_CASE("training under the check gives the bare numbers, bit for bit") {
  for (const Layout& layout :
       {static_cp(1, 1, {}), with_tp(dynamic_cp(2, 1, kLongest / 2), 2, true)}) {
    INFO(layout.name);
    const auto config = make_config(layout.overrides, {});
    const auto on = [&](const parallel::MakeDevice& make) {
      return updates_of(config, DType::kFloat32, 2, layout.shuffle_packing, make);
    };
    const train::LayoutResult bare = on({});
    for (const DType reference : {DType::kFloat32, DType::kFloat64}) {
      const train::LayoutResult checked = on([&](const auto&, const auto& host) {
        return parallel::host_device(sound(reference), host);
      });
      CHECK(checked.losses == bare.losses);
      CHECK(checked.grad_norms == bare.grad_norms);
      CHECK(checked.gradients == bare.gradients);
      CHECK(checked.weights == bare.weights);
    }
  }
}

TEST_CASE("a training run stops at the first op that diverges") {
  const auto make = [](const auto&, const auto& host) {
    return parallel::host_device(
        std::make_unique<CheckedBackend>(
            std::make_unique<FaultyBackend>("rms_norm_backward d_w", add_to(1, 1)),
            std::make_unique<cpu::CpuBackend>()),
        host);
  };
  CHECK_THAT(
      divergence_of([&] { updates_of(make_config({}, {}), DType::kFloat32, 1, false, make); }),
      StartsWith("trainer.device=check: op ") &&
          ContainsSubstring("rms_norm_backward: d_w (float32[16]) diverges in 1 of 16"));
}
