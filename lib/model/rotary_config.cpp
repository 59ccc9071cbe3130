#include "model/rotary_config.h"

#include <array>
#include <optional>
#include <utility>

namespace verlcpp::model {
namespace {

using Type = Rotary::Type;

constexpr std::array<std::pair<const char*, Type>, 4> kTypes{{{"default", Type::kDefault},
                                                              {"linear", Type::kLinear},
                                                              {"llama3", Type::kLlama3},
                                                              {"yarn", Type::kYarn}}};

/// "type" is the name of rope_type in files of before 2024.
Type read_type(const Fields& rope) {
  const std::string key = rope.find("rope_type") ? "rope_type" : "type";
  const nlohmann::json* value = rope.find(key);
  if (!value) return Type::kDefault;
  std::string valid;
  for (const auto& [name, type] : kTypes) {
    if (*value == name) return type;
    valid += (valid.empty() ? "" : ", ") + std::string(name);
  }
  rope.fail(key, valid + " (other rotary scaling is not supported)");
}

double read_attention_factor(const Fields& rope, double factor) {
  if (rope.find("attention_factor")) return rope.positive_number("attention_factor");
  if (rope.find("mscale") && rope.find("mscale_all_dim")) {
    return yarn_attention_factor(factor, rope.positive_number("mscale")) /
           yarn_attention_factor(factor, rope.positive_number("mscale_all_dim"));
  }
  return yarn_attention_factor(factor);
}

/// `original`: config.json's own original_max_position_embeddings, which comes before the block's.
void read_scaling(const Fields& rope, int64_t max_positions, std::optional<double> original,
                  Rotary& rotary) {
  rotary.type = read_type(rope);
  if (rotary.type == Type::kDefault) return;
  const bool yarn = rotary.type == Type::kYarn;
  const bool named = original || rope.find("original_max_position_embeddings");
  const auto original_context = [&](std::optional<double> absent) {
    return original ? *original : rope.positive_number("original_max_position_embeddings", absent);
  };
  if (yarn) rotary.original_context = original_context(static_cast<double>(max_positions));
  // Of yarn alone it may be absent: what the context was lengthened by.
  std::optional<double> absent;
  if (yarn && named) {
    absent = static_cast<double>(max_positions) / rotary.original_context;
  }
  rotary.factor = rope.positive_number("factor", absent);
  if (rotary.factor < 1) rope.fail("factor", "a number of at least 1");
  if (rotary.type == Type::kLlama3) {
    rotary.original_context = original_context({});
    rotary.low_freq_factor = rope.positive_number("low_freq_factor");
    rotary.high_freq_factor = rope.positive_number("high_freq_factor");
    if (rotary.high_freq_factor <= rotary.low_freq_factor) {
      rope.fail("high_freq_factor", "a number above low_freq_factor");
    }
  }
  if (yarn) {
    rotary.beta_fast = rope.positive_number("beta_fast", 32);
    rotary.beta_slow = rope.positive_number("beta_slow", 1);
    rotary.truncate = rope.boolean("truncate", true);
    rotary.attention_factor = read_attention_factor(rope, rotary.factor);
  }
}

}  // namespace

Rotary read_rotary(const Fields& config, int64_t max_positions) {
  Rotary rotary;
  rotary.theta = config.positive_number("rope_theta", 10000);
  std::optional<double> original;
  if (config.find("original_max_position_embeddings")) {
    original = config.positive_number("original_max_position_embeddings");
  }
  for (const std::string key : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* value = config.find(key);
    if (value == nullptr || *value == nlohmann::json::object()) continue;
    const Fields rope = config.object(key);
    rope.only("partial_rotary_factor", 1.0);
    rotary.theta = rope.positive_number("rope_theta", rotary.theta);
    read_scaling(rope, max_positions, original, rotary);
    return rotary;  // as in transformers, the older name's block stands alone
  }
  return rotary;
}

}  // namespace verlcpp::model
