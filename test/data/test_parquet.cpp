#include <arrow/api.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "data/date_text.h"
#include "data/parquet.h"
#include "data/prompts.h"
#include "parquet_writer.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace verlcpp;
using namespace verlcpp::data;
using Catch::Matchers::ContainsSubstring;
using test::ParquetForm;
using test::TemporaryFolder;
using test::write_parquet;
using Json = nlohmann::ordered_json;

namespace {

const std::string kRows =
    R"({"data_source":"d","prompt":[{"role":"system","content":"s"},{"role":"user","content":"é"}],)"
    R"("reward_model":{"style":"rule","ground_truth":"7"},"extra_info":{"index":3,"scores":[0.5,null],"tags":[]}})"
    "\n"
    R"({"data_source":null,"prompt":[],"reward_model":null,"extra_info":{"index":null,"scores":null,"tags":["a"]}})"
    "\n"
    R"({"data_source":"","prompt":[null,{"role":null,"content":"c"}],"reward_model":{"style":null,"ground_truth":null},"extra_info":null})"
    "\n";

std::vector<Json> rows_of(const std::string& path, const std::vector<std::string>& columns = {}) {
  std::vector<Json> rows;
  for_each_parquet_row(path, columns,
                       [&](int64_t number, const Json& row, const std::string& problem) {
                         CHECK(number == static_cast<int64_t>(rows.size()) + 1);
                         rows.push_back(problem.empty() ? row : Json(problem));
                       });
  return rows;
}

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> rows;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) rows.push_back(Json::parse(line));
  return rows;
}

std::string failure(const std::string& path, const std::vector<std::string>& columns = {}) {
  try {
    rows_of(path, columns);
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

std::shared_ptr<arrow::Schema> one_column(const std::shared_ptr<arrow::DataType>& type) {
  return arrow::schema({arrow::field("x", type)});
}

/// What a column of `type` that holds `json` reads as.
Json read_back(const std::string& json, const std::shared_ptr<arrow::DataType>& type) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/x.parquet";
  write_parquet(path, "{\"x\":" + json + "}\n", {.schema = one_column(type)});
  const auto rows = rows_of(path);
  return rows.size() == 1 ? rows[0].at("x") : Json("not one row");
}

}  // namespace

TEST_CASE("nested rows come back from Parquet as they stand in JSON lines, however compressed") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/x.parquet";
  for (const char* compression : {"uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4_raw"}) {
    CAPTURE(compression);
    write_parquet(path, kRows,
                  {.compression = compression, .rows_per_group = 2, .schema = nullptr});
    CHECK(rows_of(path) == lines_of(kRows));
  }
}

TEST_CASE("columns of every kind become JSON") {
  using arrow::TimeUnit;
  CHECK(read_back("\"a\"", arrow::large_utf8()) == "a");
  CHECK(read_back("[]", arrow::list(arrow::float64())) == Json::array());
  CHECK(read_back("-7", arrow::int16()) == -7);
  CHECK(read_back("18446744073709551615", arrow::uint64()) == 18446744073709551615u);
  CHECK(read_back("0.1", arrow::float32()) == static_cast<double>(0.1f));
  CHECK(read_back("true", arrow::boolean()) == true);
  CHECK(read_back("null", arrow::boolean()).is_null());
  CHECK(read_back("\"1.50\"", arrow::decimal128(9, 2)) == "1.50");
  CHECK(read_back("\"2024-02-29 03:04:05\"", arrow::timestamp(TimeUnit::MICRO)) ==
        "2024-02-29 03:04:05");
  CHECK(read_back("\"1969-12-31 23:59:59\"", arrow::timestamp(TimeUnit::NANO, "UTC")) ==
        "1969-12-31 23:59:59+00:00");
}

TEST_CASE("categories, lists of fixed size and maps become JSON") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/x.parquet";
  auto* pool = arrow::default_memory_pool();
  arrow::StringDictionaryBuilder words;
  arrow::FixedSizeListBuilder pairs(pool, std::make_shared<arrow::Int8Builder>(), 2);
  arrow::MapBuilder maps(pool, std::make_shared<arrow::StringBuilder>(),
                         std::make_shared<arrow::Int64Builder>());
  for (int i = 0; i < 3; ++i) {
    REQUIRE(words.Append(i == 1 ? "b" : "a").ok());
    REQUIRE(pairs.Append().ok());
    auto& numbers = static_cast<arrow::Int8Builder&>(*pairs.value_builder());
    REQUIRE(numbers.AppendValues({static_cast<int8_t>(i), static_cast<int8_t>(-i)}).ok());
    REQUIRE(maps.Append().ok());
    REQUIRE(static_cast<arrow::StringBuilder&>(*maps.key_builder()).Append("k").ok());
    REQUIRE(static_cast<arrow::Int64Builder&>(*maps.item_builder()).Append(i).ok());
  }
  REQUIRE(words.AppendNull().ok());
  REQUIRE(pairs.AppendNull().ok());
  REQUIRE(maps.AppendNull().ok());
  std::vector<std::shared_ptr<arrow::Array>> arrays{
      words.Finish().ValueOrDie(), pairs.Finish().ValueOrDie(), maps.Finish().ValueOrDie()};
  const auto fields =
      arrow::schema({arrow::field("w", arrays[0]->type()), arrow::field("p", arrays[1]->type()),
                     arrow::field("m", arrays[2]->type())});
  write_parquet(path, arrow::Table::Make(fields, arrays));
  CHECK(rows_of(path) == lines_of(R"({"w":"a","p":[0,0],"m":[["k",0]]}
{"w":"b","p":[1,-1],"m":[["k",1]]}
{"w":"a","p":[2,-2],"m":[["k",2]]}
{"w":null,"p":null,"m":null})"));
}

TEST_CASE("dates and times are printed as pandas prints them") {
  CHECK(date_text(0) == "1970-01-01");
  CHECK(date_text(-1) == "1969-12-31");
  CHECK(date_text(2932896) == "9999-12-31");
  CHECK(date_text(2932897).empty());
  CHECK(date_text(-719162) == "0001-01-01");
  CHECK(date_text(-719163).empty());
  CHECK(time_text(11045, 1) == "03:04:05");
  CHECK(time_text(11045000006, 1000000) == "03:04:05.000006");
  CHECK(time_text(1, 1000000000) == "00:00:00.000000001");
  CHECK(timestamp_text(-1, 1000) == "1969-12-31 23:59:59.999000");
  CHECK(timestamp_text(INT64_MAX, 1).empty());
}

TEST_CASE("only the columns that are wanted are read, and must be readable") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/x.parquet";
  arrow::DurationBuilder durations(arrow::duration(arrow::TimeUnit::SECOND),
                                   arrow::default_memory_pool());
  REQUIRE(durations.Append(5).ok());
  arrow::Int64Builder numbers;
  REQUIRE(numbers.Append(1).ok());
  const auto fields =
      arrow::schema({arrow::field("n", arrow::int64()), arrow::field("took", durations.type())});
  write_parquet(path, arrow::Table::Make(fields, {numbers.Finish().ValueOrDie(),
                                                  durations.Finish().ValueOrDie()}));
  CHECK(rows_of(path, {"n"}) == lines_of("{\"n\":1}"));
  CHECK(rows_of(path, {"none"}) == lines_of("{}"));
  CHECK(failure(path) == path +
                             " column took is of type duration[s]; valid: text, numbers, booleans, "
                             "dates and times, lists, maps and structs of them");
}

TEST_CASE("bytes that are not UTF-8 and numbers that are none are told or null") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/x.parquet";
  arrow::BinaryBuilder bytes;
  REQUIRE(bytes.AppendValues({"caf\xC3\xA9", "caf\xE9"}).ok());
  arrow::DoubleBuilder numbers;
  REQUIRE(numbers.AppendValues({0.0 / 0.0, 1.5}).ok());
  const auto fields =
      arrow::schema({arrow::field("x", arrow::binary()), arrow::field("n", arrow::float64())});
  write_parquet(path, arrow::Table::Make(
                          fields, {bytes.Finish().ValueOrDie(), numbers.Finish().ValueOrDie()}));
  const auto rows = rows_of(path);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0] == Json::parse(R"({"x":"café","n":null})"));
  CHECK(rows[1] == "column x is not UTF-8");
}

TEST_CASE("a file that is no Parquet, or torn inside, is named with the last good row") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/x.parquet";
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += "{\"x\":\"" + std::to_string(i * 7919 % 3000) + "\"}\n";
  write_parquet(path, lines, {.rows_per_group = 2000, .schema = nullptr});
  CHECK(rows_of(path) == lines_of(lines));  // batches and row groups in order
  CHECK(why_unreadable_parquet(path).empty());
  {
    const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(path) * 3 / 4);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(middle);
    file << std::string(64, '\xFF');
  }
  CHECK_THAT(failure(path), ContainsSubstring(path + " breaks after row 2000: "));
  std::filesystem::resize_file(path, 100);
  CHECK_THAT(failure(path), ContainsSubstring(path + " cannot be read as Parquet: "));
  CHECK_THAT(why_unreadable_parquet(path), ContainsSubstring("cannot be read as Parquet: "));
}

TEST_CASE("prompt rows of a Parquet file are those of the JSON lines") {
  const TemporaryFolder folder;
  const std::string good = kRows.substr(0, kRows.find('\n') + 1);
  const std::string parquet = folder.path() + "/x.parquet";
  write_parquet(parquet, good + good);
  PromptOptions options;
  options.train_files = {parquet, folder.write("x.jsonl", good)};
  const auto rows = read_prompts(options);
  REQUIRE(rows.size() == 3);
  CHECK(rows[1].origin == parquet + ":2");
  CHECK(rows[2].row == 2);
  CHECK(rows[1].prompt.at(1).content == rows[2].prompt.at(1).content);
  CHECK(rows[1].ground_truth == rows[2].ground_truth);
  CHECK(rows[1].extra_json == rows[2].extra_json);
  CHECK(rows[1].extra_json == R"({"index":3,"scores":[0.5,null],"tags":[]})");
}
