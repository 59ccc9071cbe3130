#include <set>
#include <utility>

#include "base/error.h"
#include "rollout/admission.h"
#include "rollout/kv_blocks.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::rollout;

namespace {

std::vector<Request> requests_of(const std::vector<std::vector<int32_t>>& prompts, uint32_t n) {
  std::vector<Request> requests;
  for (uint32_t sample = 0; sample < prompts.size(); ++sample) {
    for (uint32_t response = 0; response < n; ++response) {
      requests.push_back({sample, response, prompts[sample]});
    }
  }
  return requests;
}

}  // namespace

TEST_CASE("a block is free again once its last holder lets go of it") {
  KvBlocks blocks(3);
  const auto two = blocks.take(2);
  CHECK(two == std::vector<int32_t>{0, 1});
  blocks.share(std::span(two).first(1));
  blocks.release(two);
  CHECK(blocks.free() == 2);
  CHECK(blocks.take(2) == std::vector<int32_t>{1, 2});
  CHECK_THROWS_AS(blocks.take(1), std::logic_error);
  blocks.release(std::span(two).first(1));
  CHECK(blocks.free() == 1);
  CHECK_THROWS_AS(blocks.release(std::span(two).first(1)), std::logic_error);
  CHECK_THROWS_AS(blocks.share(std::span(two).first(1)), std::logic_error);
}

TEST_CASE("responses to a prompt hold its whole blocks together and copy the rest") {
  // 150 of 151 prompt tokens are prefilled: two whole blocks and 22 rows of a third.
  const std::vector<std::vector<int32_t>> prompts{std::vector<int32_t>(151, 7)};
  const auto requests = requests_of(prompts, 3);
  Admission admission(requests, 2, 60);
  CHECK(admission.table_length() == 4);
  CHECK(admission.blocks() == 2 * 4 + 1);
  std::vector<Sequence> active;
  Preparation p = admission.admit(active);
  REQUIRE(active.size() == 2);
  REQUIRE(p.prompts.size() == 1);
  CHECK(p.prompts[0].token_ids.size() == 150);
  CHECK(p.prompts[0].rows[149] == active[0].table[2] * 64 + 21);
  CHECK(std::equal(active[0].table.begin(), active[0].table.begin() + 2, active[1].table.begin()));
  CHECK(
      std::set<int32_t>(active[1].table.begin(), active[1].table.end()).count(active[0].table[2]) ==
      0);
  REQUIRE(p.copy_from.size() == 22);
  CHECK(p.copy_from[21] == active[0].table[2] * 64 + 21);
  CHECK(p.copy_to[21] == active[1].table[2] * 64 + 21);

  // The first response ends; the third still finds the prompt.
  const std::vector<int32_t> first = active[0].table;
  admission.leave(active[0]);
  active.erase(active.begin());
  p = admission.admit(active);
  CHECK_FALSE(admission.waiting());
  CHECK(p.prompts.empty());
  REQUIRE(p.copy_from.size() == 22);
  CHECK(p.copy_from[0] == first[2] * 64);
  CHECK(std::equal(first.begin(), first.begin() + 2, active[1].table.begin()));
}

TEST_CASE("a prompt of one token needs no prefill, a prompt of whole blocks no copy") {
  const std::vector<std::vector<int32_t>> prompts{{5}, std::vector<int32_t>(65, 1)};
  const auto requests = requests_of(prompts, 2);
  Admission admission(requests, 4, 3);
  std::vector<Sequence> active;
  const Preparation p = admission.admit(active);
  CHECK(active.size() == 4);
  REQUIRE(p.prompts.size() == 1);
  CHECK(p.prompts[0].token_ids.size() == 64);
  CHECK(p.copy_from.empty());
  CHECK(active[0].table.size() == 1);
  CHECK(active[3].table[0] == active[2].table[0]);
  CHECK(active[3].table[1] != active[2].table[1]);
}

TEST_CASE("requests wait until an eighth of the slots is free, or nobody is left") {
  const std::vector<std::vector<int32_t>> prompts{{5, 6}};
  const auto requests = requests_of(prompts, 40);
  Admission admission(requests, 16, 3);
  std::vector<Sequence> active;
  admission.admit(active);
  REQUIRE(active.size() == 16);
  const auto leave = [&] {
    admission.leave(active.front());
    active.erase(active.begin());
  };
  leave();
  admission.admit(active);
  CHECK(active.size() == 15);
  leave();
  admission.admit(active);
  CHECK(active.size() == 16);
  CHECK(active.back().request == 17);
}

namespace {

constexpr int64_t kResponse = 70;

/// What each cache row holds: whose token (a sample's prompt, or 1000 + a request), and of which
/// position.
class CacheModel {
 public:
  explicit CacheModel(int64_t blocks) : rows_(static_cast<size_t>(blocks * 64)) {}

  void prepare(const Preparation& p) {
    for (const PromptPart& part : p.prompts) {
      for (size_t i = 0; i < part.rows.size(); ++i) {
        at(part.rows[i]) = {part.token_ids[i], static_cast<int64_t>(i)};
      }
    }
    for (size_t i = 0; i < p.copy_from.size(); ++i) at(p.copy_to[i]) = at(p.copy_from[i]);
  }
  /// The sequence's response, all of it.
  void fill(const Sequence& s, int64_t prompt) {
    for (int64_t j = prompt - 1; j < prompt + kResponse; ++j) of(s, j) = own(s, j);
  }
  bool holds(const Sequence& s, const Request& r) {
    const auto prompt = static_cast<int64_t>(r.prompt_ids.size());
    for (int64_t j = 0; j < prompt + kResponse; ++j) {
      const Value wanted = j < prompt - 1 ? Value{static_cast<int64_t>(r.sample), j} : own(s, j);
      if (of(s, j) != wanted) return false;
    }
    return true;
  }

 private:
  using Value = std::pair<int64_t, int64_t>;
  static Value own(const Sequence& s, int64_t j) {
    return {1000 + static_cast<int64_t>(s.request), j};
  }
  Value& at(int64_t row) { return rows_.at(static_cast<size_t>(row)); }
  Value& of(const Sequence& s, int64_t j) {
    return at(s.table.at(static_cast<size_t>(j / 64)) * 64 + j % 64);
  }
  std::vector<Value> rows_;
};

}  // namespace

TEST_CASE("there are blocks enough, and nobody writes over another's, whoever ends first") {
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < 12; ++i) prompts.emplace_back(1 + i * 37 % 190, static_cast<int32_t>(i));
  const auto requests = requests_of(prompts, 5);
  for (const int64_t slots : {1, 2, 3, 7, 60}) {
    for (size_t leaves = 0; leaves < 5; ++leaves) {
      Admission admission(requests, slots, kResponse);
      CacheModel cache(admission.blocks());
      std::vector<Sequence> active;
      size_t seen = 0, round = 0, wrong = 0;
      while (admission.waiting() || !active.empty()) {
        const size_t before = active.size();
        cache.prepare(admission.admit(active));
        REQUIRE(!active.empty());
        for (size_t i = before; i < active.size(); ++i) {
          CHECK(active[i].request == seen++);
          cache.fill(active[i],
                     static_cast<int64_t>(requests[active[i].request].prompt_ids.size()));
        }
        for (const Sequence& s : active) wrong += cache.holds(s, requests[s.request]) ? 0 : 1;
        for (size_t gone = ++round % 3 + 1; gone > 0 && !active.empty(); --gone) {
          const size_t i = (round * 3 + leaves) % active.size();
          admission.leave(active[i]);
          active.erase(active.begin() + static_cast<int64_t>(i));
        }
      }
      CHECK(seen == requests.size());
      CHECK(wrong == 0);
    }
  }
}
