#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace verlcpp::data {

/// A file that holds a JSON object. DataError when it does not.
nlohmann::ordered_json read_json_object(const std::string& path);

/// The texts of a model's special tokens by transformers' names ("eos_token", ...), those that its
/// folder names: in tokenizer_config.json, or else in special_tokens_map.json.
std::map<std::string, std::string> read_special_token_texts(const std::string& folder);

}  // namespace verlcpp::data
