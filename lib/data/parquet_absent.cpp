// The build found no Arrow.

#include "base/error.h"
#include "data/parquet.h"

namespace verlcpp::data {

std::string why_unreadable_parquet(const std::string&) {
  return "cannot be read as Parquet: this build has no Arrow, which reads it; run scripts/setup.sh "
         "and build again, or convert the file to .jsonl";
}

void for_each_parquet_row(
    const std::string& path, const std::vector<std::string>&,
    const std::function<void(int64_t, const nlohmann::ordered_json&, const std::string&)>&) {
  throw DataError(path + " " + why_unreadable_parquet(path));
}

}  // namespace verlcpp::data
