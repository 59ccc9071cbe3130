#include "model/tp_shard.h"

#include "base/error.h"

namespace verlcpp::model {

TpShard tp_shard(const ModelConfig& config, const TpPlace& place) {
  expects(place.rank >= 0 && place.rank < place.size && tp_complaint(config, place.size).empty(),
          "the model cannot be cut this way");
  TpShard shard;
  shard.heads = config.heads / place.size;
  shard.first_head = shard.heads * place.rank;
  shard.ffn = config.ffn / place.size;
  shard.first_ffn = shard.ffn * place.rank;
  shard.first_token = config.vocab * place.rank / place.size;
  shard.vocab = config.vocab * (place.rank + 1) / place.size - shard.first_token;
  if (config.kv_heads >= place.size) {
    shard.kv_heads = config.kv_heads / place.size;
    shard.first_kv_head = shard.kv_heads * place.rank;
  } else {
    shard.kv_heads = 1;
    shard.kv_replicas = place.size / config.kv_heads;
    shard.first_kv_head = place.rank / shard.kv_replicas;
  }
  return shard;
}

std::string tp_complaint(const ModelConfig& config, int64_t size) {
  const auto text = [](int64_t n) { return std::to_string(n); };
  if (config.heads % size != 0) {
    return "must divide the model's " + text(config.heads) + " attention heads";
  }
  if (config.kv_heads % size != 0 && size % config.kv_heads != 0) {
    return "must divide the model's " + text(config.kv_heads) +
           " key-value heads or be a multiple of them";
  }
  if (config.ffn % size != 0) {
    return "must divide the model's intermediate_size of " + text(config.ffn);
  }
  if (config.vocab < size) return "exceeds the vocabulary of " + text(config.vocab) + " tokens";
  return "";
}

}  // namespace verlcpp::model
