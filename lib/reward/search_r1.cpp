#include "reward/search_r1.h"

#include <algorithm>
#include <optional>

#include "reward/text.h"

namespace verlcpp::reward {
namespace {

constexpr TextView kOpen = U"<answer>", kClose = U"</answer>";

/// The last match of <answer>(.*?)</answer>, searched from the left.
std::optional<Text> last_answer(TextView response) {
  std::optional<Text> found;
  for (size_t at = response.find(kOpen); at != TextView::npos;) {
    const size_t begin = at + kOpen.size();
    const size_t end = response.find(kClose, begin);
    if (end == TextView::npos) break;
    found = strip(response.substr(begin, end - begin));
    at = response.find(kOpen, end + kClose.size());
  }
  return found;
}

bool is_punctuation(char32_t c) {
  constexpr TextView kPunctuation = U"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
  return kPunctuation.find(c) != TextView::npos;
}

/// Words between white space, less those that are articles. An article is a run of word characters
/// of its own, so that it may also touch a character that is neither space nor word.
Text without_articles(TextView text) {
  Text out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const TextView word = text.substr(at, end - at);
    if (word.empty()) {
      out += text[at++];
      continue;
    }
    const bool article = word == U"a" || word == U"an" || word == U"the";
    out += article ? TextView(U" ") : word;
    at = end;
  }
  return out;
}

Text single_spaced(TextView text) {
  Text out;
  for (const char32_t c : text) {
    if (!is_space(c)) {
      out += c;
    } else if (!out.empty() && out.back() != U' ') {
      out += U' ';
    }
  }
  return strip(out);
}

Text normalized(TextView answer) {
  Text text = lower(answer);
  std::erase_if(text, is_punctuation);
  return single_spaced(without_articles(text));
}

}  // namespace

double score_search_r1(std::string_view response, std::span<const std::string> targets) {
  constexpr size_t kMostTags = 10;
  const Text text = to_text(response);
  const std::optional<Text> answer = last_answer(text);
  if (!answer) return 0;
  const Text normal = normalized(*answer);
  const bool right = std::any_of(targets.begin(), targets.end(), [&](const std::string& target) {
    return normalized(to_text(target)) == normal;
  });
  if (!right) return 0;
  return count(text, kOpen) > kMostTags || count(text, kClose) > kMostTags ? 0.25 : 1.0;
}

}  // namespace verlcpp::reward
