#include "options.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "peers.h"
#include "shapes.h"

namespace verlcpp::bench {
namespace {

/// What the flags hold before it is known how they fit together.
struct Flags {
  std::string dtype, heads, recompute = "none";
  int64_t hidden = 0, ffn = 0, layers = 0, vocab = 0;
  int64_t ranks = 0, ranks_per_gpu = 1;
  std::vector<std::string> kv{"2/64", "8/128"};
};

const CLI::Range kCount(int64_t{1}, int64_t{1} << 40);

void add_common(CLI::App& sub, Options& o) {
  sub.add_option("--device", o.device)
      ->check(CLI::IsMember({"cuda", "cpu"}))
      ->capture_default_str();
  sub.add_option("--repeat", o.repeat, "samples of each row")->check(kCount)->capture_default_str();
  sub.add_option("--warmup", o.warmup, "runs before the first sample")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  sub.add_option("--json", o.json, "file that takes all times as JSON, - for standard output");
}

void add_model(CLI::App& sub, Options& o, Flags& flags) {
  sub.add_option("--dtype", flags.dtype, "bfloat16 on cuda, float32 on cpu unless told otherwise")
      ->check(CLI::IsMember({"bfloat16", "float32", "float64"}));
  sub.add_option("--model", o.model_name)
      ->check(CLI::IsMember(model_names()))
      ->capture_default_str();
  sub.add_option("--heads", flags.heads, "query heads/kv heads/head dim, like 14/2/64");
  sub.add_option("--hidden", flags.hidden, "instead of the model's")->check(kCount);
  sub.add_option("--ffn", flags.ffn, "instead of the model's")->check(kCount);
  sub.add_option("--layers", flags.layers, "instead of the model's")->check(kCount);
  sub.add_option("--vocab", flags.vocab, "instead of the model's")->check(kCount);
}

void add_lengths(CLI::App& sub, Options& o) {
  sub.add_option("--lengths", o.lengths_text,
                 "documents of the packed batch: LN20, lognormal36, 16x2048, 5,7,9 or a JSON file")
      ->capture_default_str();
}

void add_prompt(CLI::App& sub, Options& o) {
  sub.add_option("--prompt-fraction", o.prompt_fraction,
                 "part of each document that is prompt: the head runs on the rest only. 0: on "
                 "every position that has a next token")
      ->check(CLI::Range(0.0, 0.999))
      ->capture_default_str();
  sub.add_option("--micro-batch-tokens", o.micro_batch_tokens,
                 "token budget of a micro-batch; 0: one takes everything")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
}

void add_samples(CLI::App& sub, Options& o) {
  sub.add_option("--sample-milliseconds", o.sample_milliseconds,
                 "a sample enqueues the same work until it takes so long")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  sub.add_option("--filter", o.filter, "only rows whose name holds this");
}

const CLI::Range kRanks(int64_t{1}, int64_t{1024});

void add_ranks(CLI::App& sub, Options& o, Flags& flags) {
  sub.add_option("--ranks", flags.ranks, "as many as the GPUs hold, two on the CPU, unless told")
      ->check(kRanks);
  sub.add_option("--ranks-per-gpu", flags.ranks_per_gpu, "more than one: no NCCL")
      ->check(kRanks)
      ->capture_default_str();
  sub.add_option("--bytes", o.bytes,
                 "sizes of messages, like 64K,1M,1G; 64K to 1G (16M on the CPU) in powers of 4 "
                 "unless told")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->check(kCount);
  sub.add_option("--kv", flags.kv, "kv heads/head dim of the K and V of a ring; 2/64,8/128")
      ->delimiter(',');
  sub.add_option("--rows", o.kv_rows, "tokens of that K and V; 512,2048,8192,32768")
      ->delimiter(',')
      ->check(kCount);
  sub.add_option("--copy-blocks", o.copy_blocks,
                 "blocks of the kernel that reads a peer's memory; 16,64")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{65535}));
}

void define(CLI::App& cli, Options& o, Flags& flags) {
  cli.require_subcommand(1);
  const auto kind = [&](const char* name, Kind value, const char* text) {
    CLI::App* sub = cli.add_subcommand(name, text);
    sub->callback([&o, name, value] {
      o.kind = value;
      o.kind_name = name;
    });
    add_common(*sub, o);
    return sub;
  };
  CLI::App* op = kind("op", Kind::kOp, "each op of a layer, the head and the optimizer");
  CLI::App* attention =
      kind("attention", Kind::kAttention, "packed causal attention, forward and backward");
  CLI::App* step = kind("step", Kind::kStep, "one training step: update_pass with AdamW");
  CLI::App* log_prob = kind("log-prob", Kind::kLogProb, "one log_prob_pass");
  CLI::App* decode = kind("decode", Kind::kDecode, "rollout::generate");
  CLI::App* comm =
      kind("comm", Kind::kComm, "movement between ranks, and copies of a peer's memory beside it");
  add_ranks(*comm, o, flags);
  for (CLI::App* sub : {op, attention, step, log_prob, decode}) add_model(*sub, o, flags);
  for (CLI::App* sub : {op, attention, step, log_prob}) add_lengths(*sub, o);
  for (CLI::App* sub : {op, step, log_prob}) add_prompt(*sub, o);
  for (CLI::App* sub : {op, attention, comm}) add_samples(*sub, o);
  for (CLI::App* sub : {step, log_prob}) {
    sub->add_flag("--fused-head", o.fused_head, "use_fused_kernels: logits in chunks, not kept");
  }
  step->add_option("--recompute", flags.recompute, "activations computed again in backward")
      ->check(CLI::IsMember({"none", "selective", "full"}))
      ->capture_default_str();
  decode->add_option("--batch", o.batch)->check(kCount)->capture_default_str();
  decode->add_option("--prompt", o.prompt)->check(kCount)->capture_default_str();
  decode->add_option("--new", o.new_tokens, "tokens of each response")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 40))
      ->capture_default_str();
  decode->add_option("--temperature", o.temperature, "0: greedy")->capture_default_str();
}

void set_heads(model::ModelConfig& model, const std::string& text) {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  char rest = 0;
  const int read = std::sscanf(text.c_str(), "%ld/%ld/%ld%c", &heads, &kv_heads, &head_dim, &rest);
  if (read != 3 || heads < 1 || kv_heads < 1 || head_dim < 2 || heads % kv_heads != 0 ||
      head_dim % 2 != 0) {
    throw ConfigError("--heads=" + text +
                      ": wanted query heads/kv heads/head dim, the first a multiple of the second, "
                      "the last even");
  }
  model.heads = heads;
  model.kv_heads = kv_heads;
  model.head_dim = head_dim;
}

KvShape kv_shape(const std::string& text) {
  KvShape shape;
  char rest = 0;
  const int read = std::sscanf(text.c_str(), "%ld/%ld%c", &shape.heads, &shape.head_dim, &rest);
  if (read != 2 || shape.heads < 1 || shape.head_dim < 1 || shape.head_dim % 8 != 0) {
    throw ConfigError("--kv=" + text + ": wanted kv heads/head dim, the latter a multiple of 8");
  }
  return shape;
}

void complete_ranks(Options& o, const Flags& flags) {
  const bool cuda = o.device == "cuda";
  o.layout = rank_layout(flags.ranks, flags.ranks_per_gpu,
                         cuda ? std::optional(gpu_count()) : std::nullopt);
  if (o.bytes.empty()) {
    const int64_t most = int64_t{1} << (cuda ? 30 : 24);
    for (int64_t bytes = 64 << 10; bytes <= most; bytes *= 4) o.bytes.push_back(bytes);
  }
  for (const int64_t bytes : o.bytes) whole_bytes(bytes, o.layout.ranks);  // or it cannot be split
  for (const std::string& text : flags.kv) o.kv.push_back(kv_shape(text));
  if (o.kv_rows.empty()) o.kv_rows = {512, 2048, 8192, 32768};
  if (o.copy_blocks.empty()) o.copy_blocks = {16, 64};
}

void complete(Options& o, const Flags& flags) {
  if (o.kind == Kind::kComm) return complete_ranks(o, flags);
  o.model = model_named(o.model_name);
  if (!flags.heads.empty()) set_heads(o.model, flags.heads);
  const auto replace = [](int64_t& field, int64_t value) {
    if (value > 0) field = value;
  };
  replace(o.model.hidden, flags.hidden);
  replace(o.model.ffn, flags.ffn);
  replace(o.model.layers, flags.layers);
  replace(o.model.vocab, flags.vocab);
  const std::string dtype =
      !flags.dtype.empty() ? flags.dtype : (o.device == "cuda" ? "bfloat16" : "float32");
  if (dtype == (o.device == "cuda" ? "float64" : "bfloat16")) {
    throw ConfigError("--dtype=" + dtype + " does not run on " + o.device);
  }
  o.dtype = dtype_named(dtype).value();
  o.lengths = lengths_of(o.lengths_text);
  o.recompute = flags.recompute == "full"        ? model::Recompute::kFull
                : flags.recompute == "selective" ? model::Recompute::kSelective
                                                 : model::Recompute::kNone;
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv) {
  CLI::App cli("Benchmarks of verlcpp's engine through its public interfaces.", "bench");
  Options options;
  Flags flags;
  define(cli, options, flags);
  try {
    cli.parse(argc, argv);
  } catch (const CLI::Success& help) {
    cli.exit(help);
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    throw ConfigError(e.what());
  }
  complete(options, flags);
  return options;
}

}  // namespace verlcpp::bench
