#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "model/transformer.h"
#include "rank_layout.h"
#include "tensor/dtype.h"

namespace verlcpp::bench {

enum class Kind { kOp, kAttention, kStep, kLogProb, kDecode, kComm };

/// Of K and V of a token.
struct KvShape {
  int64_t heads = 0, head_dim = 0;
};

struct Options {
  Kind kind = Kind::kOp;
  std::string kind_name;
  std::string device = "cuda";
  DType dtype = DType::kBFloat16;
  int64_t repeat = 10, warmup = 3;
  double sample_milliseconds = 10;  // short ops are enqueued until one sample takes so long
  std::string json;                 // file, "-" for standard output, "" for none
  std::string filter;               // of op: only rows whose name holds it

  std::string model_name = "0.5B";
  model::ModelConfig model;
  std::string lengths_text = "LN20";
  std::vector<int64_t> lengths;
  double prompt_fraction = 0;      // of each document; the head runs on the rest
  int64_t micro_batch_tokens = 0;  // 0: everything at once
  model::Recompute recompute = model::Recompute::kNone;
  bool fused_head = false;  // logits of two small chunks of rows at a time

  int64_t batch = 64, prompt = 128, new_tokens = 512;  // decode
  double temperature = 0;

  RankLayout layout;           // comm
  std::vector<int64_t> bytes;  // of the messages
  std::vector<KvShape> kv;
  std::vector<int64_t> kv_rows;
  std::vector<int64_t> copy_blocks;  // of the kernel that reads a peer's memory
};

/// Nothing for --help, which it prints. ConfigError for everything that cannot run.
std::optional<Options> parse_options(int argc, char** argv);

}  // namespace verlcpp::bench
