#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/message.h"

namespace verlcpp::data {

/// A value as messages show it: JSON, cut to a few dozen bytes.
std::string shown_json(const nlohmann::ordered_json& json);

/// The message `json`, which a row calls `name`. `problem` hears of everything that is wrong: a
/// role that is no string; content that is neither a string nor a list of text parts, and none at
/// all without tool calls. A null counts as missing: a Parquet file has no other way to leave a
/// field out.
Message read_message(const nlohmann::ordered_json& json, const std::string& name,
                     const std::function<void(const std::string&)>& problem);

/// The column `tools` of a row (a list of JSON schemas, or that as text) as JSON; "" for null.
std::string read_tools(const nlohmann::ordered_json& json,
                       const std::function<void(const std::string&)>& problem);

}  // namespace verlcpp::data
