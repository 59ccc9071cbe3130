#include "data/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "base/error.h"
#include "data/tokenizer/regex_syntax.h"

namespace verlcpp::data {

namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string pcre2_message(int error) {
  unsigned char message[256] = {};
  pcre2_get_error_message(error, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

}  // namespace

struct Pattern::Compiled {
  std::unique_ptr<pcre2_code, Free> code;
  std::string where;
};

Pattern::Pattern() = default;
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

Pattern Pattern::literal(std::string text) {
  expects(!text.empty(), "a literal pattern has characters");
  Pattern out;
  out.literal_ = std::move(text);
  return out;
}

// Ruby's syntax, which Oniguruma has by default, lets ^ and $ match at every line.
Pattern Pattern::regex(const std::string& expression, const std::string& where) {
  const std::string translated = to_pcre2(expression, where);
  int error = 0;
  size_t offset = 0;
  std::unique_ptr<pcre2_code, Free> code(pcre2_compile(units(translated), translated.size(),
                                                       PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
                                                       &error, &offset, nullptr));
  if (!code) {
    throw DataError(where + ": regular expression \"" + expression + "\": " + pcre2_message(error));
  }
  // Without a JIT for this machine matching is slower, not different.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  Pattern out;
  out.compiled_ = std::make_unique<Compiled>(std::move(code), where);
  return out;
}

bool Pattern::find(std::string_view text, size_t from, size_t& begin, size_t& end) const {
  if (!compiled_) {
    begin = text.find(literal_, from);
    end = begin + literal_.size();
    return begin != std::string_view::npos;
  }
  const std::unique_ptr<pcre2_match_data, Free> data(pcre2_match_data_create(1, nullptr));
  const auto match = [&](uint32_t options) {
    return pcre2_match(compiled_->code.get(), units(text), text.size(), from,
                       options | PCRE2_NO_UTF_CHECK, data.get(), nullptr);
  };
  int result = match(0);
  // The interpreter keeps its state on the heap, where there is more room.
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    throw DataError(compiled_->where + ": splitting a text of " + std::to_string(text.size()) +
                    " bytes: " + pcre2_message(result));
  }
  begin = pcre2_get_ovector_pointer(data.get())[0];
  end = pcre2_get_ovector_pointer(data.get())[1];
  return true;
}

std::vector<Part> Pattern::parts(std::string_view text) const {
  std::vector<Part> out;
  size_t covered = 0;
  bool any = false;
  for (size_t from = 0, begin = 0, end = 0; from <= text.size() && find(text, from, begin, end);) {
    if (begin == end && any && covered == end) {
      do ++from;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80);
      continue;
    }
    if (covered != begin) out.push_back({covered, begin, false});
    out.push_back({begin, end, true});
    covered = from = end;
    any = true;
  }
  if (covered != text.size()) out.push_back({covered, text.size(), false});
  return out;
}

}  // namespace verlcpp::data
