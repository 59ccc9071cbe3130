#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "config/tree.h"

// The value half of Hydra's override grammar, shared by overrides and resolver arguments.

namespace verlcpp::config {

/// A syntax error inside a text; whoever owns the text turns it into a ConfigError.
struct GrammarError {
  std::string message;
  size_t position = 0;  // zero-based
};

/// Reads text[start..] as one value of an override: a quoted or unquoted text, [list], {map} or
/// cast(...); empty is ''. Every node gets `origin`. Throws GrammarError.
Node parse_value(std::string_view text, size_t start, const Origin& origin);

/// Reads text[start..] as the comma-separated arguments of a resolver, where a missing one is ''.
/// Throws GrammarError.
List parse_arguments(std::string_view text, size_t start, const Origin& origin);

/// Reads a whole text as one argument of a resolver, as oc.decode does. Throws GrammarError.
Node parse_argument(std::string_view text, const Origin& origin);

/// One past the `}` that closes the `${` at `start`, minding nested braces and quotes. Throws
/// GrammarError when it is never closed.
size_t end_of_interpolation(std::string_view text, size_t start);

}  // namespace verlcpp::config
