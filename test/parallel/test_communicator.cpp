#include <chrono>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "parallel/topology.h"
#include "support/catch.h"
#include "support/ranks.h"

using namespace verlcpp;
using namespace verlcpp::parallel;

namespace {

template <class T>
Tensor host_tensor(std::vector<T>& values) {
  return {DTypeOf<T>::value,
          {static_cast<int64_t>(values.size())},
          nullptr,
          reinterpret_cast<std::byte*>(values.data())};
}

}  // namespace

TEST_CASE("collectives give exact sums on groups of one to eight") {
  for (int size = 1; size <= 8; ++size) {
    test::run_ranks(size, [&](int rank, Communicator&, Communicator& grad) {
      std::vector<double> x(13);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i) + 100.0 * rank;
      grad.all_reduce(host_tensor(x), ReduceOp::kSum).wait();
      std::vector<int64_t> top(2, rank);
      grad.all_reduce(host_tensor(top), ReduceOp::kMax).wait();
      std::vector<float> parts(static_cast<size_t>(3 * size), static_cast<float>(rank + 1));
      std::vector<float> part(3);
      grad.reduce_scatter(host_tensor(part), host_tensor(parts)).wait();
      std::vector<int32_t> mine(2, rank), all(static_cast<size_t>(2 * size));
      grad.all_gather(host_tensor(all), host_tensor(mine)).wait();
      std::vector<double> root(4, rank);
      grad.broadcast(host_tensor(root), size - 1).wait();
      bool good = top[1] == size - 1 && root[3] == size - 1;
      for (size_t i = 0; i < x.size(); ++i) {
        good = good && x[i] == static_cast<double>(i) * size + 50.0 * size * (size - 1);
      }
      good = good && part[2] == static_cast<float>(size * (size + 1) / 2);
      for (int r = 0; r < size; ++r) good = good && all[static_cast<size_t>(2 * r + 1)] == r;
      expects(good, "a collective is wrong");
    });
  }
}

TEST_CASE("empty tensors pass through every collective") {
  test::run_ranks(3, [](int, Communicator&, Communicator& grad) {
    std::vector<double> none;
    grad.all_reduce(host_tensor(none), ReduceOp::kSum).wait();
    grad.all_gather(host_tensor(none), host_tensor(none)).wait();
    expects(grad.all_gather_bytes({}).size() == 3, "one entry a rank");
  });
}

TEST_CASE("sends meet receives in issue order, also to oneself and in growing groups") {
  test::run_ranks(4, [](int rank, Communicator& cp, Communicator&) {
    for (int group = 1; group <= 4; ++group) {
      if (rank >= group) continue;
      const int to = (rank + 1) % group, from = (rank + group - 1) % group;
      std::vector<float> a{static_cast<float>(rank)}, b{static_cast<float>(rank + 10)}, c(1), d(1);
      const Transfer sends[] = {{to, host_tensor(a)}, {to, host_tensor(b)}};
      const Transfer receives[] = {{from, host_tensor(c)}, {from, host_tensor(d)}};
      cp.exchange(sends, receives).wait();
      expects(c[0] == static_cast<float>(from) && d[0] == static_cast<float>(from + 10),
              "a message went astray");
    }
  });
}

TEST_CASE("ranks that give tensors of different sizes are a bug of ours, and nothing is read") {
  using Call = std::function<void(Communicator&, const Tensor&)>;
  const std::vector<Call> calls{
      [](Communicator& c, const Tensor& x) { c.all_reduce(x, ReduceOp::kSum).wait(); },
      [](Communicator& c, const Tensor& x) { c.broadcast(x, 0).wait(); },
      [](Communicator& c, const Tensor& x) {
        c.reduce_scatter(x.slice(0, {x.numel() / 2}), x).wait();
      },
      [](Communicator& c, const Tensor& x) {
        std::vector<double> all(static_cast<size_t>(2 * x.numel()));
        c.all_gather(host_tensor(all), x).wait();
      },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    INFO("call " << i);
    CHECK_THROWS_WITH(
        test::run_ranks(2,
                        [&](int rank, Communicator&, Communicator& grad) {
                          std::vector<double> mine(rank == 0 ? 2 : 4);
                          calls[i](grad, host_tensor(mine));
                        }),
        Catch::Matchers::ContainsSubstring("tensors of different sizes to one collective"));
  }
}

TEST_CASE("the first failure wakes every waiting rank within a second") {
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(test::run_ranks(4,
                                    [](int rank, Communicator& cp, Communicator& grad) {
                                      if (rank == 2) throw DataError("row 7 is bad");
                                      std::vector<float> x(1);
                                      const Transfer receive{2, host_tensor(x)};
                                      if (rank == 0) cp.exchange({}, {&receive, 1}).wait();
                                      grad.barrier();
                                    }),
                    "row 7 is bad");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
}

TEST_CASE("a rank that fails between collectives leaves nobody with freed memory") {
  for (int round = 0; round < 50; ++round) {
    CHECK_THROWS_AS(test::run_ranks(4,
                                    [&](int rank, Communicator&, Communicator& grad) {
                                      for (int i = 0;; ++i) {
                                        if (rank == round % 4 && i == round) {
                                          throw DataError("enough");
                                        }
                                        std::vector<double> x(64, rank);
                                        grad.all_reduce(host_tensor(x), ReduceOp::kSum).wait();
                                        expects(x[63] == 6, "a sum is wrong");
                                      }
                                    }),
                    DataError);
  }
}

TEST_CASE("topology is dp-major, cp-minor, with TP fastest") {
  const AxisSizes sizes{.world = 16, .tp = 2, .pp = 1, .cp = 4};
  CHECK(sizes.dp() == 2);
  CHECK(sizes.pool() == 8);
  const Topology t(sizes, 13);
  CHECK(t.tp_rank() == 1);
  CHECK(t.cp_rank() == 2);
  CHECK(t.dp_rank() == 1);
  CHECK(t.pool_rank() == 6);
  CHECK_THROWS_AS(Topology(AxisSizes{.world = 6, .cp = 4}, 0), ConfigError);
}
