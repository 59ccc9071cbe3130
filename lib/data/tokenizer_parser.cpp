// Reads Hugging Face's tokenizer.json. Everything this file format can ask for that would change
// ids and is not done here is refused by name.

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "data/text_file.h"
#include "data/tokenizer.h"
#include "data/tokenizer/pipeline_parser.h"

namespace verlcpp::data {

namespace {

using Json = nlohmann::json;

/// Larger ids are a broken file, not a vocabulary.
constexpr int64_t kMaxId = 1 << 24;

std::string type_of(const Json& part) {
  if (part.is_null()) return "none";
  if (!part.is_object()) return part.dump();
  const auto type = part.find("type");
  return type != part.end() && type->is_string() ? type->get<std::string>() : part.dump();
}

/// An absent key and null mean the same.
const Json& get(const Json& object, const char* key) {
  static const Json none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

bool is_true(const Json& object, const char* key, bool absent) {
  const Json& value = get(object, key);
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
  }

  Tokenizer parse() {
    check_model();
    read_parts();
    read_vocab();
    read_merges();
    read_added_tokens();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw DataError(where_ + ": " + what); }

  void check_model() {
    if (const auto found = root_.find("model"); found != root_.end()) model_ = std::move(*found);
    if (model_.is_null()) fail("model is missing; supported: BPE");
    // Very old files have no type.
    const bool untyped = model_.is_object() && get(model_, "type").is_null();
    if (!untyped && type_of(model_) != "BPE") {
      fail("needs model " + type_of(model_) + "; supported: BPE");
    }
    const auto refuse = [&](const char* key, const char* valid) {
      fail("needs model option " + std::string(key) + ": " + get(model_, key).dump() +
           "; supported: " + valid);
    };
    const Json& dropout = get(model_, "dropout");
    if (!dropout.is_null() && dropout != 0.0) refuse("dropout", "null or 0");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!is_empty_text(get(model_, key))) refuse(key, "null or \"\"");
    }
    const Json& unk = get(model_, "unk_token");
    if (!unk.is_null() && !unk.is_string()) refuse("unk_token", "null or a token");
  }

  void read_parts() {
    const auto text = [&](const char* key) { return get(root_, key).dump(); };
    out_.normalizer_ = parse_normalizer(text("normalizer"), where_);
    out_.pre_tokenizer_ = parse_pre_tokenizer(text("pre_tokenizer"), where_);
    out_.decoder_ = parse_decoder(text("decoder"), where_);
    out_.special_tokens_ = parse_post_processor(text("post_processor"), where_);
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
    const Json& vocab = get(model_, "vocab");
    if (!vocab.is_object()) fail("model.vocab is missing or not an object of token: id");
    std::unordered_map<std::string, int32_t> ids;
    ids.reserve(vocab.size());
    for (const auto& [token, id] : vocab.items()) {
      claim(token, id).text = token;
      ids.emplace(token, id.get<int32_t>());
    }
    const Json& unk = get(model_, "unk_token");
    out_.bpe_ = Bpe(std::move(ids), {.byte_fallback = is_true(model_, "byte_fallback", false),
                                     .ignore_merges = is_true(model_, "ignore_merges", false),
                                     .fuse_unk = is_true(model_, "fuse_unk", false),
                                     .unk_token = unk.is_string() ? unk.get<std::string>() : "",
                                     .byte_letters = out_.pre_tokenizer_.spells_bytes(),
                                     .where = where_});
  }

  void read_merges() {
    const Json& merges = get(model_, "merges");
    if (!merges.is_array()) fail("model.merges is missing or not a list");
    int32_t rank = 0;
    for (const Json& merge : merges) {
      // The first line of a merges.txt.
      if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version"))
        continue;
      const auto [left, right] = halves(merge, rank);
      const Bpe& bpe = out_.bpe_;
      const auto a = bpe.id(left), b = bpe.id(right), c = bpe.id(left + right);
      if (!a || !b || !c) {
        fail("model.merges[" + std::to_string(rank) + "] " + merge.dump(-1, ' ', true) +
             ": both halves and the whole must be in model.vocab");
      }
      out_.bpe_.add_merge(rank, *a, *b, *c);
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

  /// Tokens that are `normalized` are sought in the normalized text, and decode to what the
  /// normalizer makes of them: then such a one is no special token by its spelling.
  void read_added_tokens() {
    const Json& list = get(root_, "added_tokens");
    if (list.is_null()) return;
    if (!list.is_array()) fail("added_tokens is not a list");
    std::map<int32_t, AddedToken> before, after;
    std::set<std::string> special;
    for (const Json& added : list) {
      AddedToken token = added_token(added);
      if (is_true(added, "special", false)) special.insert(token.content);
      const bool normalized = is_true(added, "normalized", !is_true(added, "special", false));
      if (normalized) token.content = out_.normalizer_.apply({token.content, true}).text;
      if (token.content.empty())
        fail("added_tokens entry " + added.dump(-1, ' ', true) + " is empty after the normalizer");
      out_.tokens_[static_cast<size_t>(token.id)].text = token.content;
      before.erase(token.id);
      after.erase(token.id);
      (normalized ? after : before)[token.id] = std::move(token);
    }
    for (auto& token : out_.tokens_) token.special = special.contains(token.text);
    out_.added_ = AddedTokens(values(before));
    out_.normalized_added_ = AddedTokens(values(after));
  }

  AddedToken added_token(const Json& added) {
    const Json content = added.is_object() ? get(added, "content") : Json();
    if (is_empty_text(content) || !content.is_string()) {
      fail("added_tokens entry " + added.dump(-1, ' ', true) + " has no content");
    }
    const auto text = content.get<std::string>();
    claim(text, get(added, "id"));
    return {.content = text,
            .id = get(added, "id").get<int32_t>(),
            .single_word = is_true(added, "single_word", false),
            .lstrip = is_true(added, "lstrip", false),
            .rstrip = is_true(added, "rstrip", false)};
  }

  static std::vector<AddedToken> values(std::map<int32_t, AddedToken>& tokens) {
    std::vector<AddedToken> out;
    for (auto& [id, token] : tokens) out.push_back(std::move(token));
    return out;
  }

  std::string where_;
  Json root_, model_;
  Tokenizer out_;
};

Tokenizer Tokenizer::parse(const std::string& json, const std::string& where) {
  return TokenizerParser(json, where).parse();
}

std::string Tokenizer::why_absent(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return "";
  return path + " does not exist; a model folder holds Hugging Face's tokenizer.json";
}

Tokenizer Tokenizer::load(const std::string& folder) {
  if (const std::string problem = why_absent(folder); !problem.empty()) throw DataError(problem);
  const std::string path = folder + "/tokenizer.json";
  return parse(read_text_file(path), path);
}

}  // namespace verlcpp::data
