#include "data/tokenizer/byte_alphabet.h"

#include <array>

#include "data/utf8.h"

namespace verlcpp::data {

namespace {

constexpr uint32_t kLetters = 256 + 68;  // letters lie below this code point

struct Alphabet {
  std::array<std::string, 256> letter;
  std::array<int, kLetters> byte{};
};

Alphabet make_alphabet() {
  Alphabet out;
  out.byte.fill(-1);
  uint32_t next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const uint32_t code_point = printable ? b : next++;
    out.byte[code_point] = static_cast<int>(b);
    append_utf8(code_point, out.letter[b]);
  }
  return out;
}

const Alphabet& alphabet() {
  static const Alphabet made = make_alphabet();
  return made;
}

}  // namespace

std::string to_byte_letters(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + bytes.size() / 4);
  for (const char c : bytes) out += alphabet().letter[static_cast<unsigned char>(c)];
  return out;
}

std::optional<std::string> from_byte_letters(std::string_view letters) {
  std::string out;
  for (const uint32_t code_point : code_points(letters)) {
    const int byte = code_point < kLetters ? alphabet().byte[code_point] : -1;
    if (byte < 0) return std::nullopt;
    out += static_cast<char>(byte);
  }
  return out;
}

}  // namespace verlcpp::data
