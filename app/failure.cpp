#include "app/failure.h"

#include <cstdlib>
#include <new>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace verlcpp::app {
namespace {

constexpr int kBug = 1;
constexpr int kMachineFailed = 3;

}  // namespace

int report_failure(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    log::error(e.what());
    return e.exit_code();
  } catch (const std::bad_alloc&) {
    log::error("the machine: out of memory");
    return kMachineFailed;
  } catch (const std::system_error& e) {  // files, threads and streams alike
    log::error(std::string("the machine: ") + e.what());
    return kMachineFailed;
  } catch (const std::exception& e) {
    log::error(std::string("internal error, please report it: ") + e.what());
    return kBug;
  } catch (...) {
    log::error("internal error, please report it: an exception of an unknown type");
    return kBug;
  }
}

void end_process(const std::exception_ptr& failure) { std::_Exit(report_failure(failure)); }

}  // namespace verlcpp::app
