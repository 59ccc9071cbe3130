#include "data/tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <queue>

#include "base/error.h"
#include "data/utf8.h"

namespace verlcpp::data {

namespace {

/// Line feeds and their like spelled out, so that a message stays one line.
std::string on_one_line(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    } else {
      out += c == '\n' ? "\\n" : " ";
    }
  }
  return out;
}

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> out;
  size_t segment = 0;
  for (size_t at = 0; at < text.size();) {
    const auto& candidates = added_[static_cast<unsigned char>(text[at])];
    const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const auto& token) {
      return text.substr(at).starts_with(token.first);
    });
    if (found == candidates.end()) {
      ++at;
      continue;
    }
    encode_segment(text.substr(segment, at - segment), out);
    out.push_back(found->second);
    at += found->first.size();
    segment = at;
  }
  encode_segment(text.substr(segment), out);
  return out;
}

void Tokenizer::encode_segment(std::string_view text, std::vector<int32_t>& out) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte_ids_[byte] < 0) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "0x%02X", byte);
      const std::string around =
          utf8_lossy(text.substr(at < 20 ? 0 : at - 20, std::min<size_t>(at, 20) + 4));
      throw DataError(where_ + ": byte " + hex + " near \"" + on_one_line(around) +
                      "\" is not in the vocabulary of this tokenizer");
    }
    ids.push_back(byte_ids_[byte]);
  }
  if (!merges_.empty()) merge_pairs(ids);
  out.insert(out.end(), ids.begin(), ids.end());
}

// Byte-pair encoding (Sennrich et al. 2016): the pair of the lowest rank first, the leftmost of
// equal ones. A queue of candidate pairs over a linked list keeps it n log n, since without a
// pre-tokenizer's splitting a whole prompt is one word. A queue entry whose pair has changed since
// is skipped.
void Tokenizer::merge_pairs(std::vector<int32_t>& ids) const {
  struct Candidate {
    int32_t rank, left, id;  // `left`: position of the pair's first symbol
    bool operator<(const Candidate& other) const {
      return std::pair(rank, left) > std::pair(other.rank, other.left);
    }
  };
  const int32_t n = static_cast<int32_t>(ids.size());
  std::vector<int32_t> next(ids.size()), previous(ids.size());
  for (int32_t i = 0; i < n; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  std::priority_queue<Candidate> queue;
  const auto merge_at = [&](int32_t left) -> const Merge* {
    if (left < 0 || next[left] >= n) return nullptr;
    const auto found = merges_.find({ids[left], ids[next[left]]});
    return found == merges_.end() ? nullptr : &found->second;
  };
  const auto push = [&](int32_t left) {
    if (const Merge* merge = merge_at(left)) queue.push({merge->rank, left, merge->id});
  };
  for (int32_t i = 0; i < n; ++i) push(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    if (ids[top.left] < 0) continue;
    const Merge* merge = merge_at(top.left);
    if (merge == nullptr || merge->rank != top.rank) continue;
    const int32_t right = next[top.left];
    ids[top.left] = top.id;
    ids[right] = -1;
    next[top.left] = next[right];
    if (next[right] < n) previous[next[right]] = top.left;
    push(previous[top.left]);
    push(top.left);
  }
  std::erase(ids, -1);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) continue;
    const Token& token = tokens_[static_cast<size_t>(id)];
    if (!(skip_special && token.special)) bytes += token.bytes;
  }
  return utf8_lossy(bytes);
}

std::optional<int32_t> Tokenizer::token_id(std::string_view token) const {
  const auto found = ids_.find(std::string(token));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace verlcpp::data
