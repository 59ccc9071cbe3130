// Against the tokenizers library's own answers (scripts/make_reference.py) and, for what it
// refuses, against the message.

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/chat_template.h"
#include "data/text_file.h"
#include "data/tokenizer.h"
#include "data/utf8.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::data;
using Json = nlohmann::json;

namespace {

const std::string kReference = VERLCPP_REFERENCE;

Json cases_of(const std::string& name) {
  return Json::parse(read_text_file(kReference + "/" + name + "/tokenizer_cases.json"));
}

/// A tokenizer over a, b, ab with one special token; `change` is a JSON merge patch.
std::string small_json(const std::string& change) {
  Json json = Json::parse(R"({
    "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  json.merge_patch(Json::parse(change));
  return json.dump();
}

std::string refusal(const std::string& change) {
  try {
    Tokenizer::parse(small_json(change), "t.json");
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("ids and texts are those of the tokenizers library") {
  const std::string name = GENERATE("qwen2", "qwen3", "llama", "bpe");
  const Tokenizer tokenizer = Tokenizer::load(kReference + "/" + name);
  const Json cases = cases_of(name);
  REQUIRE(cases["encodes"].size() >= 6);
  for (const Json& c : cases["encodes"]) {
    const auto text = c["text"].get<std::string>();
    INFO(name << ": " << text);
    CHECK(tokenizer.encode(text) == c["ids"].get<std::vector<int32_t>>());
  }
  REQUIRE(cases["decodes"].size() >= 26);
  for (const Json& c : cases["decodes"]) {
    const auto ids = c["ids"].get<std::vector<int32_t>>();
    INFO(name << ": " << c["ids"].dump());
    CHECK(tokenizer.decode(ids) == c["text"].get<std::string>());
    CHECK(tokenizer.decode(ids, false) == c["with_special"].get<std::string>());
  }
}

TEST_CASE("a chat is rendered as transformers renders it") {
  const std::string name = GENERATE("qwen2", "qwen3");
  const ChatTemplate chat_template = load_chat_template(kReference + "/" + name);
  const Json cases = cases_of(name);
  REQUIRE(cases["chats"].size() == 2);
  for (const Json& c : cases["chats"]) {
    std::vector<Message> messages;
    for (const Json& m : c["messages"]) messages.push_back({m["role"], m["content"]});
    CHECK(render_chat(chat_template, messages, c["add_generation_prompt"]) ==
          c["text"].get<std::string>());
  }
}

TEST_CASE("merging takes the lowest rank, then the leftmost pair") {
  // Longest match from the left would give aa, b for the first text.
  const Tokenizer tokenizer = Tokenizer::parse(
      small_json(R"({"model": {"vocab": {"a": 0, "b": 1, "ab": 2, "aa": 4, "aab": 5},
                     "merges": [["a", "b"], ["a", "a"], ["a", "ab"]]}})"),
      "t.json");
  CHECK(tokenizer.encode("aab") == std::vector<int32_t>{5});
  CHECK(tokenizer.encode("aaaab") == std::vector<int32_t>{4, 5});
  CHECK(tokenizer.encode("aaaaa") == std::vector<int32_t>{4, 4, 0});
  CHECK(tokenizer.encode("a<s>b") == std::vector<int32_t>{0, 3, 1});
  CHECK(tokenizer.vocab_size() == 6);
}

TEST_CASE("token ids, special tokens and ids outside the vocabulary") {
  const Tokenizer tokenizer = Tokenizer::parse(small_json("{}"), "t.json");
  CHECK(tokenizer.token_id("ab") == 2);
  CHECK(tokenizer.token_id("<s>") == 3);
  CHECK_FALSE(tokenizer.token_id("c").has_value());
  const std::vector<int32_t> ids = {0, 3, 2, 4, -1};
  CHECK(tokenizer.decode(ids) == "aab");
  CHECK(tokenizer.decode(ids, false) == "a<s>ab");
}

TEST_CASE("a byte without a token is named") {
  const Tokenizer tokenizer = Tokenizer::parse(small_json("{}"), "t.json");
  CHECK_THROWS_WITH(tokenizer.encode("ab\xC3\xA9"),
                    "t.json: byte 0xC3 near \"ab\xC3\xA9\" is not in the vocabulary of this "
                    "tokenizer");
}

TEST_CASE("what would change ids is refused by name") {
  CHECK(refusal("{}") == "accepted");
  CHECK(
      refusal(R"({"normalizer": {"type": "StripAccents"}})") ==
      "t.json: needs normalizer StripAccents; supported: Sequence, NFC, NFD, NFKC, NFKD, Prepend, "
      "Replace, Lowercase, Strip");
  CHECK(refusal(R"({"pre_tokenizer": {"type": "BertPreTokenizer"}})") ==
        "t.json: needs pre-tokenizer BertPreTokenizer; supported: Sequence, Split, ByteLevel, "
        "Digits, Metaspace, Whitespace, WhitespaceSplit");
  CHECK(refusal(R"({"post_processor": {"type": "Other"}})") ==
        "t.json: needs post-processor Other; supported: Sequence, TemplateProcessing, "
        "BertProcessing, RobertaProcessing, ByteLevel");
  CHECK(refusal(R"({"decoder": null})") ==
        "t.json: needs decoder none; supported: Sequence, ByteLevel, ByteFallback, Fuse, Replace, "
        "Strip, Metaspace");
  CHECK(refusal(R"({"model": {"type": "Unigram"}})") ==
        "t.json: needs model Unigram; supported: BPE");
  CHECK(refusal(R"({"model": {"dropout": 0.1}})") ==
        "t.json: needs model option dropout: 0.1; supported: null or 0");
  CHECK(refusal(R"({"model": {"end_of_word_suffix": "</w>"}})") ==
        "t.json: needs model option end_of_word_suffix: \"</w>\"; supported: null or \"\"");
}

TEST_CASE("a broken tokenizer.json is refused") {
  CHECK(refusal(R"({"model": {"vocab": {"c": 1}}})") ==
        "t.json: id 1 of token \"c\" contradicts another entry; valid: one id a token, one token "
        "an id");
  CHECK(refusal(R"({"model": {"vocab": {"c": -1}}})") ==
        "t.json: id -1 of token \"c\"; valid: an integer from 0 to 16777215");
  CHECK(refusal(R"({"model": {"merges": ["b a"]}})") ==
        "t.json: model.merges[0] \"b a\": both halves and the whole must be in model.vocab");
  CHECK(refusal(R"({"model": {"merges": ["ab"]}})") ==
        "t.json: model.merges[0] \"ab\"; valid: \"a b\" or [\"a\", \"b\"]");
  CHECK(refusal(R"({"model": {"vocab": null}})") ==
        "t.json: model.vocab is missing or not an object of token: id");
  CHECK_THROWS_WITH(Tokenizer::parse("{", "t.json"), "t.json: not a JSON object");
  CHECK_THROWS_WITH(Tokenizer::load("/nowhere"),
                    "/nowhere/tokenizer.json does not exist; a model folder holds Hugging Face's "
                    "tokenizer.json");
}

TEST_CASE("ill-formed UTF-8 becomes one replacement character per maximal part") {
  CHECK(utf8_lossy("a\xF0\x9F\x99\x82"
                   "b") ==
        "a\xF0\x9F\x99\x82"
        "b");
  CHECK(utf8_lossy("\xF0\x9F\x99") == "\xEF\xBF\xBD");
  CHECK(utf8_lossy("\xC0\xAF") == "\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(utf8_lossy("\xED\xA0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(code_points("a\xC3\xA9") == std::vector<uint32_t>{'a', 0xE9});
}
