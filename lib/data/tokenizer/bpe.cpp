#include "data/tokenizer/bpe.h"

#include <algorithm>
#include <cstdio>
#include <queue>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/byte_alphabet.h"
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

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

Bpe::Bpe(std::unordered_map<std::string, int32_t> vocab, Options options)
    : options_(std::move(options)) {
  vocab_.reserve(vocab.size());
  for (auto& [token, token_id] : vocab) vocab_.emplace(token, token_id);
  for (unsigned b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", b);
    byte_tokens_[b] = id(name).value_or(-1);
  }
  if (!options_.unk_token.empty()) unk_ = id(options_.unk_token);
}

void Bpe::add_merge(int32_t rank, int32_t left, int32_t right, int32_t merged) {
  merges_[pair_key(left, right)] = {.rank = rank, .id = merged};
}

std::optional<int32_t> Bpe::id(std::string_view token) const {
  const auto found = vocab_.find(token);
  if (found == vocab_.end()) return std::nullopt;
  return found->second;
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& out) const {
  if (options_.ignore_merges) {
    if (const auto whole = id(word)) {
      out.push_back(*whole);
      return;
    }
  }
  std::vector<int32_t> ids = symbols(word);
  if (!merges_.empty()) merge_pairs(ids);
  out.insert(out.end(), ids.begin(), ids.end());
}

// An unknown token waits until a character of the vocabulary follows, as in the `tokenizers`
// library: tokens of single bytes overtake it.
std::vector<int32_t> Bpe::symbols(std::string_view word) const {
  std::vector<int32_t> out;
  out.reserve(word.size());
  bool waiting = false;
  for (size_t at = 0; at < word.size();) {
    const std::string_view character = word.substr(at, utf8_front(word.substr(at)).size);
    const size_t begin = at;
    at += character.size();
    if (const auto known = id(character)) {
      if (waiting) out.push_back(*unk_);
      waiting = false;
      out.push_back(*known);
      continue;
    }
    if (options_.byte_fallback && spell_bytes(character, out)) continue;
    if (!unk_) no_token(word, begin);
    if (waiting && !options_.fuse_unk) out.push_back(*unk_);
    waiting = true;
  }
  if (waiting) out.push_back(*unk_);
  return out;
}

bool Bpe::spell_bytes(std::string_view character, std::vector<int32_t>& out) const {
  const auto token = [&](char c) { return byte_tokens_[static_cast<unsigned char>(c)]; };
  if (std::any_of(character.begin(), character.end(), [&](char c) { return token(c) < 0; })) {
    return false;
  }
  for (const char c : character) out.push_back(token(c));
  return true;
}

void Bpe::no_token(std::string_view word, size_t at) const {
  const std::string_view character = word.substr(at, utf8_front(word.substr(at)).size);
  char name[16];
  std::string around(word);
  if (options_.byte_letters) {
    const auto byte = static_cast<unsigned char>(from_byte_letters(character).value_or("?")[0]);
    std::snprintf(name, sizeof name, "byte 0x%02X", byte);
    at = from_byte_letters(word.substr(0, at)).value_or("").size();
    around = from_byte_letters(word).value_or(around);
  } else {
    std::snprintf(name, sizeof name, "U+%04X", utf8_front(character).code_point);
  }
  const size_t from = at < 20 ? 0 : at - 20;
  around = utf8_lossy(std::string_view(around).substr(from, at - from + 4));
  throw DataError(options_.where + ": " + name + " near \"" + on_one_line(around) +
                  "\" is not in the vocabulary of this tokenizer");
}

const Bpe::Merge* Bpe::find_merge(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

// The pair of the lowest rank first, the leftmost of equal ones. A queue of candidate pairs over a
// linked list keeps it n log n, since without a pre-tokenizer a whole prompt is one word. A queue
// entry whose pair no longer gives the same token is skipped.
void Bpe::merge_pairs(std::vector<int32_t>& ids) const {
  struct Candidate {
    int32_t rank, left, id;  // `left`: position of the pair's first symbol
    bool operator<(const Candidate& other) const {
      return std::pair(rank, left) > std::pair(other.rank, other.left);
    }
  };
  const auto n = static_cast<int32_t>(ids.size());
  std::vector<int32_t> next(ids.size()), previous(ids.size());
  for (int32_t i = 0; i < n; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  std::priority_queue<Candidate> queue;
  const auto merge_at = [&](int32_t left) -> const Merge* {
    return left < 0 || next[left] >= n ? nullptr : find_merge(ids[left], ids[next[left]]);
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
    if (merge == nullptr || merge->id != top.id) continue;
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

}  // namespace verlcpp::data
