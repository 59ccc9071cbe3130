#include "roofline.h"

namespace verlcpp::bench {
namespace {

double number(int64_t n) { return static_cast<double>(n); }

int64_t total(std::span<const int64_t> lengths) {
  int64_t sum = 0;
  for (const int64_t s : lengths) sum += s;
  return sum;
}

}  // namespace

double matmul_flops(int64_t m, int64_t n, int64_t k) {
  return 2.0 * number(m) * number(n) * number(k);
}

double attention_flops(int64_t heads, int64_t head_dim, std::span<const int64_t> lengths) {
  double pairs = 0;
  for (const int64_t s : lengths) pairs += number(s) * number(s + 1) / 2;
  return 4.0 * number(heads) * number(head_dim) * pairs;
}

double layer_matrix_parameters(const model::ModelConfig& c) {
  const int64_t q_and_o = 2 * c.hidden * c.heads * c.head_dim;
  const int64_t k_and_v = 2 * c.hidden * c.kv_heads * c.head_dim;
  return number(c.layers * (q_and_o + k_and_v + 3 * c.hidden * c.ffn));
}

double forward_flops(const model::ModelConfig& c, std::span<const int64_t> lengths,
                     int64_t head_rows) {
  return 2 * layer_matrix_parameters(c) * number(total(lengths)) +
         matmul_flops(head_rows, c.vocab, c.hidden) +
         number(c.layers) * attention_flops(c.heads, c.head_dim, lengths);
}

double step_flops(const model::ModelConfig& c, std::span<const int64_t> lengths,
                  int64_t head_rows) {
  return 3 * forward_flops(c, lengths, head_rows);
}

double decode_bytes(const model::ModelConfig& c, int64_t batch, double positions,
                    int64_t element_size) {
  const double matrices = layer_matrix_parameters(c) + number(c.vocab * c.hidden);
  const double cached = number(batch) * positions * number(2 * c.kv_heads * c.head_dim * c.layers);
  return (matrices + cached) * number(element_size);
}

double bus_bytes(Movement movement, double bytes, int64_t members) {
  const double others = number(members - 1) / number(members);
  switch (movement) {
    case Movement::kAllReduce:
      return 2 * others * bytes;
    case Movement::kReduceScatter:
    case Movement::kAllGather:
      return others * bytes;
    case Movement::kExchange:
      break;
  }
  return members > 1 ? bytes : 0;
}

double rank_memory_bytes(Movement movement, double bytes, int64_t ranks, int64_t here) {
  const bool whole_and_part =
      movement == Movement::kReduceScatter || movement == Movement::kAllGather;
  return number(here) * (bytes + (whole_and_part ? bytes / number(ranks) : bytes));
}

}  // namespace verlcpp::bench
