#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace verlcpp::data {

/// A row as it stands in a file.
struct FileRow {
  std::string origin;  // "file:line", "file[index]" in a JSON array, "file:row" in Parquet
  const nlohmann::ordered_json* json;  // nullptr when it cannot be read
  std::string problem;                 // then why: "not JSON: column 7: ..."
};

/// What is wrong with a file of rows as a whole: its ending, that it cannot be opened, that it is
/// empty; "" when its rows can be read.
std::string row_file_problem(const std::string& path);

/// Calls `visit` for every row in order. A .jsonl or .json file is a JSON array or one object a
/// line, blank lines left out; a .parquet file gives the same JSON values as parquet.h says.
/// `columns` names those that are wanted (of a Parquet file no other is read); all when empty.
/// DataError when the file breaks in the middle of a row group or an array; its message begins with
/// the path.
void for_each_row(const std::string& path, const std::vector<std::string>& columns,
                  const std::function<void(const FileRow&)>& visit);

}  // namespace verlcpp::data
