#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/tree.h"

// How a word becomes a value, and back. Two spellings exist: YAML files (YAML 1.1 as OmegaConf
// loads it) and the command line (Hydra's override grammar, also used by resolver arguments).

namespace verlcpp::config {

/// A plain (unquoted) YAML word: null, bool (true/false/yes/no/on/off), int (100_000, 0x1f, 0b1,
/// 017, 1:30 in base 60), float (1e-6, 1., .inf), else a string or an interpolation. An integer
/// of more than 64 bits stays a string.
Scalar scalar_from_yaml(const std::string& word);

/// An unquoted word of the command line: null, true, false, inf and nan in any case, int, float,
/// else a string or an interpolation.
Scalar scalar_from_command_line(const std::string& word);

/// A text that is no number: an Interpolation when it holds a `${` that is not escaped, otherwise
/// the string with `\${` read as `${`.
Scalar string_or_interpolation(std::string text);
/// The inverse for a string: `${` becomes `\${`.
std::string escape_interpolation(const std::string& text);

/// The shortest digits that read back to the same double, as Python prints them: 1e-06, 0.1, 2.0,
/// inf, nan.
std::string format_float(double value);

}  // namespace verlcpp::config
