// A stop while a run starts: seen at every sign of life, and nothing has been changed.

#include <atomic>
#include <csignal>
#include <filesystem>
#include <stdexcept>

#include "cpu/cpu_backend.h"
#include "parallel/thread_ranks.h"
#include "setup.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/recompute.h"
#include "train/stop_notice.h"
#include "train/trainer.h"

using namespace verlcpp;
using namespace verlcpp::test;
using namespace verlcpp::train;

namespace {

constexpr int kPrompts = 8;

Configured with_prompts(const TemporaryFolder& folder) {
  std::string rows;
  for (int i = 0; i < kPrompts; ++i) {
    rows += R"({"data_source":"verlcpp/cycle","prompt":[{"role":"user","content":"ab"}],)"
            R"("reward_model":{"style":"rule","ground_truth":"b 2 12"}})"
            "\n";
  }
  return configured(valid_run(), {"data.train_files='" + folder.write("rows.jsonl", rows) + "'",
                                  "trainer.default_local_dir='" + folder.path() + "/saved'",
                                  "actor_rollout_ref.model.random_init=True"});
}

/// Makes a trainer on every rank, then runs it; `signal` is set before, or in between.
void start(const Configured& c, const Inputs& inputs, bool before) {
  std::atomic<int> signal{before ? SIGTERM : 0};
  std::atomic<bool> stop{before};
  const MegatronConfig& megatron = c.config.actor_rollout_ref.actor.megatron;
  parallel::run_thread_ranks(
      batching_rule(c.config, Pass::kActorUpdate).sizes,
      [&](const parallel::Topology& topology, parallel::RankCommunicators comm) {
        cpu::CpuBackend backend;
        const model::Transformer transformer =
            make_transformer(backend, inputs.model, dtype_named(megatron.dtype).value(),
                             c.config.actor_rollout_ref, comm);
        const Engine engine{backend, transformer, topology, comm,
                            recompute_policy(megatron, inputs.model.layers)};
        Trainer trainer(engine, c.config, inputs, nullptr, signal);
        if (before) throw std::logic_error("the weights were made in spite of the stop");
        comm.world.barrier();
        signal = SIGTERM;
        stop = true;
        trainer.run();
      },
      {.stop = &stop});
}

}  // namespace

TEST_CASE("a stop while inputs are read is seen at every prompt") {
  const TemporaryFolder folder;
  const Configured c = with_prompts(folder);
  int beats = 0;
  load_inputs(c.config, c.tree, [&] { ++beats; });
  CHECK(beats > kPrompts);
  for (int stop_at = 1; stop_at <= beats; ++stop_at) {
    int so_far = 0;
    const auto beat = [&] {
      if (++so_far == stop_at) throw StoppedAtStart();
    };
    CHECK_THROWS_AS(load_inputs(c.config, c.tree, beat), StoppedAtStart);
    CHECK(so_far == stop_at);
  }
}

TEST_CASE("a stop while weights are made ends the start; so does one just before training") {
  const TemporaryFolder folder;
  const Configured c = with_prompts(folder);
  const Inputs inputs = load_inputs(c.config, c.tree);
  for (const bool before : {true, false}) {
    CHECK_THROWS_AS(start(c, inputs, before), StoppedAtStart);
    CHECK_FALSE(std::filesystem::exists(folder.path() + "/saved"));
  }
}
