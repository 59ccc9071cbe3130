#include "data/text_file.h"

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "data/line_file.h"

namespace verlcpp::data {

std::string read_text_file(const std::string& path) {
  if (const std::string why = why_unreadable(path); !why.empty()) {
    throw DataError(path + ": " + why);
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  if (in && in.peek() != std::ifstream::traits_type::eof()) out << in.rdbuf();
  if (in.bad() || out.fail()) throw DataError(path + ": reading failed");
  return out.str();
}

}  // namespace verlcpp::data
