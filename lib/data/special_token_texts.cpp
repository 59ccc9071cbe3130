#include "data/special_token_texts.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/text_file.h"

namespace verlcpp::data {
namespace {

using Json = nlohmann::ordered_json;

/// Adds what `json` names and `out` does not have: strings, or objects with the string as
/// "content".
void add_texts(const Json& json, std::map<std::string, std::string>& out) {
  for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                          "cls_token", "mask_token"}) {
    const Json value = json.value(key, Json());
    const Json text = value.is_object() ? value.value("content", Json()) : value;
    if (text.is_string()) out.emplace(key, text.get<std::string>());
  }
}

}  // namespace

Json read_json_object(const std::string& path) {
  Json json = Json::parse(read_text_file(path), nullptr, false);
  if (!json.is_object()) throw DataError(path + ": not a JSON object");
  return json;
}

std::map<std::string, std::string> read_special_token_texts(const std::string& folder) {
  std::map<std::string, std::string> texts;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::string path = folder + "/" + name;
    if (std::filesystem::exists(path)) add_texts(read_json_object(path), texts);
  }
  return texts;
}

}  // namespace verlcpp::data
