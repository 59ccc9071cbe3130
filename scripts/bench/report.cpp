#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cuda/runtime.h"
#include "roofline.h"

namespace verlcpp::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double timed(Backend& backend, int64_t times, const std::function<void()>& body) {
  backend.synchronize();
  const auto start = Clock::now();
  for (int64_t i = 0; i < times; ++i) body();
  backend.synchronize();
  return seconds_since(start) / static_cast<double>(times);
}

const char* name_of(Bound bound) {
  switch (bound) {
    case Bound::kMatmul:
      return "matmul";
    case Bound::kBandwidth:
      return "bandwidth";
    case Bound::kNone:
      break;
  }
  return "none";
}

Json to_json(const Row& row, const Options& options) {
  const double middle = median(row.seconds);
  const auto [low, high] = std::minmax_element(row.seconds.begin(), row.seconds.end());
  Json json{{"name", row.name},   {"seconds", row.seconds}, {"median_s", middle},
            {"min_s", *low},      {"max_s", *high},         {"bound", name_of(row.bound)},
            {"flops", row.flops}, {"bytes", row.bytes}};
  if (row.tokens > 0) {
    json["tokens"] = row.tokens;
    json["tokens_per_second"] = static_cast<double>(row.tokens) / middle;
  }
  if (row.peak_bytes > 0) json["peak_bytes"] = row.peak_bytes;
  const double fraction = fraction_of_limit(row, options);
  if (fraction >= 0) json["roofline"] = fraction;
  if (fraction >= 0 && row.whole_pass) json["mfu_790"] = fraction;
  return json;
}

Json to_json(const model::ModelConfig& c) {
  return {{"layers", c.layers},
          {"hidden", c.hidden},
          {"heads", c.heads},
          {"kv_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"ffn", c.ffn},
          {"vocab", c.vocab},
          {"tied_embeddings", c.tied_embeddings},
          {"qkv_bias", c.qkv_bias},
          {"parameters", c.parameter_count()},
          {"layer_matrix_parameters", layer_matrix_parameters(c)}};
}

Json what_ran(const Options& o) {
  if (o.kind == Kind::kDecode) {
    return {{"batch", o.batch},
            {"prompt", o.prompt},
            {"new_tokens", o.new_tokens},
            {"temperature", o.temperature}};
  }
  Json json{{"lengths_name", o.lengths_text}, {"lengths", o.lengths}};
  if (o.kind == Kind::kAttention) return json;
  json["prompt_fraction"] = o.prompt_fraction;
  json["micro_batch_tokens"] = o.micro_batch_tokens;
  if (o.kind != Kind::kOp) json["fused_head"] = o.fused_head;
  if (o.kind == Kind::kStep) {
    json["recompute"] = o.recompute == model::Recompute::kFull        ? "full"
                        : o.recompute == model::Recompute::kSelective ? "selective"
                                                                      : "none";
  }
  return json;
}

Json device_json(const Options& o) {
  Json json{{"kind", o.device}};
  if (o.device != "cuda") return json;
  for (const auto& [key, value] : cuda::describe_device(0)) json[key] = value;
  return json;
}

void write(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    std::fputc('\n', stdout);
    return;
  }
  std::ofstream out(path);
  out << text << '\n';
  out.close();
  if (!out) throw DeviceError("the machine: " + path + " cannot be written");
}

std::string table(const Options& options, const std::vector<Row>& rows) {
  size_t width = 4;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  std::string text =
      fmt::format("{:<{}} {:>11} {:>11} {:>11} {:>9} {:>9} {:>12} {:>9} {:>9}\n", "", width,
                  "median ms", "min", "max", "TFLOP/s", "GB/s", "tokens/s", "limit", "of limit");
  const auto cell = [](double value, int digits) {
    return value > 0 ? fmt::format("{:.{}f}", value, digits) : std::string("-");
  };
  for (const Row& row : rows) {
    const double middle = median(row.seconds);
    const auto [low, high] = std::minmax_element(row.seconds.begin(), row.seconds.end());
    const double fraction = fraction_of_limit(row, options);
    text += fmt::format("{:<{}} {:>11.4f} {:>11.4f} {:>11.4f} {:>9} {:>9} {:>12} {:>9} {:>9}\n",
                        row.name, width, middle * 1e3, *low * 1e3, *high * 1e3,
                        cell(row.flops / middle / 1e12, 1), cell(row.bytes / middle / 1e9, 0),
                        cell(static_cast<double>(row.tokens) / middle, 0), name_of(row.bound),
                        fraction >= 0 ? fmt::format("{:.3f}", fraction) : "-");
  }
  return text;
}

}  // namespace

std::vector<double> measure(Backend& backend, const Options& options, bool once,
                            const std::function<void()>& body) {
  double estimate = 0;
  for (int64_t i = 0; i < options.warmup; ++i) estimate = timed(backend, 1, body);
  int64_t times = 1;
  if (!once && estimate > 0) {
    times = std::clamp(static_cast<int64_t>(options.sample_milliseconds / 1e3 / estimate),
                       int64_t{1}, int64_t{1000});
  }
  std::vector<double> samples;
  for (int64_t i = 0; i < options.repeat; ++i) samples.push_back(timed(backend, times, body));
  return samples;
}

double median(std::vector<double> values) {
  expects(!values.empty(), "a median of nothing");
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double fraction_of_limit(const Row& row, const Options& options) {
  if (options.device != "cuda") return -1;
  const double middle = median(row.seconds);
  if (row.bound == Bound::kBandwidth) return row.bytes / middle / kBytesPerSecond;
  if (row.bound == Bound::kMatmul && options.dtype == DType::kBFloat16) {
    return row.flops / middle / kMatmulFlopsPerSecond;
  }
  return -1;
}

void report(const Options& options, const std::vector<Row>& rows) {
  const std::string what = options.kind == Kind::kDecode
                               ? fmt::format("batch {}, prompt {}, {} new tokens", options.batch,
                                             options.prompt, options.new_tokens)
                               : options.lengths_text;
  std::FILE* out = options.json == "-" ? stderr : stdout;
  fmt::print(out, "{} {} {} on {}, {}\n{}", options.kind_name, options.model_name,
             verlcpp::name_of(options.dtype), options.device, what, table(options, rows));
  if (options.json.empty()) return;
  Json json{{"bench", options.kind_name},
            {"version", VERLCPP_VERSION},
            {"device", device_json(options)},
            {"dtype", verlcpp::name_of(options.dtype)},
            {"model_name", options.model_name},
            {"model", to_json(options.model)},
            {"what", what_ran(options)},
            {"repeat", options.repeat},
            {"warmup", options.warmup},
            {"limits",
             {{"matmul_flops_per_second", kMatmulFlopsPerSecond},
              {"bytes_per_second", kBytesPerSecond},
              {"source", "measured limits of an H200"}}},
            {"rows", Json::array()}};
  for (const Row& row : rows) json["rows"].push_back(to_json(row, options));
  write(options.json, json.dump(1));
}

}  // namespace verlcpp::bench
