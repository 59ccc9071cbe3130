// The benchmarks end to end on tiny sizes, and what they count on paper.

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "rank_layout.h"
#include "roofline.h"
#include "run_binary.h"
#include "shapes.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace verlcpp;
using namespace verlcpp::bench;
using Json = nlohmann::json;

namespace {

/// The JSON of one run of `bench`.
Json run_bench(const std::string& kind, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), kind);
  if (kind != "comm") arguments.insert(arguments.end(), {"--model", "tiny"});
  for (const char* more : {"--device", "cpu", "--repeat", "3", "--warmup", "1", "--json", "-"}) {
    arguments.push_back(more);
  }
  const test::Outcome outcome = test::run_binary(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out);
}

void check_seconds(const Json& row) {
  REQUIRE(row.at("seconds").size() == 3);
  for (const double seconds : row.at("seconds").get<std::vector<double>>()) {
    CHECK((std::isfinite(seconds) && seconds > 0));
  }
  CHECK(row.at("min_s") <= row.at("median_s"));
  CHECK(row.at("median_s") <= row.at("max_s"));
  CHECK_FALSE(row.contains("roofline"));  // a limit is known for GPUs alone
}

void check_rows(const Json& result, const std::vector<std::string>& names) {
  CHECK(result.at("device").at("kind") == "cpu");
  CHECK(result.at("dtype") == "float32");
  CHECK(result.at("model").at("hidden") == 32);
  for (const std::string& name : names) {
    INFO(name);
    CHECK(std::any_of(result.at("rows").begin(), result.at("rows").end(),
                      [&](const Json& row) { return row.at("name") == name; }));
  }
  for (const Json& row : result.at("rows")) {
    INFO(row.dump());
    check_seconds(row);
    CHECK(row.at("flops").get<double>() + row.at("bytes").get<double>() + row.value("tokens", 0.0) >
          0);
  }
}

}  // namespace

TEST_CASE("every benchmark runs and says what it measured") {
  check_rows(run_bench("op", {"--lengths", "5,2,9", "--sample-milliseconds", "0.1"}),
             {"matmul qkv [16, 64, 32]", "matmul head d_w", "swiglu_backward", "head_stats, kept",
              "token_log_prob_backward", "adamw"});
  check_rows(run_bench("attention", {"--lengths", "5,2,9", "--heads", "4/1/6"}),
             {"attention 4/1/6 forward", "attention 4/1/6 backward"});
  check_rows(
      run_bench("log-prob", {"--lengths", "3x7", "--prompt-fraction", "0.5", "--fused-head"}),
      {"log_prob_pass"});
  const Json step =
      run_bench("step", {"--lengths", "3x7", "--micro-batch-tokens", "14", "--recompute", "full"});
  check_rows(step, {"update_pass", "  forward and backward", "  optimizer"});
  CHECK(step.at("what").at("lengths") == Json({7, 7, 7}));
  CHECK(step.at("what").at("recompute") == "full");
  CHECK(step.at("rows")[0].at("tokens") == 21);
  check_rows(run_bench("decode", {"--batch", "3", "--prompt", "4", "--new", "5"}),
             {"generate", "  prefill and first token", "  one decoding step"});
}

TEST_CASE("comm measures every movement among ranks on the CPU") {
  const Json result = run_bench("comm", {"--ranks", "3", "--bytes", "100,4K", "--rows", "3,40",
                                         "--kv", "2/8", "--sample-milliseconds", "0.1"});
  CHECK(result.at("what").at("ranks") == 3);
  CHECK(result.at("what").at("bytes") == Json({100, 4096}));
  CHECK_FALSE(result.contains("model"));
  std::map<std::string, Json> rows;
  for (const Json& row : result.at("rows")) {
    INFO(row.dump());
    check_seconds(row);
    rows[row.at("name")] = row;
  }
  CHECK(rows.size() == 5 * 2 + 2 * 2);
  const auto factor = [&](const std::string& name, double bytes) {
    INFO(name);
    const Json& row = rows.at(name);
    CHECK(row.at("message_bytes") == bytes);
    return row.at("bus_bytes_per_second").get<double>() /
           row.at("algorithm_bytes_per_second").get<double>();
  };
  CHECK(factor("all_reduce fp32 96 B threads", 96) == Approx(4.0 / 3));
  CHECK(factor("all_reduce bf16 3.98 KiB threads", 4080) == Approx(4.0 / 3));
  CHECK(factor("reduce_scatter fp32 96 B threads", 96) == Approx(2.0 / 3));
  CHECK(factor("all_gather bf16 96 B threads", 96) == Approx(2.0 / 3));
  CHECK(factor("exchange bf16 96 B threads", 96) == Approx(1));
  CHECK(factor("kv 2/8 x 3, 192 B exchange threads", 192) == Approx(1));
  CHECK(factor("kv 2/8 x 40, 2.50 KiB copy", 2560) == Approx(1));
  CHECK(result.at("left_out").size() == 1);
}

TEST_CASE("comm refuses what cannot run, in one message") {
  const auto refused = [](std::vector<std::string> arguments, const std::string& message) {
    arguments.insert(arguments.begin(), {"comm", "--device", "cpu"});
    const test::Outcome outcome = test::run_binary(arguments);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring(message));
  };
  refused({"--ranks", "1"}, "--ranks=1: traffic takes two ranks");
  refused({"--ranks-per-gpu", "2"}, "--ranks-per-gpu=2: --device=cpu has no GPUs");
  refused({"--bytes", "1M,16"}, "--bytes=16: 2 ranks split 32 bytes or more");
  refused({"--kv", "2/12"}, "--kv=2/12: wanted kv heads/head dim");
  refused({"--model", "tiny"}, "--model");
  refused({"--bytes", "1K", "--kv", "2/8", "--rows", "8", "--filter", "nothing"},
          "--filter=nothing: no row's name holds this");
  refused({"--json", "/none/x.json"}, "--json=/none/x.json: No such file or directory; valid:");
}

TEST_CASE("ranks fill the GPUs there are") {
  const RankLayout all = rank_layout(0, 1, 4), shared = rank_layout(0, 3, 2);
  CHECK((all.ranks == 4 && all.gpus == 4));
  CHECK((shared.ranks == 6 && shared.gpus == 2));
  CHECK(rank_layout(4, 2, 8).gpus == 2);
  CHECK(rank_layout(0, 1, std::nullopt).ranks == 2);
  CHECK_THROWS_AS(rank_layout(3, 2, 8), ConfigError);
  CHECK_THROWS_AS(rank_layout(0, 1, 1), ConfigError);
  CHECK_THROWS_WITH(rank_layout(4, 1, 2),
                    Catch::Matchers::ContainsSubstring("4 GPUs are needed, this machine has 2"));
  CHECK(whole_bytes(100, 3) == 96);
  CHECK(whole_bytes(1 << 30, 4) == 1 << 30);
}

TEST_CASE("a filter leaves the other rows out") {
  const Json result = run_bench("op", {"--lengths", "4x2", "--filter", "rope"});
  CHECK(result.at("rows").size() == 2);
}

TEST_CASE("lengths come from presets, words and files") {
  const auto total = [](const std::string& text) {
    int64_t sum = 0;
    for (const int64_t s : lengths_of(text)) sum += s;
    return sum;
  };
  CHECK(lengths_of("LN20").size() == 20);
  CHECK(total("LN20") == 16384);
  CHECK(lengths_of("lognormal36").size() == 36);
  CHECK(total("lognormal36") == 32768);
  CHECK(lengths_of("2x3") == std::vector<int64_t>{3, 3});
  CHECK(lengths_of("7,2") == std::vector<int64_t>{7, 2});
  const test::TemporaryFolder folder;
  CHECK(lengths_of(folder.write("lengths.json", "[5, 6]")) == std::vector<int64_t>{5, 6});
  CHECK_THROWS_WITH(lengths_of(folder.write("bad.json", "[5, 6.5]")),
                    Catch::Matchers::ContainsSubstring("not a JSON array"));
  CHECK_THROWS_WITH(lengths_of("LN21"), Catch::Matchers::ContainsSubstring("--lengths=LN21"));
  CHECK_THROWS_WITH(lengths_of("4,1"), Catch::Matchers::ContainsSubstring("2 tokens or more"));
}

TEST_CASE("work on paper is the peer's formula") {
  const model::ModelConfig small = model_named("0.5B");
  CHECK(layer_matrix_parameters(small) == 357826560);
  CHECK(layer_matrix_parameters(model_named("1.5B")) == 1310195712);
  const std::vector<int64_t> lengths{3, 10};
  CHECK(attention_flops(14, 64, lengths) == 2 * 14 * 64 * (3 * 4 + 10 * 11));
  const double layers = 6 * 357826560.0 * 13, head = 6.0 * 896 * 151936 * 11;
  CHECK(step_flops(small, lengths, 11) ==
        Approx(layers + head + 3 * 24 * attention_flops(14, 64, lengths)));
  CHECK(decode_bytes(small, 64, 0, 2) == Approx(0.988e9).epsilon(1e-3));
  CHECK(decode_bytes(small, 1, 1, 2) - decode_bytes(small, 1, 0, 2) == 12288);
}

TEST_CASE("traffic on paper is NCCL-tests' and each tensor once through memory") {
  CHECK(bus_bytes(Movement::kAllReduce, 8, 4) == 12);
  CHECK(bus_bytes(Movement::kReduceScatter, 8, 4) == 6);
  CHECK(bus_bytes(Movement::kAllGather, 8, 4) == 6);
  CHECK(bus_bytes(Movement::kExchange, 8, 4) == 8);
  for (const Movement movement : {Movement::kAllReduce, Movement::kReduceScatter,
                                  Movement::kAllGather, Movement::kExchange}) {
    CHECK(bus_bytes(movement, 8, 1) == 0);  // nothing leaves a GPU that all share
  }
  CHECK(rank_memory_bytes(Movement::kAllReduce, 8, 4, 4) == 64);
  CHECK(rank_memory_bytes(Movement::kReduceScatter, 8, 4, 4) == 40);
  CHECK(rank_memory_bytes(Movement::kAllGather, 8, 4, 2) == 20);
  CHECK(rank_memory_bytes(Movement::kExchange, 8, 4, 1) == 16);
}
