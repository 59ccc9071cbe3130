// Each op of a layer, the head and the optimizer at a model's shapes. Bytes are what an op has to
// move: every input read once, every output written once, what it updates both.

#include <numeric>

#include "rig.h"
#include "roofline.h"

// Shape letters: see tensor/backend.h.

namespace verlcpp::bench {
namespace {

double bytes_of(std::initializer_list<Tensor> tensors) {
  double sum = 0;
  for (const Tensor& t : tensors) sum += static_cast<double>(t.bytes());
  return sum;
}

/// The shapes, and the rows so far.
class OpBench {
 public:
  explicit OpBench(const Options& options)
      : options_(options),
        c_(options.model),
        backend_(make_backend(options)),
        stats_(model::statistics_dtype(options.dtype)),
        rows_(std::accumulate(options.lengths.begin(), options.lengths.end(), int64_t{0})),
        head_rows_(head_rows(random_documents(options))) {}

  std::vector<Row> run() {
    const int64_t q_width = c_.heads * c_.head_dim, kv_width = c_.kv_heads * c_.head_dim;
    products("qkv", options_.dtype, rows_, q_width + 2 * kv_width, c_.hidden);
    products("o", options_.dtype, rows_, c_.hidden, q_width);
    products("gate_up", options_.dtype, rows_, 2 * c_.ffn, c_.hidden);
    products("down", options_.dtype, rows_, c_.hidden, c_.ffn);
    products("head", stats_, head_rows_, c_.vocab, c_.hidden);
    norms();
    heads();
    activation();
    token_rows();
    head();
    optimizer();
    return std::move(result_);
  }

 private:
  Tensor random(Shape shape) {
    return random_tensor(*backend_, options_.dtype, std::move(shape), ++seed_, 1,
                         MemoryTag::kWorkspace);
  }
  Tensor zeros(DType dtype, Shape shape) {
    const Tensor x = backend_->allocate(dtype, std::move(shape), MemoryTag::kWorkspace);
    backend_->fill_zero(x);
    return x;
  }
  Tensor statistics(Shape shape) { return zeros(stats_, std::move(shape)); }
  Tensor integers(int64_t count, int64_t below) {
    std::vector<int32_t> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int32_t>(i * 7919 % static_cast<size_t>(below));
    }
    return upload<int32_t>(*backend_, values, {count}, MemoryTag::kWorkspace);
  }

  void add(const std::string& name, Bound bound, double flops, double bytes,
           const std::function<void()>& body) {
    if (name.find(options_.filter) == std::string::npos) return;
    if (bound == Bound::kMatmul) {  // until the backend has chosen an algorithm
      constexpr int kTrials = 24;
      for (int i = 0; i < kTrials; ++i) body();
    }
    result_.push_back({.name = name,
                       .seconds = measure(*backend_, options_, false, body),
                       .bound = bound,
                       .flops = flops,
                       .bytes = bytes});
  }
  void moves(const std::string& name, double bytes, const std::function<void()>& body) {
    add(name, Bound::kBandwidth, 0, bytes, body);
  }

  /// y_MN = x_MK W_NK^T (y of dtype `out`) and its two gradients; that of W adds up in the dtype of
  /// statistics.
  void products(const std::string& name, DType out, int64_t m, int64_t n, int64_t k) {
    const Tensor x_MK = random({m, k}), w_NK = random({n, k}), y_MN = random({m, n});
    const Tensor d_w_NK = statistics({n, k});
    const double flops = matmul_flops(m, n, k);
    const std::string shape = " " + to_string({m, n, k});
    {
      const Tensor out_MN = out == options_.dtype ? y_MN : zeros(out, {m, n});
      add("matmul " + name + shape, Bound::kMatmul, flops, bytes_of({x_MK, w_NK, out_MN}),
          [&] { backend_->matmul(out_MN, x_MK, w_NK, false, true, false); });
    }
    add("matmul " + name + " d_x", Bound::kMatmul, flops, bytes_of({x_MK, w_NK, y_MN}),
        [&] { backend_->matmul(x_MK, y_MN, w_NK, false, false, false); });
    add("matmul " + name + " d_w", Bound::kMatmul, flops, bytes_of({x_MK, y_MN, d_w_NK, d_w_NK}),
        [&] { backend_->matmul(d_w_NK, y_MN, x_MK, true, false, true); });
  }

  void norms() {
    const Tensor x_TD = random({rows_, c_.hidden}), y_TD = random({rows_, c_.hidden});
    const Tensor d_TD = random({rows_, c_.hidden}), w_D = random({c_.hidden});
    const Tensor rstd_T = statistics({rows_}), d_w_D = statistics({c_.hidden});
    moves("rms_norm", bytes_of({x_TD, w_D, y_TD, rstd_T}),
          [&] { backend_->rms_norm(y_TD, rstd_T, x_TD, w_D, 1e-6); });
    const Tensor sum_TD = random({rows_, c_.hidden});
    moves("add_rms_norm", bytes_of({x_TD, d_TD, w_D, sum_TD, y_TD, rstd_T}),
          [&] { backend_->add_rms_norm(sum_TD, y_TD, rstd_T, x_TD, d_TD, w_D, 1e-6); });
    moves("rms_norm_backward", bytes_of({y_TD, x_TD, w_D, rstd_T, d_TD, d_w_D, d_w_D}),
          [&] { backend_->rms_norm_backward(d_TD, d_w_D, y_TD, x_TD, w_D, rstd_T, {}); });
    moves("rms_norm_backward + residual",
          bytes_of({y_TD, x_TD, w_D, rstd_T, sum_TD, d_TD, d_w_D, d_w_D}),
          [&] { backend_->rms_norm_backward(d_TD, d_w_D, y_TD, x_TD, w_D, rstd_T, sum_TD); });
    moves("add", bytes_of({x_TD, y_TD, d_TD}), [&] { backend_->add(d_TD, x_TD, y_TD); });
  }

  void heads() {
    const Tensor q_TNH = random({rows_, c_.heads, c_.head_dim});
    const Tensor k_TKH = random({rows_, c_.kv_heads, c_.head_dim});
    const Tensor v_TKH = random({rows_, c_.kv_heads, c_.head_dim});
    const int64_t width = (c_.heads + 2 * c_.kv_heads) * c_.head_dim;
    const Tensor qkv_TX = random({rows_, width}), bias_X = random({width});
    const Tensor d_bias_X = statistics({width}), inv_freq = statistics({c_.head_dim / 2});
    const Tensor positions_T = integers(rows_, 4096), table_TH = statistics({rows_, c_.head_dim});
    moves("rope_table", bytes_of({positions_T, inv_freq, table_TH}),
          [&] { backend_->rope_table(table_TH, positions_T, inv_freq); });
    const double visit = bytes_of({qkv_TX, q_TNH, k_TKH, v_TKH, table_TH});
    moves("split_qkv", visit + bytes_of({bias_X}),
          [&] { backend_->split_qkv(q_TNH, k_TKH, v_TKH, qkv_TX, bias_X, table_TH); });
    moves("split_qkv_backward", visit + bytes_of({d_bias_X, d_bias_X}),
          [&] { backend_->split_qkv_backward(qkv_TX, d_bias_X, q_TNH, k_TKH, v_TKH, table_TH); });
    moves("rope", bytes_of({q_TNH, q_TNH, table_TH}),
          [&] { backend_->rope(q_TNH, table_TH, false); });
  }

  void activation() {
    const Tensor gate_up_T2F = random({rows_, 2 * c_.ffn}), d_T2F = random({rows_, 2 * c_.ffn});
    const Tensor act_TF = random({rows_, c_.ffn});
    moves("swiglu", bytes_of({gate_up_T2F, act_TF}),
          [&] { backend_->swiglu(act_TF, gate_up_T2F); });
    moves("swiglu_backward", bytes_of({act_TF, gate_up_T2F, d_T2F}),
          [&] { backend_->swiglu_backward(d_T2F, act_TF, gate_up_T2F); });
    const Tensor x_TD = random({rows_, c_.hidden}), w_2FD = random({2 * c_.ffn, c_.hidden});
    const double flops = matmul_flops(rows_, 2 * c_.ffn, c_.hidden);
    add("gate_up + swiglu", Bound::kMatmul, flops, bytes_of({x_TD, w_2FD, act_TF}),
        [&] { backend_->gate_up(act_TF, {}, x_TD, w_2FD); });
    add("gate_up + swiglu, kept", Bound::kMatmul, flops,
        bytes_of({x_TD, w_2FD, act_TF, gate_up_T2F}),
        [&] { backend_->gate_up(act_TF, gate_up_T2F, x_TD, w_2FD); });
  }

  void token_rows() {
    const Tensor table_VD = random({c_.vocab, c_.hidden}), x_TD = random({rows_, c_.hidden});
    const Tensor y_TD = random({rows_, c_.hidden}), d_table_VD = statistics({c_.vocab, c_.hidden});
    const Tensor ids_T = integers(rows_, c_.vocab);
    std::vector<int32_t> order(static_cast<size_t>(rows_));
    std::iota(order.begin(), order.end(), 0);
    const Tensor order_T = upload<int32_t>(*backend_, order, {rows_}, MemoryTag::kWorkspace);
    const double touched = 2.0 * static_cast<double>(x_TD.numel() * size_of(stats_));
    moves("embedding", bytes_of({ids_T, x_TD, x_TD}),
          [&] { backend_->embedding(x_TD, table_VD, ids_T, 0); });
    moves("embedding_backward", bytes_of({ids_T, x_TD}) + touched,
          [&] { backend_->embedding_backward(d_table_VD, x_TD, ids_T, 0); });
    moves("gather_rows", bytes_of({order_T, x_TD, y_TD}),
          [&] { backend_->gather_rows(y_TD, x_TD, order_T); });
    moves("scatter_rows", bytes_of({order_T, x_TD, y_TD}),
          [&] { backend_->scatter_rows(y_TD, x_TD, order_T); });
  }

  void head() {
    const Tensor x_RD = random({head_rows_, c_.hidden}), w_VD = random({c_.vocab, c_.hidden});
    const KeptLogits kept = allocate_kept(*backend_, options_.dtype, head_rows_, c_.vocab);
    const Tensor labels_R = integers(head_rows_, c_.vocab);
    const std::vector<double> ones(static_cast<size_t>(head_rows_), 1.0);
    const Tensor ones_R = upload_as(*backend_, stats_, ones, {head_rows_}, MemoryTag::kWorkspace);
    const Tensor stats_R4 = zeros(DType::kFloat64, {head_rows_, 4});
    const Tensor log_prob_R = statistics({head_rows_}), entropy_R = statistics({head_rows_});
    const Tensor lse_R = statistics({head_rows_}), zeros_R = statistics({head_rows_});
    const double flops = matmul_flops(head_rows_, c_.vocab, c_.hidden);
    if (kept.shift_RG.defined()) {
      add("head_stats", Bound::kMatmul, flops, bytes_of({x_RD, w_VD, stats_R4}),
          [&] { backend_->head_stats(stats_R4, {}, x_RD, w_VD, labels_R, ones_R, 0); });
    }
    add("head_stats, kept", Bound::kMatmul, flops, bytes_of({x_RD, w_VD, stats_R4, kept.values_RV}),
        [&] { backend_->head_stats(stats_R4, kept, x_RD, w_VD, labels_R, ones_R, 0); });
    const Tensor stats_PR4 = stats_R4.view({1, head_rows_, 4});
    moves("token_log_prob", bytes_of({stats_PR4, log_prob_R, entropy_R, lse_R}),
          [&] { backend_->token_log_prob(log_prob_R, entropy_R, lse_R, stats_PR4); });
    moves("token_log_prob_backward", bytes_of({kept.values_RV, kept.values_RV}), [&] {
      backend_->token_log_prob_backward(kept.values_RV.memory_for(options_.dtype), kept, labels_R,
                                        ones_R, entropy_R, lse_R, ones_R, zeros_R, 0);
    });
  }

  /// On as many elements as the model has.
  void optimizer() {
    const Shape shape{c_.parameter_count()};
    const Tensor weight = random(shape);
    const Tensor master = stats_ == options_.dtype ? weight : statistics(shape);
    const Tensor grad =
        random_tensor(*backend_, stats_, shape, ++seed_, 1e-3, MemoryTag::kMainGrad);
    const Tensor exp_avg = statistics(shape), exp_avg_sq = statistics(shape);
    const Tensor squares = zeros(DType::kFloat64, {1});
    const double updated = 2 * bytes_of({master, exp_avg, exp_avg_sq}) + bytes_of({grad});
    moves("adamw", updated + (stats_ == options_.dtype ? 0 : bytes_of({weight})), [&] {
      backend_->adamw(weight, master, grad, exp_avg, exp_avg_sq,
                      {.lr = 1e-6, .weight_decay = 0.01});
    });
    moves("sum_squares", bytes_of({grad}), [&] { backend_->sum_squares(squares, grad); });
    moves("fill_zero", bytes_of({grad}), [&] { backend_->fill_zero(grad); });
  }

  const Options& options_;
  const model::ModelConfig& c_;
  std::unique_ptr<Backend> backend_;
  DType stats_;
  int64_t rows_, head_rows_;
  uint64_t seed_ = 0;
  std::vector<Row> result_;
};

}  // namespace

std::vector<Row> run_op(const Options& options) { return OpBench(options).run(); }

}  // namespace verlcpp::bench
