#include "data/json_text.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace verlcpp::data {

using Json = nlohmann::ordered_json;

Json parse_json(std::string_view text) {
  return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxJsonDepth) {
      throw DataError("nested deeper than " + std::to_string(kMaxJsonDepth));
    }
    return true;
  });
}

Json parse_json_or_discard(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const Json::exception&) {
  } catch (const DataError&) {
  }
  return Json(Json::value_t::discarded);
}

}  // namespace verlcpp::data
