#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/metrics.h"
#include "train/progress.h"

using namespace verlcpp;
using namespace verlcpp::train;
using Catch::Matchers::StartsWith;
using Lines = std::vector<std::string>;
namespace fs = std::filesystem;

namespace {

/// The folder as a path.
struct TempFolder : test::TemporaryFolder {
  fs::path path = test::TemporaryFolder::path();
};

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Metrics one(const std::string& name, double value) {
  Metrics metrics;
  metrics.set(name, value);
  return metrics;
}

}  // namespace

TEST_CASE("the console line is verl's, in the order the metrics were set") {
  Metrics metrics = one("actor/entropy", 0.31);
  metrics.set("actor/lr", 1e-6);
  metrics.set("training/global_step", 1);
  CHECK(console_line(1, metrics) ==
        "step:1 - actor/entropy:0.31 - actor/lr:1e-06 - training/global_step:1");
  metrics.set("actor/entropy", 0.5);  // keeps its place
  CHECK(console_line(2, metrics).starts_with("step:2 - actor/entropy:0.5 - actor/lr"));
  CHECK(metrics.at("actor/entropy") == 0.5);
  CHECK(std::isnan(metrics.at("none")));
}

TEST_CASE("a summary is mean, max and min") {
  Metrics metrics;
  metrics.set_summary("critic/score", std::vector<double>{1, 4, 1});
  metrics.set_summary("critic/none", {});
  CHECK(console_line(1, metrics) ==
        "step:1 - critic/score/mean:2 - critic/score/max:4 - critic/score/min:1");
}

TEST_CASE("a file row is verl's; numbers round-trip and what is not finite is null") {
  Metrics metrics = one("a", 0.1 + 0.2);
  metrics.set("b", std::numeric_limits<double>::quiet_NaN());
  metrics.set("c", -std::numeric_limits<double>::infinity());
  CHECK(json_line(7, metrics) ==
        R"({"step":7,"data":{"a":0.30000000000000004,"b":null,"c":null}})");
  CHECK(console_line(7, metrics).ends_with("b:nan - c:-inf"));
}

TEST_CASE("the file logger's path follows verl's variables") {
  unsetenv("VERL_FILE_LOGGER_PATH");
  unsetenv("VERL_FILE_LOGGER_ROOT");
  CHECK(metrics_path("p", "e") == "./p/e.jsonl");
  setenv("VERL_FILE_LOGGER_ROOT", "/logs", 1);
  CHECK(metrics_path("p", "e") == "/logs/p/e.jsonl");
  setenv("VERL_FILE_LOGGER_PATH", "/x/y.jsonl", 1);
  CHECK(metrics_path("p", "e") == "/x/y.jsonl");
  unsetenv("VERL_FILE_LOGGER_PATH");
  unsetenv("VERL_FILE_LOGGER_ROOT");
}

TEST_CASE("resuming cuts later rows and a torn line, and says so") {
  const TempFolder temp;
  const std::string path = (temp.path / "p/e.jsonl").string();
  const MetricsFile first(path);
  CHECK(first.open(0).empty());
  for (int64_t step : {1, 2, 3, 4}) first.append(step, one("a", 0.5));
  std::ofstream(path, std::ios::app) << R"({"step":5,"da)";

  const MetricsFile second(path);
  CHECK(second.open(2) ==
        Lines{"metrics file " + path + ": cut 2 row(s) after step 2 and a torn line"});
  second.append(3, one("a", 1));
  CHECK(text_of(path) ==
        "{\"step\":1,\"data\":{\"a\":0.5}}\n{\"step\":2,\"data\":{\"a\":0.5}}\n"
        "{\"step\":3,\"data\":{\"a\":1}}\n");
  CHECK(MetricsFile(path).open(3).empty());
}

TEST_CASE("a file that is not a metrics file is left alone") {
  const TempFolder temp;
  const std::string path = temp.write("notes.md", "# my notes\n{\"mine\":1}\n");
  CHECK_THROWS_WITH(MetricsFile(path).open(0),
                    Catch::Matchers::ContainsSubstring("is not a metrics row"));
  CHECK(text_of(path) == "# my notes\n{\"mine\":1}\n");
  CHECK_THROWS_WITH(MetricsFile("/dev/full").open(0),
                    Catch::Matchers::ContainsSubstring("is not a regular file"));
}

TEST_CASE(
    "a last row without its line feed is cut like a torn line, or ended if its step is done") {
  const TempFolder temp;
  const std::string path = (temp.path / "e.jsonl").string();
  std::ofstream(path) << "{\"step\":1,\"data\":{}}\n{\"step\":2,\"data\":{}}";  // no line feed
  CHECK(MetricsFile(path).open(1) == Lines{"metrics file " + path + ": cut a torn line"});
  CHECK(text_of(path) == "{\"step\":1,\"data\":{}}\n");
  std::ofstream(path, std::ios::app) << "{\"step\":2,\"data\":{}}";
  CHECK(MetricsFile(path).open(2).empty());
  CHECK(text_of(path) == "{\"step\":1,\"data\":{}}\n{\"step\":2,\"data\":{}}\n");
  CHECK(MetricsFile(path).open(2).empty());
}

TEST_CASE("blank last lines are harmless, a last line that is no row is torn") {
  const TempFolder temp;
  const std::string path = (temp.path / "e.jsonl").string();
  const std::string row = "{\"step\":1,\"data\":{}}\n";
  std::ofstream(path) << row << "\n \r\n";
  CHECK(MetricsFile(path).open(1).empty());
  CHECK(text_of(path) == row);
  std::ofstream(path) << row << "{\"step\":2,\"da@#\n";
  CHECK(MetricsFile(path).open(1) == Lines{"metrics file " + path + ": cut a torn line"});
  CHECK(text_of(path) == row);
  for (const std::string before : {"\n", "{\"step\":2,\"da\n"}) {
    const std::string inside = row + before + "{\"step\":2,\"data\":{}}\n";
    std::ofstream(path) << inside;
    CHECK_THROWS_WITH(MetricsFile(path).open(1),
                      Catch::Matchers::ContainsSubstring("is not a metrics row"));
    CHECK(text_of(path) == inside);
  }
}

TEST_CASE("a single line that is not ours is never cut") {
  const TempFolder temp;
  for (const std::string text : {"hello", "hello\n", "{\"step\":1,\"loss\":2}\n"}) {
    const std::string path = temp.write("e.jsonl", text);
    CHECK_THROWS_AS(MetricsFile(path).open(1), DataError);
    CHECK(text_of(path) == text);
  }
  const std::string path = temp.write("e.jsonl", "{\"st");  // the first row of a killed run
  CHECK(MetricsFile(path).open(0).size() == 1);
  CHECK(text_of(path).empty());
}

TEST_CASE("rows out of order are refused with their lines, and nothing is cut") {
  const TempFolder temp;
  std::string rows;
  for (int step : {1, 2, 5, 3, 4}) rows += "{\"step\":" + std::to_string(step) + ",\"data\":{}}\n";
  const std::string path = temp.write("e.jsonl", rows);
  for (int64_t done : {0, 4, 5}) {
    CHECK_THROWS_WITH(MetricsFile(path).open(done),
                      StartsWith("metrics file " + path +
                                 ": line 4 is of step 3, after step 5 of "
                                 "line 3; valid: rows in the order"));
  }
  CHECK(text_of(path) == rows);
}

TEST_CASE("a metrics file that cannot be written is found before the first step") {
  const TempFolder temp;
  std::ofstream(temp.path / "file") << "x";
  const std::string below = (temp.path / "file/e.jsonl").string();
  CHECK_THROWS_WITH(MetricsFile(below).open(0),
                    StartsWith("metrics file " + below + ": cannot create its folder: "));
  CHECK_THROWS_WITH(MetricsFile(temp.path.string()).open(0),
                    "metrics file " + temp.path.string() + " is not a regular file");
  CHECK_THROWS_WITH(MetricsFile("/dev/full").append(3, one("a", 1)),
                    StartsWith("metrics file /dev/full: cannot write the 26 bytes of step 3: No "
                               "space left on device"));
}

TEST_CASE("a row that does not fit is cut back at once, and fits once there is space") {
  const TempFolder temp;
  const std::string path = (temp.path / "e.jsonl").string();
  const MetricsFile file(path);
  file.append(1, one("a", 0.5));
  const std::string first = text_of(path);
  const auto limit = [](rlim_t bytes) {
    rlimit value{};
    getrlimit(RLIMIT_FSIZE, &value);
    value.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &value);
  };
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  limit(first.size() + 10);
  std::string message;
  try {
    file.append(2, one("a", 0.5));
  } catch (const DeviceError& e) {
    message = e.what();
  }
  limit(RLIM_INFINITY);
  std::signal(SIGXFSZ, before);
  CHECK(message ==
        "metrics file " + path + ": cannot write the 28 bytes of step 2: File too large");
  CHECK(text_of(path) == first);
  file.append(2, one("a", 0.5));
  CHECK(MetricsFile(path).open(2).empty());
}

TEST_CASE("rows that an earlier part of the run wrote elsewhere are missed aloud") {
  const TempFolder temp;
  const std::string path = (temp.path / "e.jsonl").string();
  CHECK(MetricsFile(path).open(4) ==
        Lines{"metrics file " + path +
              ": no rows of steps 1 to 4, which an earlier part of this run did"});
  MetricsFile(path).append(1, one("a", 1));
  CHECK(MetricsFile(path).open(2) ==
        Lines{"metrics file " + path +
              ": no rows of steps 2, which an earlier part of this run did"});
  MetricsFile(path).append(3, one("a", 1));
  MetricsFile(path).append(7, one("a", 1));
  const std::string rows = text_of(path);
  CHECK(MetricsFile(path).open(9) ==
        Lines{"metrics file " + path +
              ": no rows of steps 2, 4 to 6, 8 to 9, which an earlier part of this run did"});
  CHECK(text_of(path) == rows);
}

TEST_CASE("zeros that a loss of power left are cut like a torn line, and what follows them") {
  const TempFolder temp;
  const std::string path = (temp.path / "e.jsonl").string();
  const std::string row = "{\"step\":1,\"data\":{}}\n";
  const std::string zeros = "{\"step\":2,\"da" + std::string(40, '\0') + "\n";
  for (const std::string after : {"", "{\"step\":2,\"data\":{}}\n"}) {
    std::ofstream(path, std::ios::binary) << row << zeros << after;
    const auto messages = MetricsFile(path).open(1);
    REQUIRE(messages.size() == 1);
    CHECK_THAT(messages[0], Catch::Matchers::EndsWith("a torn line"));
    CHECK(text_of(path) == row);
  }
}

TEST_CASE("checking a metrics file changes nothing") {
  const TempFolder temp;
  const std::string path = temp.write("e.jsonl", "{\"step\":1,\"data\":{}}\n{\"step\":2,\"da");
  const std::string before = text_of(path);
  MetricsFile(path).check();
  CHECK(text_of(path) == before);
  MetricsFile((temp.path / "new/e.jsonl").string()).check();
  CHECK_FALSE(fs::exists(temp.path / "new"));
}

TEST_CASE("the progress bar shows share, counts and times") {
  CHECK(progress_bar(0, 10, 0, 0) ==
        "Training Progress:   0%|                    | 0/10 [00:00<00:00]");
  CHECK(progress_bar(4, 10, 8, 0) ==
        "Training Progress:  40%|########            | 4/10 [00:08<00:12]");
  // A resumed run's speed counts its own steps alone.
  CHECK(progress_bar(6, 10, 8, 4) ==
        "Training Progress:  60%|############        | 6/10 [00:08<00:16]");
  CHECK(progress_bar(10, 10, 130, 0) ==
        "Training Progress: 100%|####################| 10/10 [02:10<00:00]");
}

TEST_CASE("the plot draws a column a value, from the smallest to the largest") {
  CHECK(ascii_plot(std::vector<double>{0, 1, 2, 3}, 10, 4) ==
        "   3.000 |   *\n"
        "         |  *.\n"
        "         | *..\n"
        "   0.000 |*...\n"
        "         +----\n");
}

TEST_CASE("the plot shares a long series out over its width and leaves out what is not finite") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(ascii_plot(std::vector<double>{0, 2, 3, 5}, 2, 2) ==
        "   4.000 | *\n"
        "   1.000 |*.\n"
        "         +--\n");
  CHECK(ascii_plot(std::vector<double>{1, nan, 2}, 5, 2) ==
        "   2.000 |  *\n"
        "   1.000 |* .\n"
        "         +---\n");
  CHECK(ascii_plot({}, 5, 2).empty());
  CHECK(ascii_plot(std::vector<double>{nan}, 5, 2).empty());
}

TEST_CASE("a metrics row of step 0, before training, lies first and goes with a new start") {
  const TempFolder folder;
  const std::string path = (folder.path / "new/rows.jsonl").string();
  const MetricsFile file(path);
  Metrics metrics;
  metrics.set("val-core/a\"b/acc/mean@1", 0.5);
  CHECK(file.add_validation(0, metrics));
  CHECK(text_of(path) == "{\"step\":0,\"data\":{\"val-core/a\\\"b/acc/mean@1\":0.5}}\n");
  CHECK_FALSE(file.add_validation(0, metrics));
  file.append(1, metrics);
  CHECK(file.open(1).empty());
  CHECK(file.open(0) == Lines{"metrics file " + path + ": cut 2 row(s) from step 0 on"});
  CHECK(text_of(path).empty());
}

TEST_CASE("a validation goes into the last row, once") {
  const TempFolder folder;
  Metrics metrics;
  metrics.set("val-core/a/acc/mean@1", 0.5);
  metrics.set("timing_s/testing", 2);
  const std::string found = "\"val-core/a/acc/mean@1\":0.5,\"timing_s/testing\":2}}\n";
  const std::string rows = "{\"step\":1,\"data\":{\"a\":1}}\n{\"step\":2,\"data\":{";
  const std::string path = folder.write("rows.jsonl", rows + "\"a\":1}}\n");
  const MetricsFile file(path);
  CHECK(file.lacks_validation(2));
  CHECK_FALSE(file.lacks_validation(3));  // no such row
  CHECK_FALSE(file.add_validation(1, metrics));
  CHECK(file.add_validation(2, metrics));
  CHECK(text_of(path) == rows + "\"a\":1," + found);
  CHECK_FALSE(file.lacks_validation(2));
  CHECK(file.lacks_validation(1));
  CHECK_FALSE(file.add_validation(2, metrics));
  CHECK(text_of(path) == rows + "\"a\":1," + found);
  CHECK(file.open(2).empty());

  folder.write("rows.jsonl", rows + "}}\n");
  CHECK(file.add_validation(2, metrics));
  CHECK(text_of(path) == rows + found);
  for (const char* end : {" }}\n\n", "} }\n"}) {  // whole rows, but not as we end them
    folder.write("rows.jsonl", rows + end);
    CHECK_FALSE(file.add_validation(2, metrics));
    CHECK(text_of(path) == rows + end);
  }
}

TEST_CASE("a validation's row is not added to rows of later steps, nor to half a row") {
  const TempFolder folder;
  const Metrics metrics;
  for (const std::string& text : std::vector<std::string>{
           "{\"step\":3,\"data\":{}}\n", "{\"step\":2,\"data\":{}}", "{\"step\":1,\"data\":{}}",
           "{\"step\":1,\"data\":{}}\n{\"ste", "{\"step\":1,\"data\":{}}\n\n"}) {
    const std::string path = folder.write("rows.jsonl", text);
    CHECK_FALSE(MetricsFile(path).add_validation(2, metrics));
    CHECK(text_of(path) == text);
  }
}

TEST_CASE("metrics as Python prints a dict") {
  Metrics metrics;
  CHECK(python_dict(metrics) == "{}");
  metrics.set("a/b@1", 0.5);
  metrics.set("c", 2);
  CHECK(python_dict(metrics) == "{'a/b@1': 0.5, 'c': 2}");
}
