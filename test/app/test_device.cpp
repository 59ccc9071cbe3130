// trainer.device on a machine without a usable GPU: none is visible to the program here.

#include <cstdlib>

#include "run_binary.h"
#include "small_run.h"
#include "support/catch.h"

using namespace verlcpp::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

Outcome run_on(const std::string& device, std::vector<std::string> more) {
  const TemporaryFolder folder;
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  more.insert(more.begin(), "trainer.device=" + device);
  Outcome outcome = run_binary(quickstart(folder.path(), 1, more));
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  return outcome;
}

const std::vector<std::string> kBFloat16{"actor_rollout_ref.actor.megatron.dtype=bfloat16",
                                         "actor_rollout_ref.ref.megatron.dtype=bfloat16"};

}  // namespace

TEST_CASE("auto without a GPU trains on the CPU and says why") {
  const Outcome outcome = run_on("auto", {});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, StartsWith("device: trainer.device=auto chose cpu: ") &&
                              ContainsSubstring(" on cpu; TP 1"));
}

TEST_CASE("auto without a GPU refuses bfloat16 by both keys before weights load") {
  const Outcome outcome = run_on("auto", kBFloat16);
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err,
             ContainsSubstring("actor_rollout_ref.actor.megatron.dtype = 'bfloat16' (override 13): "
                               "dtype bfloat16 not supported by trainer.device = 'cpu' (override "
                               "12, auto: ") &&
                 ContainsSubstring("), it needs trainer.device=cuda; must be one of float32, "
                                   "float64"));
}

TEST_CASE("a dry run of auto says what it would try") {
  const Outcome outcome = run_on("auto", [] {
    std::vector<std::string> more = kBFloat16;
    more.push_back("--dry-run");
    return more;
  }());
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out,
             StartsWith("device: trainer.device=auto would try cuda, then cpu; a dry run "
                        "touches neither\n") &&
                 ContainsSubstring(" on auto; TP 1"));
}

TEST_CASE("check says that it is slow, and needs a GPU") {
  const Outcome outcome = run_on("check", {});
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.out, StartsWith("device: trainer.device=check runs every op on the "
                                     "GPU and on the CPU and compares the two; this is "
                                     "slow, for small models\n"));
  CHECK_THAT(outcome.err,
             ContainsSubstring("trainer.device=cpu") &&
                 (ContainsSubstring("no GPU can be used") || ContainsSubstring("without CUDA")));
}
