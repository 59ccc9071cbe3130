#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "jinja/template.h"

namespace verlcpp::test {

/// What `source` renders to with the variables of a JSON object.
inline std::string render(const std::string& source, const std::string& variables = "{}") {
  return jinja::Template(source, "t").render(nlohmann::ordered_json::parse(variables));
}

/// The message of what goes wrong.
inline std::string failure(const std::string& source, const std::string& variables = "{}") {
  try {
    return "renders: " + render(source, variables);
  } catch (const DataError& error) {
    return error.what();
  }
}

}  // namespace verlcpp::test
