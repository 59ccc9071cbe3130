#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/tree.h"

// Python's conversions between values and texts, where Hydra and OmegaConf leave them to Python.

namespace verlcpp::config {

/// str(value): 1e-06, True, None, text, [1, 'a'].
std::string python_text(const Node& node);

/// How a key of a map that is written as a number or a bool is named: 16 for 0x10, True for true.
std::string key_name(const Scalar& key);

/// An integer that 64 bits do not hold, as Python prints it: without underscores and +.
std::string large_integer(std::string word);

/// What int() and float() read in a text, or nothing. An integer has 64 bits.
std::optional<int64_t> python_int(const std::string& text);
std::optional<double> python_float(const std::string& text);

}  // namespace verlcpp::config
