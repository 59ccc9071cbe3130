#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "run_binary.h"

namespace verlcpp::test {

/// verlcpp-train in the background, with its output in files. Killed at the end if it still runs.
class Child {
 public:
  /// `file_limit`: bytes that a file may grow to (RLIMIT_FSIZE).
  explicit Child(const std::vector<std::string>& arguments,
                 std::optional<uint64_t> file_limit = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::string out() const;
  bool running();
  /// Nothing happens to one that has ended.
  void signal(int number);
  /// Looks once a millisecond until `there` or the program has ended; true when `there`.
  bool wait_until(const std::function<bool()>& there);
  /// Kills it after `limit`. The code of a program that a signal ended is minus its number.
  Outcome wait(std::chrono::seconds limit = std::chrono::seconds(120));

 private:
  void reap(int options);

  TemporaryFolder folder_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int code_ = 0;
};

}  // namespace verlcpp::test
