// What a run on a GPU says, and with which exit code it ends, when the machine cannot carry it.
// Each prints how long it took.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <vector>

#include "child.h"
#include "small_run.h"
#include "support/catch.h"

using namespace verlcpp::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

int gpu_count() {
  int count = 0;
  REQUIRE(cudaGetDeviceCount(&count) == cudaSuccess);
  return count;
}

size_t free_bytes() {
  size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  return free;
}

/// Takes memory of GPU 0 until `left` bytes are free, as another process would, and gives it back
/// at the end.
class OtherProcess {
 public:
  explicit OtherProcess(size_t left) {
    for (size_t piece = size_t{1} << 32; piece >= 2 * kMiB; piece /= 2) {
      void* taken = nullptr;
      while (free_bytes() >= left + piece && cudaMalloc(&taken, piece) == cudaSuccess) {
        taken_.push_back(taken);
      }
    }
    cudaGetLastError();  // of the piece that was refused
  }
  ~OtherProcess() {
    for (void* taken : taken_) cudaFree(taken);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

 private:
  std::vector<void*> taken_;
};

/// Puts `folder` first in LD_LIBRARY_PATH for the programs that start meanwhile.
class LibrariesFrom {
 public:
  explicit LibrariesFrom(const std::string& folder) {
    if (const char* before = std::getenv("LD_LIBRARY_PATH")) before_ = before;
    ::setenv("LD_LIBRARY_PATH", before_ ? (folder + ":" + *before_).c_str() : folder.c_str(), 1);
  }
  ~LibrariesFrom() {
    if (before_) {
      ::setenv("LD_LIBRARY_PATH", before_->c_str(), 1);
    } else {
      ::unsetenv("LD_LIBRARY_PATH");
    }
  }
  LibrariesFrom(const LibrariesFrom&) = delete;
  LibrariesFrom& operator=(const LibrariesFrom&) = delete;

 private:
  std::optional<std::string> before_;
};

const std::vector<std::string> kBFloat16{"actor_rollout_ref.actor.megatron.dtype=bfloat16",
                                         "actor_rollout_ref.ref.megatron.dtype=bfloat16"};
/// The four ranks of the quickstart on one card.
const std::vector<std::string> kOneCard{"trainer.n_gpus_per_node=1", "trainer.ranks_per_gpu=4"};
/// A plan larger than any card: of what 100,000 responses save in one micro-batch.
const std::vector<std::string> kNoCardHolds{
    "actor_rollout_ref.rollout.n=100000", "data.max_token_len_per_gpu=1000000000",
    "actor_rollout_ref.actor.megatron.max_seqlen_per_dp_cp_rank=1000000000"};

std::vector<std::string> on_gpu(const std::string& folder, int steps,
                                std::initializer_list<std::vector<std::string>> more) {
  std::vector<std::string> overrides{"trainer.device=cuda"};
  for (const auto& part : more) overrides.insert(overrides.end(), part.begin(), part.end());
  return quickstart(folder, steps, overrides);
}

Outcome run_on_gpu(const char* name, std::initializer_list<std::vector<std::string>> more) {
  const TemporaryFolder folder;
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = run_binary(on_gpu(folder.path(), 1, more));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%s: exit code %d after %.1f s\n%s", name, outcome.code, took.count(),
              outcome.err.c_str());
  return outcome;
}

void check_refused(const Outcome& outcome) {
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.err, StartsWith("error: "));
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  CHECK_THAT(outcome.out, !ContainsSubstring("step:1"));
}

}  // namespace

TEST_CASE("more GPUs than the machine has are refused by number") {
  const int count = gpu_count();
  const Outcome outcome =
      run_on_gpu("too few devices", {{"trainer.n_gpus_per_node=" + std::to_string(4 * count)}});
  check_refused(outcome);
  CHECK_THAT(outcome.err,
             ContainsSubstring("GPU " + std::to_string(4 * count - 1) +
                               " is needed, this machine has " + std::to_string(count) +
                               "; set trainer.n_gpus_per_node, or let ranks share "
                               "with trainer.ranks_per_gpu"));
}

TEST_CASE("a card that others have filled is refused with what is free and what to do") {
  const OtherProcess other(1024 * kMiB);
  const Outcome outcome = run_on_gpu("a card filled by others", {kOneCard});
  check_refused(outcome);
  CHECK_THAT(outcome.err, ContainsSubstring("GPU 0 has no room for this run: ") &&
                              ContainsSubstring("Other processes hold the rest: end them, or "
                                                "choose another card with CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("a plan larger than the card is refused with what to lower") {
  const Outcome outcome = run_on_gpu("a plan larger than the card", {kOneCard, kNoCardHolds});
  check_refused(outcome);
  CHECK_THAT(outcome.err, ContainsSubstring("GPU 0 has no room for this run: ") &&
                              ContainsSubstring(" are needed by 4 ranks of ") &&
                              ContainsSubstring(". Most of it, ") &&
                              ContainsSubstring(" a rank, is ") &&
                              ContainsSubstring("; to need less, "));
}

TEST_CASE("a card with room for the plan alone carries the run, or says that memory is out") {
  const TemporaryFolder folder;
  const auto run = on_gpu(folder.path(), 2, {kOneCard, kBFloat16});
  int no_context = 0, refused = 0, out_of_memory = 0;
  // A context takes about half a GiB, the plan, what is kept for libraries and this run's ranks
  // more.
  size_t left = 128 * kMiB;
  for (; left < 8192 * kMiB; left += 128 * kMiB) {
    const OtherProcess other(left);
    const Outcome outcome = run_binary(run);
    INFO(left / kMiB << " MiB left\n" << outcome.out << outcome.err);
    if (outcome.code == 0) break;
    CHECK(outcome.code == 3);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK_THAT(outcome.err, StartsWith("error: GPU 0 has no room for this run: ") ||
                                (StartsWith("error: out of memory") && ContainsSubstring("GPU 0") &&
                                 ContainsSubstring("CUDA_VISIBLE_DEVICES")));
    const auto says = [&](const char* text) { return outcome.err.find(text) != std::string::npos; };
    ++(says("has no room for this run")  ? refused
       : says("no room for CUDA itself") ? no_context
                                         : out_of_memory);
  }
  std::printf(
      "refused without a context %d times, before the start %d times, later %d times; "
      "carried with %zu MiB free\n",
      no_context, refused, out_of_memory, left / kMiB);
  CHECK(left < 8192 * kMiB);
  CHECK(refused > 0);
  CHECK(no_context > 0);
  CHECK(out_of_memory == 0);  // what is kept for libraries was enough
}

TEST_CASE("a card that others fill once training goes on carries it, or says that memory is out") {
  const TemporaryFolder folder;
  Child child(on_gpu(folder.path(), 40, {kOneCard, kBFloat16}));
  REQUIRE(child.wait_until([&] { return metrics_lines(folder.path()).size() >= 3; }));
  const OtherProcess other(0);
  const Outcome outcome = child.wait();
  INFO(outcome.out << outcome.err);
  std::printf("filled after three steps: exit code %d\n%s", outcome.code, outcome.err.c_str());
  if (outcome.code == 0) {
    CHECK(metrics_lines(folder.path()).size() == 40);
  } else {  // a kernel of a library that was not met before
    CHECK(outcome.code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring("error: out of memory on GPU 0: ") &&
                                ContainsSubstring(" are free, too little for what CUDA and its "
                                                  "libraries need (") &&
                                ContainsSubstring("choose another with CUDA_VISIBLE_DEVICES"));
  }
}

TEST_CASE("a cuDNN that is too old or broken is refused with its file") {
  {
    const LibrariesFrom old(VERLCPP_OLD_LIBRARIES);
    const Outcome outcome = run_on_gpu("an old cuDNN", {kOneCard, kBFloat16});
    check_refused(outcome);
    CHECK_THAT(outcome.err, ContainsSubstring("needs cuDNN 9.14.0 or newer, found cuDNN 9.13.0 (" +
                                              std::string(VERLCPP_OLD_LIBRARIES)) &&
                                EndsWith("name the folder of a newer one in LD_LIBRARY_PATH\n"));
  }
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/libcudnn.so.9") << "";
  const LibrariesFrom broken(folder.path());
  const Outcome outcome = run_on_gpu("a broken cuDNN", {kOneCard, kBFloat16});
  check_refused(outcome);
  CHECK_THAT(outcome.err,
             ContainsSubstring("trainer.device=cuda needs libcudnn.so.9 for packed attention in "
                               "bfloat16: " +
                               folder.path()) &&
                 EndsWith("install it, or name its folder in LD_LIBRARY_PATH\n"));
}

TEST_CASE("an NCCL that is too old is refused with its file") {
  if (gpu_count() < 2) {
    std::printf("skipped: an old NCCL through the executable, one GPU needs none\n");
    return;
  }
  const LibrariesFrom old(VERLCPP_OLD_LIBRARIES);
  const Outcome outcome = run_on_gpu("an old NCCL", {{"trainer.n_gpus_per_node=2"}});
  check_refused(outcome);
  CHECK_THAT(outcome.err, ContainsSubstring("several GPUs need NCCL 2.18.1 or newer, found NCCL "
                                            "2.14.3 (" +
                                            std::string(VERLCPP_OLD_LIBRARIES)));
}

TEST_CASE("auto takes the GPU, and check compares every op of a run") {
  const Outcome automatic = run_on_gpu("trainer.device=auto", {{"trainer.device=auto"}, kOneCard});
  CHECK(automatic.code == 0);
  CHECK_THAT(automatic.out, ContainsSubstring("device: trainer.device=auto chose cuda: "));
  const Outcome checked = run_on_gpu("trainer.device=check", {{"trainer.device=check"}, kOneCard});
  INFO(checked.out << checked.err);
  CHECK(checked.code == 0);
  CHECK_THAT(checked.out, ContainsSubstring("step:1"));
}
