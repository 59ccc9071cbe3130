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
    case Bound::kLink:
      return "link";
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
  if (row.message_bytes > 0) {
    json["message_bytes"] = row.message_bytes;
    json["algorithm_bytes_per_second"] = row.message_bytes / middle;
    json["bus_bytes_per_second"] = row.bus_bytes / middle;
    json["link_bytes"] = row.link_bytes;
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

Json ranks_that_ran(const Options& o) {
  Json json{{"ranks", o.layout.ranks},     {"ranks_per_gpu", o.layout.ranks_per_gpu},
            {"gpus", o.layout.gpus},       {"bytes", o.bytes},
            {"kv", Json::array()},         {"kv_rows", o.kv_rows},
            {"copy_blocks", o.copy_blocks}};
  for (const KvShape& kv : o.kv) {
    json["kv"].push_back({{"heads", kv.heads}, {"head_dim", kv.head_dim}});
  }
  return json;
}

Json what_ran(const Options& o) {
  if (o.kind == Kind::kComm) return ranks_that_ran(o);
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

size_t name_width(const std::vector<Row>& rows) {
  size_t width = 4;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  return width;
}

/// Of movement between ranks.
std::string traffic_table(const Options& options, const std::vector<Row>& rows) {
  const size_t width = name_width(rows);
  std::string text =
      fmt::format("{:<{}} {:>11} {:>11} {:>11} {:>9} {:>9} {:>9} {:>9}\n", "", width, "median ms",
                  "min", "max", "alg GB/s", "bus GB/s", "limit", "of limit");
  for (const Row& row : rows) {
    const double middle = median(row.seconds);
    const auto [low, high] = std::minmax_element(row.seconds.begin(), row.seconds.end());
    const double fraction = fraction_of_limit(row, options);
    text += fmt::format("{:<{}} {:>11.4f} {:>11.4f} {:>11.4f} {:>9.2f} {:>9.2f} {:>9} {:>9}\n",
                        row.name, width, middle * 1e3, *low * 1e3, *high * 1e3,
                        row.message_bytes / middle / 1e9, row.bus_bytes / middle / 1e9,
                        name_of(row.bound), fraction >= 0 ? fmt::format("{:.3f}", fraction) : "-");
  }
  return text;
}

std::string table(const Options& options, const std::vector<Row>& rows) {
  if (options.kind == Kind::kComm) return traffic_table(options, rows);
  const size_t width = name_width(rows);
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

std::string heading(const Options& o) {
  if (o.kind == Kind::kComm) {
    return fmt::format("{} on {}, {} ranks{}", o.kind_name, o.device, o.layout.ranks,
                       o.layout.gpus > 0 ? fmt::format(" on {} GPUs", o.layout.gpus) : "");
  }
  const std::string what =
      o.kind == Kind::kDecode
          ? fmt::format("batch {}, prompt {}, {} new tokens", o.batch, o.prompt, o.new_tokens)
          : o.lengths_text;
  return fmt::format("{} {} {} on {}, {}", o.kind_name, o.model_name, verlcpp::name_of(o.dtype),
                     o.device, what);
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
  if (row.bound == Bound::kLink) return row.link_bytes / middle / kLinkBytesPerSecond;
  if (row.bound == Bound::kMatmul && options.dtype == DType::kBFloat16) {
    return row.flops / middle / kMatmulFlopsPerSecond;
  }
  return -1;
}

void report(const Options& options, const std::vector<Row>& all) {
  std::vector<Row> rows;
  std::string left_out;
  Json left_out_json = Json::array();
  for (const Row& row : all) {
    if (row.left_out.empty()) {
      rows.push_back(row);
      continue;
    }
    left_out += "left out: " + row.name + ": " + row.left_out + "\n";
    left_out_json.push_back({{"name", row.name}, {"why", row.left_out}});
  }
  std::FILE* out = options.json == "-" ? stderr : stdout;
  fmt::print(out, "{}\n{}{}", heading(options), table(options, rows), left_out);
  if (options.json.empty()) return;
  Json json{
      {"bench", options.kind_name}, {"version", VERLCPP_VERSION}, {"device", device_json(options)}};
  if (options.kind != Kind::kComm) {
    json["dtype"] = verlcpp::name_of(options.dtype);
    json["model_name"] = options.model_name;
    json["model"] = to_json(options.model);
  }
  json.update({{"what", what_ran(options)},
               {"repeat", options.repeat},
               {"warmup", options.warmup},
               {"limits",
                {{"matmul_flops_per_second", kMatmulFlopsPerSecond},
                 {"bytes_per_second", kBytesPerSecond},
                 {"link_bytes_per_second", kLinkBytesPerSecond},
                 {"source", "measured limits of an H200; of its NVLink the line rate"}}},
               {"rows", Json::array()}});
  for (const Row& row : rows) json["rows"].push_back(to_json(row, options));
  if (!left_out_json.empty()) json["left_out"] = left_out_json;
  write(options.json, json.dump(1));
}

}  // namespace verlcpp::bench
