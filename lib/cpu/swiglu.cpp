#include <cmath>

#include "cpu/kernels.h"

namespace verlcpp::cpu {
namespace {

template <class T>
T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

}  // namespace

template <class T>
void swiglu(int64_t rows, int64_t ffn, T* out, const T* gate_up) {
  for (int64_t t = 0; t < rows; ++t, out += ffn, gate_up += 2 * ffn) {
    const T *gate = gate_up, *up = gate_up + ffn;
    for (int64_t i = 0; i < ffn; ++i) out[i] = gate[i] * sigmoid(gate[i]) * up[i];
  }
}

// d silu(g) / dg = s (1 + g (1 - s)) with s = sigmoid(g).
template <class T>
void swiglu_backward(int64_t rows, int64_t ffn, T* d_gate_up, const T* d_out, const T* gate_up) {
  for (int64_t t = 0; t < rows; ++t, d_out += ffn, gate_up += 2 * ffn, d_gate_up += 2 * ffn) {
    const T *gate = gate_up, *up = gate_up + ffn;
    for (int64_t i = 0; i < ffn; ++i) {
      const T g = gate[i], u = up[i], d = d_out[i];
      const T s = sigmoid(g);
      d_gate_up[i] = d * u * s * (T{1} + g * (T{1} - s));
      d_gate_up[i + ffn] = d * g * s;
    }
  }
}

template void swiglu(int64_t, int64_t, float*, const float*);
template void swiglu(int64_t, int64_t, double*, const double*);
template void swiglu_backward(int64_t, int64_t, float*, const float*, const float*);
template void swiglu_backward(int64_t, int64_t, double*, const double*, const double*);

}  // namespace verlcpp::cpu
