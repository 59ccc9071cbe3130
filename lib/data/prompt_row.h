#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/message.h"
#include "data/row_report.h"

namespace verlcpp::data {

/// One row of data.train_files, in verl's columns.
struct PromptRow {
  int64_t row = 0;  // index in the concatenated files, before any subsampling
  std::string data_source;
  std::vector<Message> prompt;
  std::string ground_truth;  // reward_model.ground_truth; what is no string as JSON prints it
  std::string ground_truth_json = {};  // as JSON text, whatever it is; empty means the string above
  std::string tools_json = {};         // tools: a JSON list of schemas; empty without that column
  std::string extra_json;              // extra_info as JSON text; empty without that column
  std::string origin;  // "file:line", "file:row" in Parquet, "file[index]" in a JSON array
};

/// A row as far as it could be read. What is wrong with the rest has gone to a report.
struct ParsedRow {
  PromptRow row;
  bool has_prompt = false, has_data_source = false, has_ground_truth = false;
};

/// Names of the columns that differ from data set to data set, and what is to become of a row whose
/// prompt has a role that no conversation has.
struct RowColumns {
  std::string prompt_key = "prompt";
  std::string reward_fn_key = "data_source";
  Fate unknown_role = Fate::kStops;
};

/// Reads a row's columns, adding every wrong one to `report`, of which this is the row at hand. A
/// null counts as missing: a Parquet file has no other way to leave a field out.
ParsedRow parse_prompt_row(const nlohmann::ordered_json& json, const RowColumns& columns,
                           RowReport& report);

}  // namespace verlcpp::data
