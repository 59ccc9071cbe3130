// For scripts/parity/tokenizers_check.py: tokenizes JSON lines and prints JSON lines.
//
//   tokenize_lines FOLDER < LINES
//
// A line is a text, answered with {"ids", "special_ids", "text", "special_text"} (special_: with
// the post-processor's tokens, and with special tokens kept in the text), or a list of ids,
// answered with the two texts. Exits 1 when a text that came token by token is another than the
// whole one.

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

using namespace verlcpp;
using namespace verlcpp::data;
using Json = nlohmann::json;

namespace {

std::string streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip) {
  TokenStream stream(tokenizer, skip);
  std::string text;
  const auto add = [&](const std::string& piece) {
    expects(is_utf8(piece), "a piece of a stream is whole characters");
    text += piece;
  };
  for (const int32_t id : ids) add(stream.push(id));
  add(stream.finish());
  expects(text == tokenizer.decode(ids, skip), "a stream gives the whole text");
  return text;
}

Json answer(const Tokenizer& tokenizer, const Json& line) {
  Json out = Json::object();
  std::vector<int32_t> ids;
  if (line.is_string()) {
    const auto text = line.get<std::string>();
    ids = tokenizer.encode(text);
    out["ids"] = ids;
    out["special_ids"] = tokenizer.encode(text, true);
  } else {
    ids = line.get<std::vector<int32_t>>();
  }
  out["text"] = streamed(tokenizer, ids, true);
  out["special_text"] = streamed(tokenizer, ids, false);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenize_lines FOLDER < LINES\n";
    return 2;
  }
  try {
    const Tokenizer tokenizer = Tokenizer::load(argv[1]);
    for (std::string line; std::getline(std::cin, line);) {
      std::cout << answer(tokenizer, Json::parse(line)).dump() << "\n";
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
