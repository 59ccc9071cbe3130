#include "rollout/decode_run.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"

namespace verlcpp::rollout {
namespace {

int64_t slots_of(std::span<const Request> requests, const GenerateOptions& options) {
  return std::min(options.max_num_seqs, static_cast<int64_t>(requests.size()));
}

template <class T>
std::vector<T> values_of(const PendingRead& read) {
  const std::span<const std::byte> bytes = read();
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

DecodeRun::DecodeRun(Backend& backend, const model::Transformer& transformer,
                     const model::ParameterBuffer& weights, std::span<const Request> requests,
                     const GenerateOptions& options)
    : backend_(backend),
      transformer_(transformer),
      weights_(weights),
      requests_(requests),
      options_(options),
      statistics_(model::statistics_dtype(weights.flat().dtype())),
      admission_(requests, slots_of(requests, options), options.max_response_length),
      cache_(transformer.make_kv_cache(admission_.blocks())),
      batch_(backend, statistics_, slots_of(requests, options), admission_.table_length()),
      responses_(requests.size()) {
  for (const Request& r : requests) transformer.check_ids(r.prompt_ids);
}

void DecodeRun::step() {
  leave();
  const size_t before = active_.size();
  const Preparation preparation = admission_.admit(active_);
  changed_ = changed_ || active_.size() != before;
  prefill(preparation);
  if (!active_.empty()) decode();
  const size_t later = active_.empty() ? 0 : 1;
  while (on_their_way_.size() > later) {
    take_in(on_their_way_.front());
    on_their_way_.pop_front();
  }
}

void DecodeRun::prefill(const Preparation& preparation) {
  std::vector<int32_t> token_ids, lengths, rows;
  const auto flush = [&] {
    if (lengths.empty()) return;
    transformer_.prefill(weights_, cache_, token_ids, lengths, rows);
    for (auto* x : {&token_ids, &lengths, &rows}) x->clear();
  };
  for (const PromptPart& part : preparation.prompts) {
    if (std::cmp_greater(token_ids.size() + part.token_ids.size(), kPrefillTokens)) flush();
    token_ids.insert(token_ids.end(), part.token_ids.begin(), part.token_ids.end());
    rows.insert(rows.end(), part.rows.begin(), part.rows.end());
    lengths.push_back(static_cast<int32_t>(part.token_ids.size()));
  }
  flush();
  transformer_.copy_kv(cache_, preparation.copy_from, preparation.copy_to);
}

void DecodeRun::decode() {
  if (std::exchange(changed_, false)) batch_.lay_out(active_, requests_, options_.step);
  const Tensor ids_B = batch_.ids(), log_prob_B = batch_.log_prob();
  const auto body = [&] {
    const KvPages pages = batch_.pages();
    const Tensor logits_BV = transformer_.decode(weights_, cache_, ids_B, pages);
    backend_.sample(ids_B, log_prob_B, logits_BV, batch_.counters(), options_.sampling);
    backend_.advance_sequences(pages.positions_B, batch_.counters());
  };
  // Between TP ranks there is movement in it, which is no op.
  if (transformer_.tp_place().size == 1) {
    backend_.replay("decode " + std::to_string(batch_.rows()), body);
  } else {
    body();
  }
  Tokens& tokens = on_their_way_.emplace_back();
  tokens.ids = backend_.read_later(ids_B);
  tokens.log_probs = backend_.read_later(log_prob_B);
  for (Sequence& s : active_) {
    tokens.requests.push_back(s.request);
    ++s.made;
  }
}

void DecodeRun::take_in(const Tokens& tokens) {
  const std::vector<int32_t> ids = values_of<int32_t>(tokens.ids);
  std::vector<double> log_probs;
  if (statistics_ == DType::kFloat64) {
    log_probs = values_of<double>(tokens.log_probs);
  } else {
    const auto narrow = values_of<float>(tokens.log_probs);
    log_probs.assign(narrow.begin(), narrow.end());
  }
  for (size_t row = 0; row < tokens.requests.size(); ++row) {
    const size_t request = tokens.requests[row];
    if (finished(request)) continue;
    responses_[request].ids.push_back(ids[row]);
    responses_[request].log_probs.push_back(log_probs[row]);
  }
}

bool DecodeRun::finished(size_t request) const {
  const std::vector<int32_t>& ids = responses_[request].ids;
  if (std::cmp_greater_equal(ids.size(), options_.max_response_length)) return true;
  const auto& ends = options_.eos_token_ids;
  return !ids.empty() && std::find(ends.begin(), ends.end(), ids.back()) != ends.end();
}

void DecodeRun::leave() {
  std::erase_if(active_, [&](const Sequence& s) {
    if (s.made < options_.max_response_length && !finished(s.request)) return false;
    admission_.leave(s);
    changed_ = true;
    return true;
  });
}

}  // namespace verlcpp::rollout
