#pragma once

#include <string>
#include <vector>

#include "config/tree.h"

namespace verlcpp::config {

/// `value`, or `name=value`.
struct Argument {
  std::string name;
  Node value;
};

/// One call of the override grammar: int(3.7), str([1,2]), sort([3,1], reverse=true).
struct Call {
  std::string name;
  std::vector<Argument> arguments;
};

/// What a call of Hydra's grammar gives: int, float, str and bool convert a value, or each of a
/// list's or a map's, as Python converts it; sort orders a list. Throws GrammarError (position 0)
/// for what cannot be converted, for the functions that make sweeps and for unknown ones.
Node evaluate(const Call& call);

}  // namespace verlcpp::config
