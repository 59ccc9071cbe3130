#pragma once

#include <functional>

#include "parallel/thread_ranks.h"

namespace verlcpp::test {

/// Thread ranks of one pool with its two communicators as arguments.
inline void run_ranks(
    int size,
    const std::function<void(int, parallel::Communicator&, parallel::Communicator&)>& body) {
  parallel::run_thread_ranks({.world = size},
                             [&](const parallel::Topology& me, parallel::RankCommunicators comm) {
                               body(static_cast<int>(me.rank()), comm.cp, comm.grad);
                             });
}

}  // namespace verlcpp::test
