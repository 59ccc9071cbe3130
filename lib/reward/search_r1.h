#pragma once

#include <span>
#include <string>
#include <string_view>

namespace verlcpp::reward {

/// verl's search_r1_like_qa_em.compute_score: 1 if the last <answer>...</answer> equals one of
/// `targets`, both in lower case without ASCII punctuation, the articles a, an and the, and
/// superfluous white space; else 0. A right answer among more than ten opening or closing tags
/// scores 1/4.
double score_search_r1(std::string_view response, std::span<const std::string> targets);

}  // namespace verlcpp::reward
