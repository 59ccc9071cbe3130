#include "data/row_file.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "data/json_reason.h"
#include "data/json_text.h"
#include "data/line_file.h"
#include "data/parquet.h"

namespace verlcpp::data {
namespace {

using Json = nlohmann::ordered_json;
using Visit = std::function<void(const FileRow&)>;

std::string ending_of(const std::string& path) {
  return std::filesystem::path(path).extension().string();
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

/// '[' for a JSON array, '{' for one object a line, 0 for a file of blanks.
char first_character(const std::string& path) {
  char first = 0;
  for_each_line(path, 0, [&](const Line& line) {
    const size_t at = line.text.find_first_not_of(" \t\r");
    if (at == std::string_view::npos) return true;
    first = line.text[at];
    return false;
  });
  return first;
}

void for_each_line_row(const std::string& path, const Visit& visit) {
  for_each_line(path, 0, [&](const Line& line) {
    if (is_blank(line.text)) return true;
    FileRow row{.origin = path + ":" + std::to_string(line.number), .json = nullptr, .problem = ""};
    Json json;
    try {
      json = parse_json(line.text);
      row.json = &json;
    } catch (const Json::exception& error) {
      row.problem = "not JSON: " + json_reason(error.what(), true);
    } catch (const DataError& error) {
      row.problem = error.what();
    }
    visit(row);
    return true;
  });
}

void for_each_element(const std::string& path, const Visit& visit) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  Json array;
  try {
    array = parse_json(text.view());
  } catch (const Json::exception& error) {
    throw DataError(path + " is not JSON: " + json_reason(error.what(), false));
  } catch (const DataError& error) {
    throw DataError(path + " is " + error.what());
  }
  for (size_t i = 0; i < array.size(); ++i) {
    visit({.origin = path + "[" + std::to_string(i) + "]", .json = &array[i], .problem = ""});
  }
}

}  // namespace

std::string row_file_problem(const std::string& path) {
  const std::string ending = ending_of(path);
  const bool parquet = ending == ".parquet";
  if (!parquet && ending != ".json" && ending != ".jsonl") {
    return path + ": the ending '" + ending + "' is not known; .parquet, .json and .jsonl are read";
  }
  if (const std::string why = why_unreadable(path); !why.empty()) return path + " " + why;
  if (parquet) {
    if (std::filesystem::file_size(path) == 0) return path + " is empty";
    const std::string why = why_unreadable_parquet(path);
    return why.empty() ? "" : path + " " + why;
  }
  std::ifstream in(path, std::ios::binary);
  std::string magic(4, ' ');
  in.read(magic.data(), 4);
  if (magic == "PAR1") return path + " is a Parquet file; its name must end in .parquet";
  return first_character(path) == 0 ? path + " is empty" : "";
}

void for_each_row(const std::string& path, const std::vector<std::string>& columns,
                  const Visit& visit) {
  if (ending_of(path) == ".parquet") {
    for_each_parquet_row(path, columns,
                         [&](int64_t number, const Json& row, const std::string& problem) {
                           visit({.origin = path + ":" + std::to_string(number),
                                  .json = problem.empty() ? &row : nullptr,
                                  .problem = problem});
                         });
  } else if (first_character(path) == '[') {
    for_each_element(path, visit);
  } else {
    for_each_line_row(path, visit);
  }
}

}  // namespace verlcpp::data
