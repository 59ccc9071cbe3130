#pragma once

#include <functional>

#include "parallel/communicator.h"

namespace verlcpp::parallel {

/// Runs `body(rank, communicators)` on `size` threads, one per rank, with two communicators over
/// all of them. Returns when all are done; the first exception aborts the others and is rethrown.
void run_thread_ranks(int size, const std::function<void(int, RankCommunicators)>& body);

}  // namespace verlcpp::parallel
