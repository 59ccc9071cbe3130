#include "data/json_reason.h"

#include "data/utf8.h"

namespace verlcpp::data {

std::string json_reason(const std::string& what, bool one_line) {
  std::string text = utf8_lossy(what);
  const size_t number = text.find("] ");
  if (number != std::string::npos) text.erase(0, number + 2);
  for (const std::string prefix : {"parse error at ", "line 1, "}) {
    if (text.starts_with(prefix) && (one_line || prefix[0] == 'p')) text.erase(0, prefix.size());
  }
  return text;
}

}  // namespace verlcpp::data
