#pragma once

#include "config/compose.h"

namespace verlcpp::config {

/// The files of conf/, compiled in.
SearchPath embedded();

}  // namespace verlcpp::config
