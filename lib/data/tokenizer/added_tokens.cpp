#include "data/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/regex_syntax.h"
#include "data/tokenizer/unicode_forms.h"
#include "data/utf8.h"

namespace verlcpp::data {

namespace {

size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

/// `begin` moved left over white space, not past `limit`.
size_t over_space_before(std::string_view text, size_t begin, size_t limit) {
  while (begin > limit) {
    const size_t at = last_character(text.substr(0, begin));
    if (!is_white_space(utf8_front(text.substr(at)).code_point)) break;
    begin = at;
  }
  return std::max(begin, limit);
}

size_t over_space_after(std::string_view text, size_t end) {
  while (end < text.size()) {
    const Utf8Front front = utf8_front(text.substr(end));
    if (!is_white_space(front.code_point)) break;
    end += front.size;
  }
  return end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) {
  for (AddedToken& token : tokens) {
    expects(!token.content.empty(), "an added token has characters");
    if (token.single_word && !word_) {
      word_ = std::make_unique<Pattern>(Pattern::regex(kRustWord, "added_tokens"));
    }
    auto& bucket = tokens_[static_cast<unsigned char>(token.content[0])];
    bucket.push_back(std::move(token));
  }
  for (auto& bucket : tokens_) {
    std::stable_sort(bucket.begin(), bucket.end(), [](const auto& a, const auto& b) {
      return a.content.size() > b.content.size();
    });
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  for (const AddedToken& token : tokens_[static_cast<unsigned char>(text[0])]) {
    if (text.starts_with(token.content)) return &token;
  }
  return nullptr;
}

bool AddedTokens::stands_alone(std::string_view text, size_t begin, size_t end) const {
  const auto is_word = [&](size_t at) {
    const std::string_view character = text.substr(at, utf8_front(text.substr(at)).size);
    return word_->parts(character).front().is_match;
  };
  return (begin == 0 || !is_word(last_character(text.substr(0, begin)))) &&
         (end == text.size() || !is_word(end));
}

std::vector<Segment> AddedTokens::split(std::string_view text) const {
  std::vector<Segment> out;
  size_t covered = 0;  // may lie behind `at` after a token with rstrip
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->content.size();
    at = end;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    if (token->lstrip) begin = over_space_before(text, begin, covered);
    if (token->rstrip) end = over_space_after(text, end);
    if (covered < begin) out.push_back({covered, begin, -1});
    out.push_back({begin, end, token->id});
    covered = end;
  }
  if (covered < text.size()) out.push_back({covered, text.size(), -1});
  return out;
}

}  // namespace verlcpp::data
