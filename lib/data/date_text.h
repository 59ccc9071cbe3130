#pragma once

#include <cstdint>
#include <string>

namespace verlcpp::data {

// Dates and times as pandas prints them: "2024-01-02", "03:04:05", "2024-01-02 03:04:05.000006".
// `per_second` is the unit of a count: 1, 1000, 1000000 or 1000000000 in a second. A fraction that
// is not zero has 6 digits, or 9 where nanoseconds need them. "" for a year outside of 1 to 9999.

/// `days` since 1970-01-01.
std::string date_text(int64_t days);
/// `count` since midnight.
std::string time_text(int64_t count, int64_t per_second);
/// `count` since 1970-01-01 00:00:00.
std::string timestamp_text(int64_t count, int64_t per_second);

}  // namespace verlcpp::data
