#include "data/tokenizer/unicode_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/error.h"
#include "data/utf8.h"

namespace verlcpp::data {

namespace {

struct Range {
  uint32_t first, last;
};

// Characters later than Unicode 9 which decompose, compose or are reordered, sorted. Source: the
// Unicode Character Database (15 as utf8proc 2.8 has it, and what 16 added) against Unicode 9.
constexpr Range kLater[] = {
    {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F1, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x105C0, 0x105F3}, {0x10781, 0x10785},
    {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D},
    {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11380, 0x113FF}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x11930, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16100, 0x1613F}, {0x16D40, 0x16D7F}, {0x16FF0, 0x16FF1}, {0x1CCD6, 0x1CCF9},
    {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1F16C, 0x1F16C},
    {0x1FBF0, 0x1FBF9}};

bool is_later(uint32_t code_point) {
  const auto* range = std::lower_bound(std::begin(kLater), std::end(kLater), code_point,
                                       [](const Range& r, uint32_t c) { return r.last < c; });
  return range != std::end(kLater) && range->first <= code_point;
}

void append_form(std::string_view text, UnicodeForm form, std::string& out) {
  if (text.empty()) return;
  const bool composed = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  const bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  const int options = UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                      (compatible ? UTF8PROC_COMPAT : 0);
  utf8proc_uint8_t* buffer = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &buffer,
                                             static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(buffer, &std::free);
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  expects(size >= 0, "text to normalize is valid UTF-8");
  out.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(size));
}

/// Full or later lower cases that utf8proc's simple ones of Unicode 15 lack.
uint32_t later_lower_case(uint32_t c) {
  constexpr std::pair<uint32_t, uint32_t> kSingle[] = {
      {0x1C89, 0x1C8A}, {0xA7CB, 0x264},  {0xA7CC, 0xA7CD}, {0xA7CE, 0xA7CF},
      {0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D5}, {0xA7DA, 0xA7DB}, {0xA7DC, 0x19B}};
  for (const auto& [upper, lower] : kSingle) {
    if (c == upper) return lower;
  }
  if (c >= 0x10D50 && c <= 0x10D65) return c + 0x20;
  if (c >= 0x16EA0 && c <= 0x16EB8) return c + 0x1B;
  return c;
}

}  // namespace

std::string normalized(std::string_view text, UnicodeForm form) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return std::string(text);
  std::string out;
  size_t from = 0, at = 0;
  while (at < text.size()) {
    const Utf8Front front = utf8_front(text.substr(at));
    // A character that is left alone parts what is before it from what follows.
    if (is_later(front.code_point)) {
      append_form(text.substr(from, at - from), form, out);
      out += text.substr(at, front.size);
      from = at + front.size;
    }
    at += front.size;
  }
  append_form(text.substr(from), form, out);
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const uint32_t c : code_points(text)) {
    if (c == 0x130) {  // the one character whose lower case is two
      out += "i\xCC\x87";
      continue;
    }
    const auto lower = static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    append_utf8(lower == c ? later_lower_case(c) : lower, out);
  }
  return out;
}

bool is_white_space(uint32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace verlcpp::data
