#include "base/error.h"

namespace verlcpp {

void expects(bool condition, std::string_view what, std::source_location where) {
  if (condition) return;
  throw std::logic_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                         ": " + std::string(what));
}

}  // namespace verlcpp
