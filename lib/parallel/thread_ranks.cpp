#include "parallel/thread_ranks.h"

#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "parallel/thread_communicator.h"

namespace verlcpp::parallel {
namespace {

/// The first exception of any rank; later ones are its consequences.
class FirstFailure {
 public:
  bool set(std::exception_ptr failure) {
    std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = std::move(failure);
    return true;
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void run_thread_ranks(int size, const std::function<void(int, RankCommunicators)>& body) {
  const ThreadWorld cp(size), grad(size);
  FirstFailure failure;
  const auto fail = [&] {
    if (!failure.set(std::current_exception())) return;
    cp.abort("another rank failed");
    grad.abort("another rank failed");
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      try {
        threads.emplace_back([&, rank] {
          try {
            const auto my_cp = cp.communicator(rank), my_grad = grad.communicator(rank);
            body(rank, {*my_cp, *my_grad});
          } catch (...) {
            fail();
          }
        });
      } catch (const std::system_error&) {  // no thread to be had: wake those that run
        fail();
        break;
      }
    }
  }
  failure.rethrow();
}

}  // namespace verlcpp::parallel
