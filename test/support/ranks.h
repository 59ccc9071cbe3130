#pragma once

#include <functional>

#include "parallel/thread_ranks.h"

namespace verlcpp::test {

/// Thread ranks with the communicators as two arguments.
inline void run_ranks(
    int size,
    const std::function<void(int, parallel::Communicator&, parallel::Communicator&)>& body) {
  parallel::run_thread_ranks(
      size, [&](int rank, parallel::RankCommunicators comm) { body(rank, comm.cp, comm.grad); });
}

}  // namespace verlcpp::test
