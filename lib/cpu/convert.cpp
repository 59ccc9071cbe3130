#include <bit>
#include <string>

#include "base/error.h"
#include "cpu/kernels.h"

namespace verlcpp::cpu {
namespace {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

constexpr uint32_t kSign = 0x80000000u;
constexpr uint32_t kInfinity = 0x7F800000u, kNaN = 0x7FC00000u;

double widen(double x) { return x; }
double widen(float x) { return x; }
double widen(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }
double widen(Float16 x) {
  const uint32_t bits = (x.bits & 0x7FFFu) << 13;  // in a float's places, its exponent 112 too low
  const uint32_t sign = (x.bits & 0x8000u) << 16;
  if (bits >= 0x0F800000u)
    return std::bit_cast<float>(bits > 0x0F800000u ? kNaN : kInfinity | sign);
  const float magnitude = bits < 0x00800000u  // a subnormal is what it adds to 2^-14
                              ? std::bit_cast<float>(bits + 0x38800000u) - 0x1p-14f
                              : std::bit_cast<float>(bits + 0x38000000u);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

// Round to nearest, ties to even. Doubles pass through float on the way to 16 bits.
void narrow(double x, double& out) { out = x; }
void narrow(double x, float& out) { out = static_cast<float>(x); }
void narrow(double x, BFloat16& out) {
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  const uint32_t magnitude = bits & ~kSign;
  if (magnitude > kInfinity) {  // keep it a NaN: its payload may be in the dropped half
    out.bits = static_cast<uint16_t>((bits >> 16) | 0x40u);
    return;
  }
  out.bits = static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
void narrow(double x, Float16& out) {
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  const uint32_t magnitude = bits & ~kSign;
  uint32_t half = 0;
  if (magnitude > kInfinity) {
    half = 0x7E00u;
  } else if (magnitude >= 0x477FF000u) {  // 65520 and above round to infinity
    half = 0x7C00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14: the smallest normal half
    half = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  } else {  // a float in [0.5, 1) has the ulp of a subnormal half, so adding 0.5 rounds for us
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
           std::bit_cast<uint32_t>(0.5f);
  }
  out.bits = static_cast<uint16_t>(half | (bits & kSign) >> 16);
}

template <class Body>
void dispatch_storage(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat64:
      return body.template operator()<double>();
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kBFloat16:
      return body.template operator()<BFloat16>();
    case DType::kFloat16:
      return body.template operator()<Float16>();
    case DType::kInt32:
    case DType::kInt64:
      break;
  }
  expects(false, "copy converts between floating dtypes only, not " + std::string(name_of(dtype)));
}

}  // namespace

void convert(std::byte* dst, DType dst_dtype, const std::byte* src, DType src_dtype, int64_t n) {
  dispatch_storage(dst_dtype, [&]<class To>() {
    dispatch_storage(src_dtype, [&]<class From>() {
      To* to = reinterpret_cast<To*>(dst);
      const From* from = reinterpret_cast<const From*>(src);
      for (int64_t i = 0; i < n; ++i) narrow(widen(from[i]), to[i]);
    });
  });
}

}  // namespace verlcpp::cpu
