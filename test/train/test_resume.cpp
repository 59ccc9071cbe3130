#include "base/error.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/resume.h"

using namespace verlcpp;
using namespace verlcpp::train;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a recording keeps the rows that the checkpoint counted, whatever the batch is now") {
  const test::TemporaryFolder temp;
  const std::string path = temp.write("rows.jsonl", "{\"uid\":1}\n{\"uid\":2}\n{\"uid\":3}\n");
  CHECK(kept_rows(path, 2, 1, 2) == 2);
  CHECK(kept_rows(path, 3, 1, 8) == 3);
  CHECK(kept_rows(path, 3, 0, 8) == 0);  // from scratch
  CHECK_THROWS_WITH(kept_rows(path, 4, 1, 2), ContainsSubstring("rows.jsonl has 3 rows; the steps "
                                                                "before the resumed one wrote 4"));
  CHECK_THROWS_WITH(kept_rows(path, {}, 1, 2),
                    ContainsSubstring("the checkpoint of step 1 was saved by a run that recorded "
                                      "none; set it to a file of its own"));
  CHECK(kept_rows(temp.path() + "/new.jsonl", 4, 1, 2) == 0);
  CHECK(kept_rows(temp.write("empty.jsonl", ""), {}, 1, 2) == 0);
}
