#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/value_parser.h"

namespace verlcpp::config {

/// Names of the options of the config group that is swept over.
using GroupOptions = std::function<std::vector<std::string>()>;

/// One sweep runs no more jobs than this.
inline constexpr size_t kMaxSweepJobs = 10000;

/// True when text[start..], what stands behind `=`, is a sweep of Hydra's grammar: a list with
/// commas (`1,2`) or one of the functions choice, range, glob, interval, sort, shuffle and tag.
/// False for a text that is neither that nor a value.
bool is_sweep_value(std::string_view text, size_t start);

/// The values of the sweep text[start..], in order, each as an override writes it; nothing for a
/// text that is no sweep. Elements of a list stay as typed, without the white space around them.
/// shuffle() gives the same order each time. Throws GrammarError for bad arguments, for interval(),
/// which has no list of values, and for a sweep without values.
std::optional<std::vector<std::string>> sweep_values(std::string_view text, size_t start,
                                                     const GroupOptions& options);

}  // namespace verlcpp::config
