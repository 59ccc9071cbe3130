#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "model/weights_io.h"
#include "support/catch.h"

namespace verlcpp::test {

/// The tensors of a reference file made with PyTorch, by name. A missing one, or one of another
/// dtype, fails the test.
class Vectors {
 public:
  explicit Vectors(const std::string& path) : reader_(path) {}

  std::vector<double> doubles(const std::string& name) const {
    return values<double>(name, DType::kFloat64);
  }
  std::vector<int32_t> ints(const std::string& name) const {
    return values<int32_t>(name, DType::kInt32);
  }
  /// Tensors whose names begin with `prefix`.
  size_t count(const std::string& prefix) const {
    size_t found = 0;
    for (const std::string& name : reader_.names()) found += name.starts_with(prefix) ? 1 : 0;
    return found;
  }

 private:
  template <class T>
  std::vector<T> values(const std::string& name, DType dtype) const {
    const model::StoredTensor* tensor = reader_.find(name);
    INFO(name);
    REQUIRE(tensor != nullptr);
    REQUIRE(tensor->dtype == dtype);
    std::vector<T> out(tensor->bytes.size() / sizeof(T));
    std::memcpy(out.data(), tensor->bytes.data(), tensor->bytes.size());
    return out;
  }

  model::SafetensorsReader reader_;
};

/// |a - b| / |b|, L2; infinite for different sizes or a b of zeros.
inline double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  double error = 0, norm = 0;
  if (a.size() != b.size()) return INFINITY;
  for (size_t i = 0; i < b.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return norm > 0 ? std::sqrt(error / norm) : INFINITY;
}

}  // namespace verlcpp::test
