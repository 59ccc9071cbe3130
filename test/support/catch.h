#pragma once

#include <string>

// Debian 12 ships Catch2 2.13, Ubuntu 24.04 ships 3.4.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>

namespace Catch::Matchers {
/// Version 3's name.
inline auto ContainsSubstring(const std::string& text) { return Contains(text); }
}  // namespace Catch::Matchers
#endif
