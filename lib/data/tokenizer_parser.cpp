// Reads Hugging Face's tokenizer.json. Everything this file format can ask for that would change
// ids and is not done here is refused by name.

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/text_file.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

namespace verlcpp::data {

namespace {

using Json = nlohmann::json;

constexpr const char* kSupported =
    "; byte-level tokenizers (BPE with a ByteLevel pre-tokenizer) without regex splitting are "
    "supported";
/// Larger ids are a broken file, not a vocabulary.
constexpr int64_t kMaxId = 1 << 24;

/// GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the others, in order, for the
/// code points from 256 on.
uint32_t symbol_of_byte(unsigned byte) {
  const auto printable = [](unsigned b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  if (printable(byte)) return byte;
  uint32_t before = 0;
  for (unsigned b = 0; b < byte; ++b) before += printable(b) ? 0 : 1;
  return 256 + before;
}

std::string type_of(const Json& part) {
  if (part.is_null()) return "none";
  if (!part.is_object()) return part.dump();
  const auto type = part.find("type");
  return type != part.end() && type->is_string() ? type->get<std::string>() : part.dump();
}

/// A Sequence shows what is in it: "Sequence[Split, ByteLevel]".
std::string describe(const Json& part) {
  const std::string type = type_of(part);
  if (type != "Sequence") return type;
  std::string inside;
  for (const char* key : {"pretokenizers", "decoders", "normalizers"}) {
    const auto list = part.find(key);
    if (list == part.end() || !list->is_array()) continue;
    for (const Json& entry : *list) inside += (inside.empty() ? "" : ", ") + type_of(entry);
  }
  return "Sequence[" + inside + "]";
}

/// An absent key and null mean the same.
Json get(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? Json() : *found;
}

bool is_true(const Json& object, const char* key, bool absent) {
  const Json value = get(object, key);
  return value.is_boolean() ? value.get<bool>() : absent;
}

bool is_empty_text(const Json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty());
}

}  // namespace

class TokenizerParser {
 public:
  TokenizerParser(const std::string& json, const std::string& where) : where_(where) {
    root_ = Json::parse(json, nullptr, false);
    if (!root_.is_object()) fail("not a JSON object");
    out_.where_ = where;
  }

  Tokenizer parse() {
    check_pipeline();
    read_vocab();
    read_merges();
    read_added_tokens();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw DataError(where_ + ": " + what); }
  [[noreturn]] void refuse(const std::string& part, const std::string& what) const {
    fail(where_part(part) + what + kSupported);
  }
  static std::string where_part(const std::string& part) { return "needs " + part + " "; }

  void check_pipeline() {
    model_ = get(root_, "model");
    if (model_.is_null()) fail(std::string("model is missing") + kSupported);
    if (type_of(model_) != "BPE") refuse("model", type_of(model_));
    for (const char* key : {"byte_fallback", "ignore_merges"}) {
      if (is_true(model_, key, false)) refuse("model option", std::string(key) + ": true");
    }
    for (const char* key : {"dropout", "unk_token"}) {
      const Json value = get(model_, key);
      if (!value.is_null()) refuse("model option", std::string(key) + ": " + value.dump());
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!is_empty_text(get(model_, key))) {
        refuse("model option", std::string(key) + ": " + get(model_, key).dump());
      }
    }
    const Json normalizer = get(root_, "normalizer");
    if (!normalizer.is_null()) refuse("normalizer", describe(normalizer));
    const Json decoder = get(root_, "decoder");
    if (type_of(decoder) != "ByteLevel") refuse("decoder", describe(decoder));
    const Json splitter = get(root_, "pre_tokenizer");
    if (type_of(splitter) != "ByteLevel") refuse("pre-tokenizer", describe(splitter));
    if (is_true(splitter, "add_prefix_space", true)) {
      refuse("pre-tokenizer", "ByteLevel with add_prefix_space: true");
    }
    // Without merges every byte is a token, split or not.
    const Json merges = get(model_, "merges");
    if (is_true(splitter, "use_regex", true) && !(merges.is_array() && merges.empty())) {
      refuse("pre-tokenizer", "ByteLevel with use_regex: true");
    }
  }

  /// The row of `id`, of which `owner` is the spelling.
  Tokenizer::Token& claim(const std::string& owner, const Json& id) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= kMaxId) {
      fail("id " + id.dump() + " of token " + Json(owner).dump(-1, ' ', true) +
           "; valid: an integer from 0 to " + std::to_string(kMaxId - 1));
    }
    const size_t index = id.get<size_t>();
    if (index >= out_.tokens_.size()) out_.tokens_.resize(index + 1);
    const auto [entry, is_new] = out_.ids_.emplace(owner, static_cast<int32_t>(index));
    if (entry->second != static_cast<int32_t>(index) || (is_new && out_.tokens_[index].used)) {
      fail("id " + id.dump() + " of token " + Json(owner).dump(-1, ' ', true) +
           " contradicts another entry; valid: one id a token, one token an id");
    }
    out_.tokens_[index].used = true;
    return out_.tokens_[index];
  }

  void read_vocab() {
    const Json vocab = get(model_, "vocab");
    if (!vocab.is_object()) fail("model.vocab is missing or not an object of token: id");
    std::map<uint32_t, unsigned char> byte_of_symbol;
    for (unsigned b = 0; b < 256; ++b) {
      byte_of_symbol[symbol_of_byte(b)] = static_cast<unsigned char>(b);
    }
    out_.byte_ids_.fill(-1);
    for (const auto& [token, id] : vocab.items()) {
      Tokenizer::Token& entry = claim(token, id);
      bool is_bytes = true;
      std::string bytes;
      for (const uint32_t symbol : code_points(token)) {
        const auto byte = byte_of_symbol.find(symbol);
        is_bytes = is_bytes && byte != byte_of_symbol.end();
        if (is_bytes) bytes += static_cast<char>(byte->second);
      }
      entry.bytes = is_bytes ? bytes : token;
      if (is_bytes && bytes.size() == 1) {
        out_.byte_ids_[static_cast<unsigned char>(bytes[0])] = id.get<int32_t>();
      }
    }
  }

  void read_merges() {
    const Json merges = get(model_, "merges");
    if (!merges.is_array()) fail("model.merges is missing or not a list");
    int32_t rank = 0;
    for (const Json& merge : merges) {
      const auto [left, right] = halves(merge, rank);
      const auto a = out_.token_id(left), b = out_.token_id(right), c = out_.token_id(left + right);
      if (!a || !b || !c) {
        fail("model.merges[" + std::to_string(rank) + "] " + merge.dump(-1, ' ', true) +
             ": both halves and the whole must be in model.vocab");
      }
      out_.merges_[{*a, *b}] = {.rank = rank, .id = *c};
      ++rank;
    }
  }

  /// "a b" in older files, ["a", "b"] in newer ones.
  std::pair<std::string, std::string> halves(const Json& merge, int32_t rank) const {
    if (merge.is_string()) {
      const std::string text = merge.get<std::string>();
      const size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
        return {text.substr(0, space), text.substr(space + 1)};
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    }
    fail("model.merges[" + std::to_string(rank) + "] " + merge.dump(-1, ' ', true) +
         "; valid: \"a b\" or [\"a\", \"b\"]");
  }

  void read_added_tokens() {
    const Json list = get(root_, "added_tokens");
    if (list.is_null()) return;
    if (!list.is_array()) fail("added_tokens is not a list");
    for (const Json& added : list) {
      const Json content = added.is_object() ? get(added, "content") : Json();
      if (is_empty_text(content) || !content.is_string()) {
        fail("added_tokens entry " + added.dump(-1, ' ', true) + " has no content");
      }
      const std::string text = content.get<std::string>();
      for (const char* key : {"single_word", "lstrip", "rstrip"}) {
        if (is_true(added, key, false)) {
          refuse("added token", content.dump(-1, ' ', true) + " with " + key + ": true");
        }
      }
      Tokenizer::Token& entry = claim(text, get(added, "id"));
      entry.bytes = text;
      entry.special = is_true(added, "special", false);
      out_.added_[static_cast<unsigned char>(text[0])].emplace_back(text, *out_.token_id(text));
    }
    for (auto& candidates : out_.added_) {
      std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
        return std::pair(b.first.size(), a.first) < std::pair(a.first.size(), b.first);
      });
    }
  }

  std::string where_;
  Json root_, model_;
  Tokenizer out_;
};

Tokenizer Tokenizer::parse(const std::string& json, const std::string& where) {
  return TokenizerParser(json, where).parse();
}

Tokenizer Tokenizer::load(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  if (!std::filesystem::exists(path)) {
    throw DataError(path + " does not exist; a model folder holds Hugging Face's tokenizer.json");
  }
  return parse(read_text_file(path), path);
}

}  // namespace verlcpp::data
