#include "train/digest.h"

#include <openssl/evp.h>

#include <array>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"

namespace verlcpp::train {
namespace {

/// An OpenSSL digest under construction.
class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    expects(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "SHA-256 starts");
  }
  void update(const char* bytes, size_t n) {
    expects(EVP_DigestUpdate(context_.get(), bytes, n) == 1, "SHA-256 takes bytes");
  }
  std::string hex() {
    std::array<unsigned char, 32> value{};
    expects(EVP_DigestFinal_ex(context_.get(), value.data(), nullptr) == 1, "SHA-256 ends");
    std::string text;
    for (unsigned char byte : value) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

/// Whole numbers as integers: JSON writers differ in 10000 and 10000.0.
void unify_numbers(nlohmann::json& json) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (json.is_structured()) {
    for (auto& item : json) unify_numbers(item);
  } else if (json.is_number_float()) {
    const double value = json.get<double>();
    if (std::floor(value) == value && std::abs(value) < kExact) json = static_cast<int64_t>(value);
  } else if (json.is_number_unsigned() && json.get<uint64_t>() <= INT64_MAX) {
    json = json.get<int64_t>();
  }
}

}  // namespace

std::string sha256(const std::string& bytes) {
  Digest digest;
  digest.update(bytes.data(), bytes.size());
  return digest.hex();
}

std::string sha256_of_file(const std::string& path, const std::function<void()>& beat) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw DataError("checkpoint file " + path + " cannot be read");
  Digest digest;
  std::vector<char> block(1 << 20);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    digest.update(block.data(), static_cast<size_t>(in.gcount()));
    if (beat) beat();
  }
  if (in.bad()) throw DataError("checkpoint file " + path + " cannot be read");
  return digest.hex();
}

std::string model_digest(const std::string& config_json) {
  nlohmann::json json = nlohmann::json::parse(config_json, nullptr, false);
  if (!json.is_object()) return sha256(config_json);
  for (const char* key : {"dtype", "torch_dtype", "transformers_version", "_name_or_path"}) {
    json.erase(key);
  }
  unify_numbers(json);
  return sha256(json.dump());  // keys sorted
}

}  // namespace verlcpp::train
