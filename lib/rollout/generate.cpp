#include "rollout/generate.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace verlcpp::rollout {
namespace {

/// One sequence being decoded.
struct Active {
  size_t request = 0;
  int32_t slot = 0;
  int32_t past = 0;           // cached positions
  std::vector<int32_t> feed;  // tokens of the next call: the prompt first, then one at a time
};

/// Runs one forward over all active sequences and samples a token for each.
void advance(Backend& backend, const model::Transformer& transformer,
             const model::ParameterBuffer& weights, model::KvCache& cache,
             std::span<const Request> requests, const GenerateOptions& options,
             std::vector<Active>& active, std::vector<Response>& responses) {
  std::vector<int32_t> tokens, slot, past, count, counters;
  for (const Active& a : active) {
    tokens.insert(tokens.end(), a.feed.begin(), a.feed.end());
    slot.push_back(a.slot);
    past.push_back(a.past);
    count.push_back(static_cast<int32_t>(a.feed.size()));
    const Request& r = requests[a.request];
    for (uint32_t word : {options.step, r.sample, r.response,
                          static_cast<uint32_t>(responses[a.request].ids.size())}) {
      counters.push_back(static_cast<int32_t>(word));
    }
  }
  const auto b = static_cast<int64_t>(active.size());
  const Tensor logits_BV = transformer.extend(weights, cache, tokens, slot, past, count);
  const Tensor ids_B = backend.allocate(DType::kInt32, {b}, MemoryTag::kWorkspace);
  const Tensor log_prob_B =
      backend.allocate(model::statistics_dtype(logits_BV.dtype()), {b}, MemoryTag::kWorkspace);
  backend.sample(ids_B, log_prob_B, logits_BV,
                 upload<int32_t>(backend, counters, {b, 4}, MemoryTag::kWorkspace),
                 options.sampling);
  std::vector<int32_t> ids(active.size());
  backend.read(std::as_writable_bytes(std::span(ids)), ids_B);
  const std::vector<double> log_probs = download(backend, log_prob_B);
  for (size_t i = 0; i < active.size(); ++i) {
    Response& response = responses[active[i].request];
    response.ids.push_back(ids[i]);
    response.log_probs.push_back(log_probs[i]);
    active[i].past += static_cast<int32_t>(active[i].feed.size());
    active[i].feed = {ids[i]};
  }
}

bool finished(const Response& response, const GenerateOptions& options) {
  return static_cast<int64_t>(response.ids.size()) >= options.max_response_length ||
         std::find(options.eos_token_ids.begin(), options.eos_token_ids.end(),
                   response.ids.back()) != options.eos_token_ids.end();
}

// --- host bytes of a rank's responses: per response its length, ids and log-probs ----------------

template <class T>
void put(std::vector<std::byte>& out, const T* values, size_t n) {
  const auto bytes = std::as_bytes(std::span(values, n));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T>
std::vector<T> take(std::span<const std::byte>& in, size_t n) {
  expects(in.size() >= n * sizeof(T), "a gathered response is cut short");
  std::vector<T> values(n);
  if (n > 0) std::memcpy(values.data(), in.data(), n * sizeof(T));
  in = in.subspan(n * sizeof(T));
  return values;
}

/// Their number, then each.
std::vector<std::byte> serialised(const std::vector<Response>& responses) {
  std::vector<std::byte> bytes;
  const auto count = static_cast<int64_t>(responses.size());
  put(bytes, &count, 1);
  for (const Response& r : responses) {
    const auto n = static_cast<int64_t>(r.ids.size());
    put(bytes, &n, 1);
    put(bytes, r.ids.data(), r.ids.size());
    put(bytes, r.log_probs.data(), r.log_probs.size());
  }
  return bytes;
}

}  // namespace

std::optional<std::vector<Response>> generate(Backend& backend,
                                              const model::Transformer& transformer,
                                              const model::ParameterBuffer& weights,
                                              std::span<const Request> requests,
                                              const GenerateOptions& options,
                                              const std::function<bool()>& before_token) {
  std::vector<Response> responses(requests.size());
  if (requests.empty()) return responses;
  size_t longest_prompt = 0;
  for (const Request& r : requests) longest_prompt = std::max(longest_prompt, r.prompt_ids.size());
  const int64_t slots = std::min(options.max_num_seqs, static_cast<int64_t>(requests.size()));
  model::KvCache cache = transformer.make_kv_cache(
      slots, static_cast<int64_t>(longest_prompt) + options.max_response_length);

  std::vector<int32_t> free_slots;
  for (int64_t s = slots; s > 0; --s) free_slots.push_back(static_cast<int32_t>(s - 1));
  std::vector<Active> active;
  size_t next = 0;
  while (next < requests.size() || !active.empty()) {
    while (next < requests.size() && !free_slots.empty()) {
      const auto& prompt = requests[next].prompt_ids;
      active.push_back({next, free_slots.back(), 0, {prompt.begin(), prompt.end()}});
      free_slots.pop_back();
      ++next;
    }
    if (!before_token()) return std::nullopt;
    advance(backend, transformer, weights, cache, requests, options, active, responses);
    std::erase_if(active, [&](const Active& a) {
      if (!finished(responses[a.request], options)) return false;
      free_slots.push_back(a.slot);
      return true;
    });
  }
  return responses;
}

std::optional<std::vector<Response>> generate_on_pool(Backend& backend,
                                                      const model::Transformer& transformer,
                                                      const model::ParameterBuffer& weights,
                                                      const parallel::RankCommunicators& comm,
                                                      std::span<const Request> requests,
                                                      const GenerateOptions& options) {
  parallel::Communicator& pool = comm.grad;
  const auto size = static_cast<size_t>(pool.size());
  std::vector<Request> mine;
  for (size_t i = static_cast<size_t>(pool.rank()); i < requests.size(); i += size) {
    mine.push_back(requests[i]);
  }
  const auto responses = generate(backend, transformer, weights, mine, options, [&] {
    comm.status.beat();
    return !comm.tp_stop.here();
  });
  // A rank that has stopped sends nothing at all: not even that there are no responses. The TP
  // ranks of a pool coordinate stop together, so every pool sees the same.
  const std::vector<std::byte> bytes =
      responses ? serialised(*responses) : std::vector<std::byte>();
  const auto gathered = pool.all_gather_bytes(bytes);
  if (std::any_of(gathered.begin(), gathered.end(),
                  [](const auto& theirs) { return theirs.empty(); })) {
    return std::nullopt;
  }
  std::vector<Response> all(requests.size());
  for (size_t rank = 0; rank < size; ++rank) {
    std::span<const std::byte> in(gathered[rank]);
    take<int64_t>(in, 1);
    for (size_t i = rank; i < requests.size(); i += size) {
      const auto n = static_cast<size_t>(take<int64_t>(in, 1)[0]);
      all[i].ids = take<int32_t>(in, n);
      all[i].log_probs = take<double>(in, n);
    }
  }
  return all;
}

}  // namespace verlcpp::rollout
