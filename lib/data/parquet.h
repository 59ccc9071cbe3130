#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace verlcpp::data {

/// Why `path` cannot be read as Parquet, as "cannot be read as Parquet: ..."; "" when its footer
/// can.
std::string why_unreadable_parquet(const std::string& path);

/// Calls `visit(number, row, problem)` for every row of a Parquet file, numbers from 1. The row is
/// the JSON object that the same row would be in a JSONL file, with null for what is absent:
/// structs are objects, lists and maps arrays (of pairs), text and bytes strings, decimals strings;
/// dates, times and time stamps strings as pandas prints them, a time stamp with a zone in UTC; NaN
/// and infinities null. `problem`, when not empty, says which column of this row has no such value
/// (bytes that are not UTF-8); the row is then empty. Reads a row group at a time, a thousand rows
/// at once, and of it the columns named, those that are there; all when `columns` is empty.
/// DataError, beginning with the path, when the file is not Parquet, is torn, or has a column of a
/// type with no such form.
void for_each_parquet_row(
    const std::string& path, const std::vector<std::string>& columns,
    const std::function<void(int64_t number, const nlohmann::ordered_json& row,
                             const std::string& problem)>& visit);

}  // namespace verlcpp::data
