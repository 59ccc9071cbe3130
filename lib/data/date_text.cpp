#include "data/date_text.h"

#include <fmt/format.h>

#include <chrono>

namespace verlcpp::data {
namespace {

constexpr int64_t kSecondsPerDay = 86400, kNano = 1000000000;
constexpr int64_t kFirstDay = -719162, kLastDay = 2932896;  // of the years 1 and 9999

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

std::string fraction(int64_t nanoseconds) {
  if (nanoseconds == 0) return "";
  return nanoseconds % 1000 == 0 ? fmt::format(".{:06}", nanoseconds / 1000)
                                 : fmt::format(".{:09}", nanoseconds);
}

}  // namespace

std::string date_text(int64_t days) {
  if (days < kFirstDay || days > kLastDay) return "";
  const std::chrono::year_month_day date{
      std::chrono::sys_days(std::chrono::days(static_cast<int>(days)))};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

std::string time_text(int64_t count, int64_t per_second) {
  const int64_t seconds = floor_div(count, per_second);
  const int64_t nanoseconds = (count - seconds * per_second) * (kNano / per_second);
  return fmt::format("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60) +
         fraction(nanoseconds);
}

std::string timestamp_text(int64_t count, int64_t per_second) {
  const int64_t days = floor_div(floor_div(count, per_second), kSecondsPerDay);
  const std::string date = date_text(days);
  if (date.empty()) return "";
  return date + " " + time_text(count - days * kSecondsPerDay * per_second, per_second);
}

}  // namespace verlcpp::data
