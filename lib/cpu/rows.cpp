#include <cstring>
#include <string>

#include "base/error.h"
#include "cpu/kernels.h"

namespace verlcpp::cpu {
namespace {

size_t row_start(int64_t row, int64_t limit, size_t row_bytes) {
  if (row < 0 || row >= limit) {
    expects(false,
            "row " + std::to_string(row) + " outside of a tensor of " + std::to_string(limit));
  }
  return static_cast<size_t>(row) * row_bytes;
}

}  // namespace

void gather_rows(int64_t count, int64_t limit, size_t row_bytes, std::byte* out, const std::byte* x,
                 const int32_t* rows) {
  for (int64_t r = 0; r < count; ++r, out += row_bytes) {
    std::memcpy(out, x + row_start(rows[r], limit, row_bytes), row_bytes);
  }
}

void scatter_rows(int64_t count, int64_t limit, size_t row_bytes, std::byte* out,
                  const std::byte* x, const int32_t* rows) {
  for (int64_t r = 0; r < count; ++r, x += row_bytes) {
    std::memcpy(out + row_start(rows[r], limit, row_bytes), x, row_bytes);
  }
}

void join_columns(int64_t rows, size_t joined_bytes, size_t offset, size_t part_bytes,
                  std::byte* joined, const std::byte* part) {
  for (int64_t t = 0; t < rows; ++t, joined += joined_bytes, part += part_bytes) {
    std::memcpy(joined + offset, part, part_bytes);
  }
}

}  // namespace verlcpp::cpu
