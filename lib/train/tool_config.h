#pragma once

#include <string>

namespace verlcpp::train {

/// The tools in verl's tools file (data.tool_config_path), as verl shows them to the chat template:
/// a JSON list of the tool_schema of each; "" when it lists none. As verl's
/// OpenAIFunctionToolSchema reads and dumps them: known keys first, in its order; keys of
/// parameters and of properties that it does not know behind them, others dropped; nulls dropped. A
/// tool's class is not loaded: only single turns are made, which call no tool. ConfigError with
/// `about` (the key and its value), file, line and what would be valid.
std::string read_tool_config(const std::string& path, const std::string& about);

}  // namespace verlcpp::train
