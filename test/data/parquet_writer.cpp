#include "parquet_writer.h"

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/json/api.h>
#include <arrow/util/compression.h>
#include <parquet/arrow/writer.h>

#include <stdexcept>

namespace verlcpp::test {
namespace {

void check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

template <class T>
T take(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

}  // namespace

void write_parquet(const std::string& path, const std::string& json_lines,
                   const ParquetForm& form) {
  arrow::json::ReadOptions read = arrow::json::ReadOptions::Defaults();
  read.use_threads = false;
  arrow::json::ParseOptions parse = arrow::json::ParseOptions::Defaults();
  parse.explicit_schema = form.schema;
  const auto input =
      std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(json_lines));
  const auto reader =
      take(arrow::json::TableReader::Make(arrow::default_memory_pool(), input, read, parse));
  write_parquet(path, take(reader->Read()), form);
}

void write_parquet(const std::string& path, const std::shared_ptr<arrow::Table>& table,
                   const ParquetForm& form) {
  const auto codec = take(arrow::util::Codec::GetCompressionType(form.compression));
  const auto properties = parquet::WriterProperties::Builder().compression(codec)->build();
  // Keeps large strings and dictionaries what they are, as pandas does.
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  const auto out = take(arrow::io::FileOutputStream::Open(path));
  check(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, form.rows_per_group,
                                   properties, arrow_properties));
  check(out->Close());
}

}  // namespace verlcpp::test
