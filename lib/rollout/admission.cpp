#include "rollout/admission.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "model/transformer.h"

namespace verlcpp::rollout {
namespace {

using model::kKvBlock;

/// Requests are let in once an eighth of the slots is free: a prefill takes as long as several
/// decoding steps, however few prompts it has, and all sequences wait for it.
constexpr int64_t kShareOfSlots = 8;

/// Positions that are prefilled.
int64_t prefilled(const Request& request) {
  return static_cast<int64_t>(request.prompt_ids.size()) - 1;
}

int64_t longest_prompt(std::span<const Request> requests) {
  size_t longest = 0;
  for (const Request& r : requests) {
    expects(!r.prompt_ids.empty(), "a prompt has a token");
    longest = std::max(longest, r.prompt_ids.size());
  }
  return static_cast<int64_t>(longest);
}

int32_t row_of(const std::vector<int32_t>& table, int64_t position) {
  return static_cast<int32_t>(table[static_cast<size_t>(position / kKvBlock)] * kKvBlock +
                              position % kKvBlock);
}

}  // namespace

Admission::Admission(std::span<const Request> requests, int64_t slots, int64_t max_response_length)
    : requests_(requests),
      slots_(slots),
      max_response_length_(max_response_length),
      table_length_((longest_prompt(requests) + max_response_length + kKvBlock - 1) / kKvBlock),
      blocks_(kv_blocks(slots, longest_prompt(requests) + max_response_length)),
      free_(blocks_) {}

Preparation Admission::admit(std::vector<Sequence>& active) {
  free_.release(std::exchange(spent_, {}));
  Preparation preparation;
  const int64_t room = slots_ - static_cast<int64_t>(active.size());
  if (!active.empty() && room * kShareOfSlots < slots_) return preparation;
  while (waiting() && std::cmp_less(active.size(), slots_)) {
    active.push_back(prompt_.waiting == 0 ? first_of_prompt(preparation)
                                          : next_of_prompt(preparation));
    ++next_;
  }
  return preparation;
}

Sequence Admission::first_of_prompt(Preparation& preparation) {
  const Request& request = requests_[next_];
  const int64_t rows = prefilled(request);
  Sequence sequence{.request = next_, .table = free_.take(blocks_of(request))};
  if (rows > 0) {
    PromptPart& part = preparation.prompts.emplace_back();
    part.token_ids = request.prompt_ids.first(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) part.rows.push_back(row_of(sequence.table, i));
  }
  prompt_.waiting = siblings();
  if (prompt_.waiting > 0) {
    prompt_.blocks.assign(sequence.table.begin(),
                          sequence.table.begin() + (rows + kKvBlock - 1) / kKvBlock);
    free_.share(prompt_.blocks);
  }
  return sequence;
}

Sequence Admission::next_of_prompt(Preparation& preparation) {
  const Request& request = requests_[next_];
  const int64_t rows = prefilled(request), whole = rows / kKvBlock;
  Sequence sequence{.request = next_, .table = {}};
  sequence.table.assign(prompt_.blocks.begin(), prompt_.blocks.begin() + whole);
  free_.share(sequence.table);
  const std::vector<int32_t> own = free_.take(blocks_of(request) - whole);
  sequence.table.insert(sequence.table.end(), own.begin(), own.end());
  for (int64_t i = whole * kKvBlock; i < rows; ++i) {
    preparation.copy_from.push_back(row_of(prompt_.blocks, i));
    preparation.copy_to.push_back(row_of(sequence.table, i));
  }
  if (--prompt_.waiting == 0) {
    // Not free before its rows are copied, which is after this time's prompts are written.
    spent_.insert(spent_.end(), prompt_.blocks.begin(), prompt_.blocks.end());
    prompt_.blocks.clear();
  }
  return sequence;
}

int64_t Admission::blocks_of(const Request& request) const {
  const auto prompt = static_cast<int64_t>(request.prompt_ids.size());
  return (prompt + max_response_length_ + kKvBlock - 1) / kKvBlock;
}

/// Requests behind the next one that have its sample and prompt.
size_t Admission::siblings() const {
  const Request& first = requests_[next_];
  size_t count = 0;
  for (const Request& r : requests_.subspan(next_ + 1)) {
    if (r.sample != first.sample || !std::ranges::equal(r.prompt_ids, first.prompt_ids)) break;
    ++count;
  }
  return count;
}

}  // namespace verlcpp::rollout
