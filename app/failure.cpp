#include "app/failure.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace verlcpp::app {
namespace {

constexpr int kBug = 1;
constexpr int kMachineFailed = 3;

struct Described {
  std::string message;
  int exit_code;
};

Described describe(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    return {e.what(), e.exit_code()};
  } catch (const std::bad_alloc&) {
    return {"the machine: out of memory", kMachineFailed};
  } catch (const std::system_error& e) {  // files, threads and streams alike
    return {std::string("the machine: ") + e.what(), kMachineFailed};
  } catch (const std::exception& e) {
    return {std::string("internal error, please report it: ") + e.what(), kBug};
  } catch (...) {
    return {"internal error, please report it: an exception of an unknown type", kBug};
  }
}

}  // namespace

int report_failure(const std::exception_ptr& failure) {
  const Described described = describe(failure);
  log::error(described.message);
  return described.exit_code;
}

int end_main(int exit_code) {
  if (exit_code != kMachineFailed) return exit_code;
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

void end_process(const std::exception_ptr& failure) {
  const Described described = describe(failure);
  log::last_error(described.message);
  std::_Exit(described.exit_code);
}

}  // namespace verlcpp::app
