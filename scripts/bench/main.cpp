#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>

#include "app/failure.h"
#include "base/error.h"
#include "base/log.h"
#include "rig.h"

namespace verlcpp::bench {
namespace {

std::vector<Row> run(const Options& options) {
  switch (options.kind) {
    case Kind::kOp:
      return run_op(options);
    case Kind::kAttention:
      return run_attention(options);
    case Kind::kStep:
      return run_step(options);
    case Kind::kLogProb:
      return run_log_prob(options);
    case Kind::kComm:
      return run_comm(options);
    case Kind::kDecode:
      break;
  }
  return run_decode(options);
}

/// Before anything is measured: a file that takes nothing would lose it.
void expect_writable(const std::string& file) {
  errno = 0;
  if (!std::ofstream(file, std::ios::app)) {
    throw ConfigError("--json=" + file + ": " + std::strerror(errno) +
                      "; valid: a file that can be written, or - for standard output");
  }
}

std::vector<Row> run_checked(const Options& options) {
  if (!options.json.empty() && options.json != "-") expect_writable(options.json);
  std::vector<Row> rows = run(options);
  const auto measured = [](const Row& row) { return !row.seconds.empty(); };
  if (std::none_of(rows.begin(), rows.end(), measured)) {
    throw ConfigError("--filter=" + options.filter + ": no row's name holds this");
  }
  return rows;
}

}  // namespace
}  // namespace verlcpp::bench

int main(int argc, char** argv) {
  using namespace verlcpp;
  try {
    if (const auto options = bench::parse_options(argc, argv)) {
      if (options->json == "-") log::keep_stdout_clean();  // an op that meets its plan says so
      bench::report(*options, bench::run_checked(*options));
    }
    return 0;
  } catch (...) {
    return app::end_main(app::report_failure(std::current_exception()));
  }
}
