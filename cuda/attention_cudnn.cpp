#include "cuda/attention_cudnn.h"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "cuda/attention_plan_key.h"
#include "cuda/check.h"
#include "cuda/cudnn_frontend_loading.h"
#include "cuda/cudnn_library.h"
#include "cuda/ragged_spans.h"
#include "tensor/cuda_limits.h"

// cudnn-frontend's: where it looks cuDNN's functions up.
void* cudnn_frontend::cudnn_dlhandle = nullptr;

namespace verlcpp::cuda {
namespace {

namespace fe = cudnn_frontend;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

void check_cudnn(fe::error_t error, const std::string& what) {
  if (error.is_good()) return;
  throw_library_failure("cuDNN " + cudnn_version() + ": " + what + ": " + error.get_message());
}

enum Uid : int64_t {
  kQ = 1,
  kK,
  kV,
  kO,
  kLse,
  kDo,
  kDq,
  kDk,
  kDv,
  kQOffset,
  kKvOffset,
  kLseOffset,
  kQLength,
  kKvLength,
};

struct Plan {
  fe::graph::Graph graph;
  int64_t workspace = 0;
};

/// Offsets (elements) and lengths (rows) of the documents.
struct Ranges {
  Ranges() = default;  // one document, of which all rows are
  Ranges(fe::graph::Graph& graph, int64_t documents) {
    const auto entries = [&](Uid uid, int64_t n, fe::DataType_t type) {
      return graph.tensor(fe::graph::Tensor_attributes()
                              .set_uid(uid)
                              .set_dim({n, 1, 1, 1})
                              .set_stride({1, 1, 1, 1})
                              .set_data_type(type));
    };
    q_offset = entries(kQOffset, documents + 1, fe::DataType_t::INT64);
    kv_offset = entries(kKvOffset, documents + 1, fe::DataType_t::INT64);
    lse_offset = entries(kLseOffset, documents + 1, fe::DataType_t::INT64);
    q_length = entries(kQLength, documents, fe::DataType_t::INT32);
    kv_length = entries(kKvLength, documents, fe::DataType_t::INT32);
  }
  TensorPtr q_offset, kv_offset, lse_offset, q_length, kv_length;
};

/// Row-major [rows, heads, width] with documents at `offset` (one document: none), seen as
/// [documents, heads, length, width].
void pack(fe::graph::Tensor_attributes& tensor, Uid uid, int64_t documents, int64_t heads,
          int64_t length, int64_t width, const TensorPtr& offset) {
  tensor.set_uid(uid)
      .set_dim({documents, heads, length, width})
      .set_stride({heads * length * width, width, heads * width, 1});
  if (offset) tensor.set_ragged_offset(offset);
}

/// Builds one plan's graph: makes and names its tensors.
class GraphBuilder {
 public:
  GraphBuilder(fe::graph::Graph& graph, const AttentionPlanKey& key)
      : graph_(start(graph)),
        key_(key),
        ranges_(key.own_length ? Ranges() : Ranges(graph, key.documents)) {}

  void forward() {
    fe::graph::SDPA_attributes attributes;
    attributes.set_generate_stats(true);
    set_mask(attributes);
    auto [o, lse] = graph_.sdpa(input_q(kQ), input_kv(kK), input_kv(kV), attributes);
    o->set_output(true).set_data_type(fe::DataType_t::BFLOAT16);
    pack_q(*o, kO);
    lse->set_output(true).set_data_type(fe::DataType_t::FLOAT);
    pack_lse(*lse);
  }

  void backward(bool deterministic) {
    fe::graph::SDPA_backward_attributes attributes;
    attributes.set_deterministic_algorithm(deterministic);
    if (!key_.own_length) {
      attributes.set_max_total_seq_len_q(key_.q_rows).set_max_total_seq_len_kv(key_.kv_rows);
    }
    set_mask(attributes);
    fe::graph::Tensor_attributes lse;
    pack_lse(lse.set_data_type(fe::DataType_t::FLOAT));
    auto [d_q, d_k, d_v] =
        graph_.sdpa_backward(input_q(kQ), input_kv(kK), input_kv(kV), input_q(kO), input_q(kDo),
                             graph_.tensor(lse), attributes);
    for (const TensorPtr& x : {d_q, d_k, d_v}) {
      x->set_output(true).set_data_type(fe::DataType_t::BFLOAT16);
    }
    pack_q(*d_q, kDq);
    pack_kv(*d_k, kDk);
    pack_kv(*d_v, kDv);
  }

 private:
  static fe::graph::Graph& start(fe::graph::Graph& graph) {
    graph.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    return graph;
  }
  template <class Attributes>
  void set_mask(Attributes& attributes) const {
    attributes.set_name("attention").set_attn_scale(key_.scale);
    if (!key_.own_length) {
      attributes.set_padding_mask(true)
          .set_seq_len_q(ranges_.q_length)
          .set_seq_len_kv(ranges_.kv_length);
    }
    if (key_.mask == AttentionMask::kNone) return;
    attributes
        .set_diagonal_alignment(key_.mask == AttentionMask::kCausal
                                    ? fe::DiagonalAlignment_t::TOP_LEFT
                                    : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
  }
  void pack_q(fe::graph::Tensor_attributes& tensor, Uid uid) const {
    pack(tensor, uid, key_.documents, key_.heads, key_.q_length, key_.head_dim, ranges_.q_offset);
  }
  void pack_kv(fe::graph::Tensor_attributes& tensor, Uid uid) const {
    pack(tensor, uid, key_.documents, key_.kv_heads, key_.kv_length, key_.head_dim,
         ranges_.kv_offset);
  }
  void pack_lse(fe::graph::Tensor_attributes& tensor) const {
    pack(tensor, kLse, key_.documents, key_.heads, key_.q_length, 1, ranges_.lse_offset);
  }
  TensorPtr input_q(Uid uid) const {
    fe::graph::Tensor_attributes tensor;
    pack_q(tensor.set_data_type(fe::DataType_t::BFLOAT16), uid);
    return graph_.tensor(tensor);
  }
  TensorPtr input_kv(Uid uid) const {
    fe::graph::Tensor_attributes tensor;
    pack_kv(tensor.set_data_type(fe::DataType_t::BFLOAT16), uid);
    return graph_.tensor(tensor);
  }

  fe::graph::Graph& graph_;
  const AttentionPlanKey key_;
  const Ranges ranges_;
};

using Pointers = std::unordered_map<int64_t, void*>;

Pointers pointers_of(const AttentionArgs& args) {
  return {{kQ, const_cast<void*>(args.q)},
          {kK, const_cast<void*>(args.k)},
          {kV, const_cast<void*>(args.v)}};
}

void add_ranges(Pointers& pointers, const RaggedArrays& ranges) {
  pointers[kQOffset] = ranges.q_offset;
  pointers[kKvOffset] = ranges.kv_offset;
  pointers[kLseOffset] = ranges.lse_offset;
  pointers[kQLength] = ranges.q_length;
  pointers[kKvLength] = ranges.kv_length;
}

}  // namespace

struct CudnnAttention::State {
  explicit State(const BackendOptions& options)
      : deterministic(options.deterministic), who(options.who), repeated(options.own_length) {}

  std::shared_ptr<MemoryPool> pool;
  cudaStream_t stream = nullptr;
  const bool deterministic;
  const std::string who;  // begins messages
  cudnnHandle_t handle = nullptr;
  std::map<AttentionPlanKey, Plan> plans;
  RepeatedLengths repeated;

  /// The deterministic backward needs a workspace that grows with documents x length^2.
  bool by_length(bool backward) const { return deterministic && backward; }

  /// What a plan is built for.
  enum class Reason { kPrepared, kMet, kRepeated };

  /// In its place: cuDNN's graphs are not to be moved.
  Plan& build(const AttentionPlanKey& key, Reason why) {
    try {
      return build_in(plans[key], key, why);
    } catch (...) {
      plans.erase(key);
      throw;
    }
  }

  Plan& build_in(Plan& plan, const AttentionPlanKey& key, Reason why) {
    const auto start = std::chrono::steady_clock::now();
    GraphBuilder builder(plan.graph, key);
    key.backward ? builder.backward(deterministic) : builder.forward();
    const std::string what = to_text(key);
    check_cudnn(plan.graph.build(handle, {fe::HeurMode_t::A}), what);
    check_cudnn(plan.graph.get_workspace_size(plan.workspace), what);
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    const std::string cost = std::to_string(static_cast<int64_t>(spent.count())) + " ms: " + what +
                             ", workspace " + std::to_string(plan.workspace) + " bytes";
    switch (why) {
      case Reason::kPrepared:
        log::debug(who + "cuDNN plan built in " + cost);
        break;
      case Reason::kMet:
        log::info(who + "cuDNN plan built, when first met, in " + cost);
        break;
      case Reason::kRepeated:
        log::info(who + "cuDNN plan built, for a length that keeps coming, in " + cost);
        break;
    }
    return plan;
  }

  /// False: it was there.
  bool prepare(const AttentionPlanKey& key) {
    if (plans.contains(key)) return false;
    const Plan& plan = build(key, Reason::kPrepared);
    if (plan.workspace > 0) workspace(key, plan);  // given back at once
    return true;
  }

  Plan& plan(const AttentionPlanKey& key) {
    const auto found = plans.find(key);
    return found != plans.end() ? found->second : build(key, Reason::kMet);
  }

  std::shared_ptr<std::byte> workspace(const AttentionPlanKey& key, const Plan& plan) const {
    try {
      return pool->allocate(plan.workspace, MemoryTag::kWorkspace);
    } catch (const DeviceError& error) {
      if (!deterministic || !key.backward) throw;
      throw DeviceError(
          "actor_rollout_ref.rollout.full_determinism, or deterministic_mode of "
          "actor_rollout_ref.actor.megatron.override_transformer_config, is on: the "
          "deterministic " +
          to_text(key) + " needs a workspace of " + std::to_string(plan.workspace) +
          " bytes; shorten or spread the documents, or switch it off: " + error.what());
    }
  }

  /// False where it is not to be had within the workspace of the bucket's plan, which is what
  /// memory was planned for.
  bool make_own_length_plan(const AttentionCall& call, const AttentionPlanKey& own) {
    const auto group = document_groups(call.q_lengths, call.kv_lengths, false).at(0);
    const int64_t planned = plan(plan_key(call, group)).workspace;
    try {
      const int64_t workspace = build(own, Reason::kRepeated).workspace;
      if (workspace <= planned) return true;
      plans.erase(own);
      log::debug(who + "not used, since it needs more than the bucket's " +
                 std::to_string(planned) + " bytes: " + to_text(own));
    } catch (const DeviceError& error) {
      log::debug(who + "no plan for this length alone: " + error.what());
    }
    return false;
  }

  /// Without ranges and padding mask cuDNN takes 8 % less (an H200, 16,384 tokens). Not where
  /// results are to repeat bit for bit: which plan computes depends on what was computed before.
  std::optional<AttentionPlanKey> own_length_plan(const AttentionCall& call, bool first_of_pass) {
    const auto own = deterministic ? std::nullopt : own_length_key(call);
    if (!own || plans.contains(*own)) return own;
    return repeated.pays(*own, first_of_pass) && make_own_length_plan(call, *own) ? own
                                                                                  : std::nullopt;
  }

  void run(const AttentionArgs& args, const AttentionSpans& spans, bool backward,
           Pointers& pointers) {
    const AttentionCall call = call_of(DType::kBFloat16, args, spans, backward);
    if (const auto own = own_length_plan(call, first_call(args, spans, backward))) {
      return execute(*own, pointers);
    }
    for (const RaggedGroup& ragged :
         ragged_groups(stream, *pool, args, spans, by_length(backward))) {
      add_ranges(pointers, ragged.arrays);
      execute(plan_key(call, ragged.group), pointers);
    }
  }

  void execute(const AttentionPlanKey& key, Pointers& pointers) {
    Plan& chosen = plan(key);
    const std::shared_ptr<std::byte> memory =
        chosen.workspace > 0 ? workspace(key, chosen) : nullptr;
    check_cudnn(chosen.graph.execute(handle, pointers, memory.get()), to_text(key));
  }
};

CudnnAttention::CudnnAttention(cudaStream_t stream, std::shared_ptr<MemoryPool> pool,
                               const BackendOptions& options)
    : state_(std::make_unique<State>(options)) {
  [[maybe_unused]] static void* const once = fe::cudnn_dlhandle = open_cudnn();
  state_->pool = std::move(pool);
  state_->stream = stream;
  const auto require = [](cudnnStatus_t status, const std::string& what) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    throw_library_failure("cuDNN " + cudnn_version() + ": " + what + ": " +
                          fe::detail::get_error_string(status));
  };
  require(fe::detail::create_handle(&state_->handle), "cudnnCreate");
  require(fe::detail::set_stream(state_->handle, stream), "cudnnSetStream");
}

CudnnAttention::~CudnnAttention() {
  state_->plans.clear();
  if (state_->handle != nullptr) fe::detail::destroy_handle(state_->handle);
}

bool CudnnAttention::supports(const AttentionCall& call) {
  if (!cudnn_attends(call.dtype, call.head_dim)) return false;
  bool some = false;
  for (size_t s = 0; s < call.q_lengths.size(); ++s) {
    const int32_t q = call.q_lengths[s], kv = call.kv_lengths[s];
    if (call.mask == AttentionMask::kBottomRight && q > kv) return false;
    some |= q > 0 && kv > 0;
  }
  return some;
}

int64_t CudnnAttention::prepare(const AttentionCall& call) {
  int64_t built = 0;
  for (const DocumentGroup& group :
       document_groups(call.q_lengths, call.kv_lengths, state_->by_length(call.backward))) {
    built += state_->prepare(plan_key(call, group)) ? 1 : 0;
  }
  return built;
}

int64_t CudnnAttention::plans() const { return static_cast<int64_t>(state_->plans.size()); }

void CudnnAttention::forward(const AttentionArgs& args, const AttentionSpans& spans, void* o,
                             float* lse) {
  Pointers pointers = pointers_of(args);
  pointers[kO] = o;
  pointers[kLse] = lse;
  state_->run(args, spans, false, pointers);
}

void CudnnAttention::backward(const AttentionArgs& args, const AttentionSpans& spans, const void* o,
                              const float* lse, const void* d_o, void* d_q, void* d_k, void* d_v) {
  Pointers pointers = pointers_of(args);
  pointers[kO] = const_cast<void*>(o);
  pointers[kLse] = const_cast<float*>(lse);
  pointers[kDo] = const_cast<void*>(d_o);
  pointers[kDq] = d_q;
  pointers[kDk] = d_k;
  pointers[kDv] = d_v;
  state_->run(args, spans, true, pointers);
}

AttentionCall call_of(DType dtype, const AttentionArgs& args, const AttentionSpans& spans,
                      bool backward) {
  return {.mask = args.mask,
          .scale = args.scale,
          .dtype = dtype,
          .q_rows = args.q_rows,
          .kv_rows = args.kv_rows,
          .heads = args.heads,
          .kv_heads = args.kv_heads,
          .head_dim = args.head_dim,
          .q_lengths = spans.q_lengths,
          .kv_lengths = spans.kv_lengths,
          .backward = backward};
}

}  // namespace verlcpp::cuda
