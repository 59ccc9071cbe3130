#include "rollout/generate.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "rollout/decode_run.h"

namespace verlcpp::rollout {
namespace {

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
  if (requests.empty()) return std::vector<Response>();
  expects(options.max_num_seqs > 0 && options.max_response_length > 0, "nothing to generate");
  DecodeRun run(backend, transformer, weights, requests, options);
  while (run.unfinished()) {
    if (!before_token()) return std::nullopt;
    run.step();
  }
  return run.take_responses();
}

std::optional<std::vector<Response>> generate_on_pool(Backend& backend,
                                                      const model::Transformer& transformer,
                                                      const model::ParameterBuffer& weights,
                                                      const parallel::RankCommunicators& comm,
                                                      std::span<const Request> requests,
                                                      const GenerateOptions& options) {
  parallel::Communicator& pool = comm.grad;
  const auto size = static_cast<size_t>(pool.size());
  const auto first_of = [&](size_t rank) { return requests.size() * rank / size; };
  const auto mine = static_cast<size_t>(pool.rank());
  const auto own = requests.subspan(first_of(mine), first_of(mine + 1) - first_of(mine));
  const auto responses = generate(backend, transformer, weights, own, options, [&] {
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
    for (size_t i = first_of(rank); i < first_of(rank + 1); ++i) {
      const auto n = static_cast<size_t>(take<int64_t>(in, 1)[0]);
      all[i].ids = take<int32_t>(in, n);
      all[i].log_probs = take<double>(in, n);
    }
  }
  return all;
}

}  // namespace verlcpp::rollout
