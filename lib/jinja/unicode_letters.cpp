// What is a letter in which case, and title case, where the case mappings do not tell.

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

struct Range {
  uint32_t first, last;
};

/// Unicode's Other_Lowercase and Other_Uppercase: what is lower or upper without being Ll or Lu.
constexpr Range kOtherLower[] = {
    {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},
    {0x2E0, 0x2E4},     {0x345, 0x345},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},
    {0x1D78, 0x1D78},   {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},
    {0x2090, 0x209C},   {0x2170, 0x217F},   {0x24D0, 0x24E9},   {0x2C7C, 0x2C7D},
    {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA},
};
constexpr Range kOtherUpper[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189},
};
/// Punctuation inside words.
constexpr uint32_t kInsideWords[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,
                                     0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                     0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};

template <size_t n>
bool among(const Range (&ranges)[n], uint32_t c) {
  return std::ranges::any_of(ranges, [&](const Range& r) { return c >= r.first && c <= r.last; });
}

utf8proc_category_t category(uint32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

}  // namespace

bool is_lower(uint32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return category(c) == UTF8PROC_CATEGORY_LL || among(kOtherLower, c);
}

bool is_upper(uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  return category(c) == UTF8PROC_CATEGORY_LU || among(kOtherUpper, c);
}

bool is_title(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

bool is_case_ignorable(uint32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return std::ranges::find(kInsideWords, c) != std::end(kInsideWords);
  }
}

std::string to_title(uint32_t c) {
  std::string out;
  const auto title = static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
  const char* several = long_upper(c);
  if (several == nullptr || is_title(title)) {
    append_code_point(out, title);
    return out;
  }
  // Large is the first letter of several, and an iota below stays there.
  const std::string_view upper = several;
  constexpr uint32_t kIota = 0x399, kIotaBelow = 0x345;
  const bool greek = c >= 0x1F80 && c < 0x2000;
  bool large = false;
  for (size_t at = 0; at < upper.size();) {
    const uint32_t one = next_code_point(upper, at);
    const bool below = greek && one == kIota && large;
    append_code_point(out, !large ? one : below ? kIotaBelow : simple_lower(one));
    large = large || is_cased(one);
  }
  return out;
}

}  // namespace verlcpp::jinja
