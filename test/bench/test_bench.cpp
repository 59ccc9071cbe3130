// The benchmarks end to end on tiny sizes, and what they count on paper.

#include <cmath>
#include <nlohmann/json.hpp>

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
  for (const char* more :
       {"--device", "cpu", "--model", "tiny", "--repeat", "3", "--warmup", "1", "--json", "-"}) {
    arguments.push_back(more);
  }
  const test::Outcome outcome = test::run_binary(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out);
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
    REQUIRE(row.at("seconds").size() == 3);
    for (const double seconds : row.at("seconds").get<std::vector<double>>()) {
      CHECK((std::isfinite(seconds) && seconds > 0));
    }
    CHECK(row.at("min_s") <= row.at("median_s"));
    CHECK(row.at("median_s") <= row.at("max_s"));
    CHECK(row.at("flops").get<double>() + row.at("bytes").get<double>() + row.value("tokens", 0.0) >
          0);
    CHECK_FALSE(row.contains("roofline"));  // a limit is known for one GPU alone
  }
}

}  // namespace

TEST_CASE("every benchmark runs and says what it measured") {
  check_rows(run_bench("op", {"--lengths", "5,2,9", "--sample-milliseconds", "0.1"}),
             {"matmul qkv [16, 64, 32]", "matmul head d_w", "swiglu_backward", "logit_stats",
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
