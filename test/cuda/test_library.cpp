// Needs no GPU.

#include <dlfcn.h>

#include "base/error.h"
#include "cuda/library.h"
#include "support/catch.h"

using namespace verlcpp;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a library that is missing is named with what it is for and what to do") {
  CHECK_THROWS_WITH(
      cuda::Library("packed attention", {"libverlcpp-none.so.9", "libverlcpp-none.so.8"}),
      ContainsSubstring("trainer.device=cuda needs libverlcpp-none.so.9, libverlcpp-none.so.8 for "
                        "packed attention: ") &&
          ContainsSubstring("No such file") &&
          ContainsSubstring("install it, or name its folder in LD_LIBRARY_PATH"));
  CHECK_THROWS_AS(cuda::Library("nothing", {"libverlcpp-none.so"}), DeviceError);
}

TEST_CASE("the first library that is there serves; a function that it lacks is named") {
  const cuda::Library library("numbers", {"libverlcpp-none.so", "libm.so.6"});
  CHECK(library.function<double(double)>("floor")(2.5) == 2.0);
  CHECK_THROWS_WITH(library.function<double(double)>("verlcpp_none"),
                    "libm.so.6 lacks verlcpp_none: another version than this build was made for");
}
