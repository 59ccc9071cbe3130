#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace verlcpp::config {

/// What stands between `${` and `}`, taken apart: a key ("a", ".", "b", "[", "${x}", "]") or a
/// resolver's name ("oc", ".", "env"). A piece that begins with `${` is an interpolation.
struct Expression {
  std::vector<std::string> pieces;
  bool is_call = false;
  size_t arguments = 0;  // of a call: where they begin
};

/// Reads OmegaConf's grammar of interpolations. Throws GrammarError.
Expression parse_expression(std::string_view inside);

}  // namespace verlcpp::config
