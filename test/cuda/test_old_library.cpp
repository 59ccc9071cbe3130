// Run with the libraries of test/cuda/old first in LD_LIBRARY_PATH. Needs no GPU.

#include "base/error.h"
#include "cuda/runtime.h"
#include "support/catch.h"

using namespace verlcpp;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

TEST_CASE("a cuDNN that is too old is named with its file, and with what is needed") {
  for (int attempt = 0; attempt < 2; ++attempt) {
    CHECK_THROWS_WITH(cuda::expect_libraries(true, false),
                      ContainsSubstring("trainer.device=cuda: packed attention in bfloat16 needs "
                                        "cuDNN 9.14.0 or newer, found cuDNN 9.13.0 (") &&
                          EndsWith("/libcudnn.so.9); name the folder of a newer one in "
                                   "LD_LIBRARY_PATH"));
  }
  CHECK_THROWS_AS(cuda::expect_libraries(true, false), DeviceError);
}

TEST_CASE("an NCCL that is too old is named before the functions that it lacks") {
  CHECK_THROWS_WITH(cuda::expect_libraries(false, true),
                    ContainsSubstring("trainer.device=cuda: several GPUs need NCCL 2.18.1 or "
                                      "newer, found NCCL 2.14.3 (") &&
                        EndsWith("/libnccl.so.2); name the folder of a newer one in "
                                 "LD_LIBRARY_PATH"));
  CHECK_THROWS_AS(cuda::expect_libraries(false, true), DeviceError);
}
