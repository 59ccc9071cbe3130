#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <string>

namespace verlcpp::test {

struct ParquetForm {
  std::string compression = "snappy";  // as Arrow names codecs
  int64_t rows_per_group = 1 << 20;
  std::shared_ptr<arrow::Schema> schema;  // of columns that are not to be guessed from the rows
};

/// Writes JSON lines as a Parquet file: one column a key, null where a row has no such key. Throws
/// std::runtime_error with Arrow's reason.
void write_parquet(const std::string& path, const std::string& json_lines,
                   const ParquetForm& form = {});
void write_parquet(const std::string& path, const std::shared_ptr<arrow::Table>& table,
                   const ParquetForm& form = {});

}  // namespace verlcpp::test
