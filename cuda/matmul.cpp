#include "cuda/matmul.h"

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <compare>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cuda/check.h"
#include "cuda/library.h"
#include "cuda/matmul_tuner.h"

namespace verlcpp::cuda {
namespace {

/// The functions used.
struct Cublas {
  Library library{"matrix products", {"libcublasLt.so.13", "libcublasLt.so.12"}};
  decltype(cublasLtCreate)* create = library.function<decltype(cublasLtCreate)>("cublasLtCreate");
  decltype(cublasLtDestroy)* destroy =
      library.function<decltype(cublasLtDestroy)>("cublasLtDestroy");
  decltype(cublasLtMatmul)* matmul = library.function<decltype(cublasLtMatmul)>("cublasLtMatmul");
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic =
      library.function<decltype(cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
  decltype(cublasLtMatmulDescInit_internal)* init_description =
      library.function<decltype(cublasLtMatmulDescInit_internal)>(
          "cublasLtMatmulDescInit_internal");
  decltype(cublasLtMatmulDescSetAttribute)* describe =
      library.function<decltype(cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
  decltype(cublasLtMatrixLayoutInit_internal)* init_layout =
      library.function<decltype(cublasLtMatrixLayoutInit_internal)>(
          "cublasLtMatrixLayoutInit_internal");
  decltype(cublasLtMatmulPreferenceInit_internal)* init_preference =
      library.function<decltype(cublasLtMatmulPreferenceInit_internal)>(
          "cublasLtMatmulPreferenceInit_internal");
  decltype(cublasLtMatmulPreferenceSetAttribute)* prefer =
      library.function<decltype(cublasLtMatmulPreferenceSetAttribute)>(
          "cublasLtMatmulPreferenceSetAttribute");
};

void check_cublas(cublasStatus_t status, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw_library_failure("cuBLAS: " + what + " failed with status " +
                        std::to_string(static_cast<int>(status)));
}

cudaDataType type_of(const Tensor& x) {
  expects(x.dtype() == DType::kFloat32 || x.dtype() == DType::kBFloat16,
          "CUDA multiplies float32 and bfloat16");
  return x.dtype() == DType::kFloat32 ? CUDA_R_32F : CUDA_R_16BF;
}

/// The largest power of two up to 256 that divides the address.
uint32_t alignment_of(const Tensor& x) {
  const auto address = reinterpret_cast<uintptr_t>(x.data()) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

/// c^T = op(b)^T op(a)^T: cuBLAS is column-major, our tensors are row-major. Of the summands of
/// each element only the `count` from `first` on.
struct Product {
  const Tensor &c, &a, &b;
  bool transpose_a, transpose_b, accumulate;
  int64_t first, count;

  int64_t m() const { return c.dim(0); }
  int64_t n() const { return c.dim(1); }
  int64_t k() const { return count; }
  const std::byte* a_data() const { return a.data() + first * (transpose_a ? m() : 1) * size(a); }
  const std::byte* b_data() const { return b.data() + first * (transpose_b ? 1 : n()) * size(b); }
  double flops() const {
    return 2.0 * static_cast<double>(m()) * static_cast<double>(n()) * static_cast<double>(k());
  }
  std::string text() const {
    return "the product [" + std::to_string(m()) + ", " + std::to_string(n()) + ", " +
           std::to_string(k()) + "] in " + std::string(name_of(a.dtype()));
  }

 private:
  static int64_t size(const Tensor& x) { return size_of(x.dtype()); }
};

/// Products that one choice of algorithm serves. The numbers of rows and of summands, one of which
/// is a micro-batch's tokens, count as the next power of two.
struct ProductKind {
  int64_t m, n, k;
  int64_t a_stride, b_stride;  // of rows
  DType in, out;
  bool transpose_a, transpose_b, accumulate;
  uint32_t align_a, align_b, align_c;
  auto operator<=>(const ProductKind&) const = default;
};

int64_t power_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
}

ProductKind kind_of(const Product& p) {
  return {.m = power_of_two(p.m()),
          .n = p.n(),
          .k = power_of_two(p.k()),
          .a_stride = p.a.dim(1),
          .b_stride = p.b.dim(1),
          .in = p.a.dtype(),
          .out = p.c.dtype(),
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .accumulate = p.accumulate,
          .align_a = alignment_of(p.a),
          .align_b = alignment_of(p.b),
          .align_c = alignment_of(p.c)};
}

/// A product in the library's words.
struct Description {
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t a{}, b{}, c{};

  Description(const Cublas& cublas, const Product& p) {
    check_cublas(
        cublas.init_description(&operation, sizeof operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescInit");
    const cublasOperation_t first = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_cublas(cublas.describe(&operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first),
                 "cublasLtMatmulDescSetAttribute");
    check_cublas(cublas.describe(&operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
                 "cublasLtMatmulDescSetAttribute");
    const auto layout = [&](cublasLtMatrixLayoutOpaque_t& out, const Tensor& x, int64_t rows,
                            int64_t columns) {
      check_cublas(cublas.init_layout(&out, sizeof out, type_of(x), static_cast<uint64_t>(columns),
                                      static_cast<uint64_t>(rows), x.dim(1)),
                   "cublasLtMatrixLayoutInit");
    };
    const auto operand = [&](cublasLtMatrixLayoutOpaque_t& out, const Tensor& x, int64_t other,
                             bool summed_over_rows) {
      summed_over_rows ? layout(out, x, p.k(), other) : layout(out, x, other, p.k());
    };
    operand(a, p.b, p.n(), !p.transpose_b);
    operand(b, p.a, p.m(), p.transpose_a);
    layout(c, p.c, p.m(), p.n());
  }
};

}  // namespace

struct Matmul::State {
  struct Choice {
    std::vector<cublasLtMatmulAlgo_t> algorithms;  // the library's guess first
    MatmulTuner tuner;
  };
  struct Timed {  // on its way
    Choice* choice;
    int candidate;
    double flops;
    cudaEvent_t begin, end;
  };

  static constexpr int kCandidates = 8;
  Cublas cublas;
  cublasLtHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  Tensor workspace;
  bool tuned = false;
  std::function<void()> before_each;
  std::map<ProductKind, Choice> choices;
  std::deque<Timed> timed;
  std::vector<cudaEvent_t> idle_events;
  int64_t trials = 0;

  std::vector<cublasLtMatmulAlgo_t> algorithms(Description& d, const Product& p,
                                               const ProductKind& kind, int most) const {
    cublasLtMatmulPreferenceOpaque_t preference{};
    check_cublas(cublas.init_preference(&preference, sizeof preference),
                 "cublasLtMatmulPreferenceInit");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      check_cublas(cublas.prefer(&preference, what, &value, sizeof value),
                   "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace.bytes()));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kind.align_b);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kind.align_a);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kind.align_c);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kind.align_c);
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
    int count = 0;
    check_cublas(cublas.heuristic(handle, &d.operation, &d.a, &d.b, &d.c, &d.c, &preference, most,
                                  found.data(), &count),
                 "an algorithm for " + p.text());
    std::vector<cublasLtMatmulAlgo_t> all;
    for (int i = 0; i < count; ++i) {
      const auto& result = found[static_cast<size_t>(i)];
      if (result.state == CUBLAS_STATUS_SUCCESS) all.push_back(result.algo);
    }
    if (all.empty()) throw DeviceError("cuBLAS has no algorithm for " + p.text());
    return all;
  }

  Choice& choice_for(Description& d, const Product& p, const ProductKind& kind) {
    if (const auto found = choices.find(kind); found != choices.end()) return found->second;
    const bool choose = tuned && kind.in == DType::kBFloat16;
    std::vector<cublasLtMatmulAlgo_t> all = algorithms(d, p, kind, choose ? kCandidates : 1);
    const auto count = static_cast<int>(all.size());
    return choices.emplace(kind, Choice{std::move(all), MatmulTuner(count)}).first->second;
  }

  cublasStatus_t multiply(Description& d, const Product& p,
                          const cublasLtMatmulAlgo_t& algorithm) const {
    const float one = 1, beta = p.accumulate ? 1 : 0;
    return cublas.matmul(handle, &d.operation, &one, p.b_data(), &d.a, p.a_data(), &d.b, &beta,
                         p.c.data(), &d.c, p.c.data(), &d.c, &algorithm, workspace.data(),
                         static_cast<size_t>(workspace.bytes()), stream);
  }

  cudaEvent_t record() {
    cudaEvent_t event = nullptr;
    if (idle_events.empty()) {
      check(cudaEventCreate(&event), "cudaEventCreate");
    } else {
      event = idle_events.back();
      idle_events.pop_back();
    }
    check(cudaEventRecord(event, stream), "cudaEventRecord");
    return event;
  }

  void collect_times() {
    while (!timed.empty() && cudaEventQuery(timed.front().end) == cudaSuccess) {
      const Timed t = timed.front();
      timed.pop_front();
      idle_events.insert(idle_events.end(), {t.begin, t.end});
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, t.begin, t.end), "cudaEventElapsedTime");
      t.choice->tuner.report(t.candidate, 1e-3 * static_cast<double>(milliseconds) / t.flops);
    }
  }

  bool capturing() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }

  void run(const Product& product) {
    ProductKind kind = kind_of(product);
    if (!tuned || kind.in != DType::kBFloat16) {  // one algorithm a shape, whichever came first
      kind.m = product.m();
      kind.k = product.k();
    }
    Description description(cublas, product);
    Choice& choice = choice_for(description, product, kind);
    if (!timed.empty() && !capturing()) collect_times();
    if (run_choice(description, product, choice)) return;
    const auto own = algorithms(description, product, kind, 1);
    check_cublas(multiply(description, product, own.front()), product.text());
  }

  /// False where this algorithm serves the kind but not this product.
  bool run_choice(Description& d, const Product& p, Choice& choice) {
    // A graph's events tell no time.
    const auto [candidate, time_it] =
        capturing() ? MatmulTuner::Turn{choice.tuner.fastest(), false} : choice.tuner.next();
    if (time_it) ++trials;
    const cudaEvent_t begin = time_it ? record() : nullptr;
    const cublasStatus_t status = multiply(d, p, choice.algorithms[static_cast<size_t>(candidate)]);
    if (status == CUBLAS_STATUS_SUCCESS) {
      if (time_it) timed.push_back({&choice, candidate, p.flops(), begin, record()});
      return true;
    }
    if (begin != nullptr) idle_events.push_back(begin);
    if (time_it) choice.tuner.forget(candidate);
    choice.tuner.drop(candidate);
    return false;
  }
};

Matmul::Matmul(cudaStream_t stream, Tensor workspace, bool tuned, std::function<void()> before_each)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  check_cublas(s.cublas.create(&s.handle), "cublasLtCreate");
  s.stream = stream;
  s.workspace = std::move(workspace);
  s.tuned = tuned;
  s.before_each = std::move(before_each);
}

Matmul::~Matmul() {
  for (const State::Timed& t : state_->timed) {
    state_->idle_events.insert(state_->idle_events.end(), {t.begin, t.end});
  }
  for (cudaEvent_t event : state_->idle_events) cudaEventDestroy(event);
  if (state_->handle != nullptr) state_->cublas.destroy(state_->handle);
}

int64_t Matmul::trials() const { return state_->trials; }

void Matmul::run(const Tensor& c, const Tensor& a, const Tensor& b, bool transpose_a,
                 bool transpose_b, bool accumulate) {
  const int64_t summands = a.dim(transpose_a ? 0 : 1);
  const int64_t slice = a.dtype() == DType::kFloat32 ? kFloat32Summands : summands;
  for (int64_t first = 0; first < summands; first += slice) {
    state_->before_each();
    state_->run({.c = c,
                 .a = a,
                 .b = b,
                 .transpose_a = transpose_a,
                 .transpose_b = transpose_b,
                 .accumulate = accumulate || first > 0,
                 .first = first,
                 .count = std::min(slice, summands - first)});
  }
}

}  // namespace verlcpp::cuda
