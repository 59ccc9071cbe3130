#include <exception>

#include "app/failure.h"
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

}  // namespace
}  // namespace verlcpp::bench

int main(int argc, char** argv) {
  using namespace verlcpp;
  try {
    if (const auto options = bench::parse_options(argc, argv)) {
      if (options->json == "-") log::keep_stdout_clean();  // an op that meets its plan says so
      bench::report(*options, bench::run(*options));
    }
    return 0;
  } catch (...) {
    return app::end_main(app::report_failure(std::current_exception()));
  }
}
