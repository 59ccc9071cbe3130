#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "parallel/thread_communicator.h"

namespace verlcpp::test {

/// Runs `body(rank, cp, grad)` on `size` threads, one per rank, with two communicators over all of
/// them. The first exception aborts the others and is rethrown.
inline void run_ranks(
    int size,
    const std::function<void(int, parallel::Communicator&, parallel::Communicator&)>& body) {
  parallel::ThreadWorld cp(size), grad(size);
  std::exception_ptr first;
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          auto mine_cp = cp.communicator(rank);
          auto mine_grad = grad.communicator(rank);
          body(rank, *mine_cp, *mine_grad);
        } catch (...) {
          {
            std::lock_guard lock(mutex);
            if (!first) first = std::current_exception();
          }
          cp.abort("another rank failed");
          grad.abort("another rank failed");
        }
      });
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace verlcpp::test
