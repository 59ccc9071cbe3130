// Whole small tokenizers and what comes after the model: BPE, added tokens, post-processors,
// decoders, streams. What is expected is what the tokenizers library (0.23.3) gave for the same
// files.

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/tokenizer.h"
#include "data/tokenizer/pipeline_parser.h"
#include "data/utf8.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::data;
using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

namespace {

const std::string kBad = "\uFFFD";

/// A byte-level tokenizer over `model` (vocab, merges, options); `more` replaces its parts.
Tokenizer make(const std::string& model, const std::string& more = "{}") {
  Json json = Json::parse(R"({
    "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
    "decoder": {"type": "ByteLevel"}})");
  json["model"] = Json::parse(model);
  json["model"]["type"] = "BPE";
  json.update(Json::parse(more));
  return Tokenizer::parse(json.dump(), "t.json");
}

/// In the form of Llama 2.
Tokenizer sentencepiece(bool fuse_unk) {
  return make(std::string(R"({"vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "<0xC3>": 3, "<0xA9>": 4,
      "▁": 5, "a": 6, "b": 7, "ab": 8, "▁ab": 9}, "merges": ["a b", ["▁", "ab"]],
      "unk_token": "<unk>", "byte_fallback": true, "fuse_unk": )") +
                  (fuse_unk ? "true}" : "false}"),
              R"({"added_tokens": [{"id": 0, "content": "<unk>", "special": true},
      {"id": 1, "content": "<s>", "special": true}, {"id": 2, "content": "</s>", "special": true}],
      "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
      "pre_tokenizer": null,
      "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]},
                           "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}},
      "decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})");
}

/// What a decoder makes of tokens; checks that they give the same one by one.
std::string decode(const std::string& json, const std::vector<std::string>& tokens) {
  const Decoder decoder = parse_decoder(json, "t.json");
  DecoderStream stream(decoder);
  std::string text;
  for (const std::string& token : tokens) {
    const std::string piece = stream.push(token);
    CHECK(is_utf8(piece));
    text += piece;
  }
  return text + stream.finish();
}

/// `texts` of streaming `ids`, finish's last.
std::vector<std::string> streamed(const Tokenizer& tokenizer, const Ids& ids) {
  TokenStream stream(tokenizer);
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(stream.push(id));
  out.push_back(stream.finish());
  return out;
}

}  // namespace

TEST_CASE("SentencePiece-style BPE with byte fallback") {
  const Tokenizer fused = sentencepiece(true), single = sentencepiece(false);
  CHECK(fused.encode("ab ab") == Ids{9, 9});
  CHECK(fused.encode("ab\u00E9"
                     "ab") == Ids{9, 3, 4, 8});
  CHECK(fused.encode("zzab") == Ids{5, 0, 8});
  CHECK(single.encode("zzab") == Ids{5, 0, 0, 8});
  CHECK(fused.encode("z\u00E9"
                     "a") == Ids{5, 3, 4, 0, 6});  // bytes overtake the unknown token
  CHECK(fused.encode("a</s>ab") == Ids{5, 6, 2, 9});
  CHECK(fused.encode(" ab") == Ids{5, 9});
  CHECK(fused.encode("").empty());
  CHECK(fused.encode("ab", true) == Ids{1, 9, 2});
  CHECK(fused.decode(Ids{5, 3, 4, 0, 6}) ==
        "\u00E9"
        "a");
  CHECK(fused.decode(Ids{5, 3, 4, 0, 6}, false) ==
        "\u00E9<unk>"
        "a");
  CHECK(fused.decode(Ids{5, 9}) == " ab");
  CHECK(fused.decode(Ids{9, 3, 4, 3, 9, 4}) == "ab" + kBad + kBad + kBad + " ab" + kBad);
}

TEST_CASE("BPE: whole words and merges that two ways lead to") {
  const std::string vocab =
      R"("vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5, "d": 6, "cd": 7})";
  const Tokenizer merged = make("{" + vocab + R"(, "merges": ["a b"]})");
  const Tokenizer whole = make("{" + vocab + R"(, "merges": ["a b"], "ignore_merges": true})");
  CHECK(merged.encode("abc") == Ids{3, 2});
  CHECK(whole.encode("abc") == Ids{5});
  CHECK(whole.encode("abca") == Ids{3, 2, 0});
  const Tokenizer two =
      make("{" + vocab + R"(, "merges": ["#version: 0.2", "ab c", "b c", "c d", "a b", "a bc"]})");
  CHECK(two.encode("abc") == Ids{5});
  CHECK(two.encode("abcd") == Ids{5, 6});
  CHECK(two.encode("aabcc") == Ids{0, 5, 2});
}

TEST_CASE("a word of a million characters merges in seconds") {
  const Tokenizer tokenizer =
      make(R"({"vocab": {"a": 0, "aa": 1, "aaaa": 2}, "merges": ["a a", "aa aa"]})");
  CHECK(tokenizer.encode(std::string(1 << 20, 'a')) == Ids(1 << 18, 2));
}

TEST_CASE("a character without a token is named") {
  const Tokenizer tokenizer = make(R"({"vocab": {"a": 0}, "merges": []})",
                                   R"({"pre_tokenizer": null, "decoder": {"type": "Fuse"}})");
  CHECK_THROWS_WITH(tokenizer.encode("aa\u4E00"),
                    "t.json: U+4E00 near \"aa\u4E00\" is not in the vocabulary of this tokenizer");
}

TEST_CASE("input that is not UTF-8 is read with U+FFFD for every ill-formed part") {
  const Tokenizer tokenizer =
      make(R"({"vocab": {"a": 0, "ï": 1, "¿": 2, "½": 3}, "merges": []})");  // EF BF BD
  CHECK(tokenizer.encode("a\xF0\x9F\x99"
                         "a") == Ids{0, 1, 2, 3, 0});
  CHECK(tokenizer.encode("\xFF\xC0") == Ids{1, 2, 3, 1, 2, 3});
}

TEST_CASE("added tokens: strips, single words, the longest") {
  const std::string model = R"({"vocab": {"Ġ": 0, "a": 1, "b": 2, "w": 3, "o": 4, "r": 5, "d": 6,
                                          "x": 7, "<": 8, ">": 9}, "merges": []})";
  const auto x = [&](const std::string& options) {
    return make(model, R"({"added_tokens": [{"id": 10, "content": "<x>", "normalized": false)" +
                           options + "}]}");
  };
  const Tokenizer plain = x(""), left = x(R"(, "lstrip": true)"), right = x(R"(, "rstrip": true)");
  CHECK(plain.encode("a  <x>  b") == Ids{1, 0, 0, 10, 0, 0, 2});
  CHECK(left.encode("a  <x>  b") == Ids{1, 10, 0, 0, 2});
  CHECK(left.encode(" <x>") == Ids{10});
  CHECK(right.encode("a  <x>  b") == Ids{1, 0, 0, 10, 2});
  CHECK(right.encode("<x> <x>") == Ids{10, 10});
  CHECK(x(R"(, "lstrip": true, "rstrip": true)").encode("a  <x>  b") == Ids{1, 10, 2});
  const Tokenizer word =
      make(model, R"({"added_tokens": [{"id": 10, "content": "word", "single_word": true},
                      {"id": 11, "content": "<x>"}, {"id": 12, "content": "<x>a"}]})");
  CHECK(word.encode("a word b") == Ids{1, 0, 10, 0, 2});
  CHECK(word.encode("aword") == Ids{1, 3, 4, 5, 6});
  CHECK(word.encode("worda") == Ids{3, 4, 5, 6, 1});
  CHECK(word.encode("<x>word<x>aword") == Ids{11, 10, 12, 3, 4, 5, 6});
}

TEST_CASE("added tokens that are normalized are found in the normalized text") {
  const Tokenizer tokenizer = make(R"({"vocab": {"a": 0, "b": 1, "h": 2}, "merges": []})",
                                   R"({"normalizer": {"type": "Lowercase"}, "added_tokens": [
          {"id": 3, "content": "Hé", "normalized": true, "special": true},
          {"id": 4, "content": "Ha", "normalized": false, "special": true}]})");
  CHECK(tokenizer.encode("aHÉB") == Ids{0, 3, 1});
  CHECK(tokenizer.encode("aHab") == Ids{0, 4, 1});
  CHECK(tokenizer.encode("aHAb") == Ids{0, 2, 0, 1});
  // It decodes to its normalized form, whose é is a letter of the byte alphabet and is not special.
  CHECK(tokenizer.decode(Ids{0, 3, 1}) == "ah" + kBad + "b");
  CHECK(tokenizer.decode(Ids{0, 4, 1}) == "ab");
  CHECK(tokenizer.decode(Ids{0, 4, 1}, false) == "aHab");
}

TEST_CASE("Metaspace's first piece is the one that the text begins with") {
  const std::string metaspace =
      R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})";
  const auto with = [&](const std::string& normalizer) {
    return make(R"({"vocab": {"▁": 0, "a": 1, "b": 2}, "merges": []})",
                R"({"added_tokens": [{"id": 3, "content": "</s>"}], "normalizer": )" + normalizer +
                    R"(, "pre_tokenizer": )" + metaspace + R"(, "decoder": )" + metaspace + "}");
  };
  const Tokenizer plain = with("null");
  CHECK(plain.encode("a</s>b") == Ids{0, 1, 3, 2});
  CHECK(plain.encode("</s>a") == Ids{3, 1});
  CHECK(plain.encode(" a") == Ids{0, 1});
  CHECK(plain.decode(Ids{0, 1, 0, 2}) == "a b");
  CHECK(with(R"({"type": "Strip", "strip_left": true, "strip_right": false})").encode(" a") ==
        Ids{1});
  const auto replace = [&](const std::string& text) {
    return with(R"({"type": "Replace", "pattern": {"String": ")" + text + R"("}, "content": "a"})");
  };
  CHECK(replace("b").encode("ba") == Ids{0, 1, 1});
  CHECK(replace("ab").encode("abb") == Ids{1, 2});
}

TEST_CASE("decoders") {
  CHECK(decode(R"({"type": "ByteLevel"})", {"Ã", "ł", "Ġhé", "一", "âĤ"}) ==
        "\u00E0 h" + kBad + "一" + kBad);
  CHECK(decode(R"({"type": "ByteFallback"})",
               {"<0xE4>", "<0xB8>", "<0x80>", "a", "<0xE4>", "<0xB8>", "b", "<0x41>", "<0xE4>"}) ==
        "一a" + kBad + kBad + "b" + kBad + kBad);
  CHECK(decode(R"({"type": "Strip", "content": "_", "start": 1, "stop": 2})",
               {"__a__", "_b_", "c"}) == "_abc");
  CHECK(decode(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
                   {"type": "Strip", "content": "_", "start": 2, "stop": 2}]})",
               {"_", "__a", "_", "__"}) == "_a_");
  CHECK(decode(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
                   {"type": "Replace", "pattern": {"String": "ab"}, "content": "x"}]})",
               {"ca", "bb"}) == "cxb");
  CHECK(decode(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})",
               {"▁a▁", "▁b"}) == "a b");
  CHECK(decode(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})",
               {"▁a", "▁b"}) == " a b");
  CHECK_THROWS_WITH(parse_decoder(R"({"type": "CTC"})", "t.json"),
                    "t.json: needs decoder CTC; supported: Sequence, ByteLevel, ByteFallback, "
                    "Fuse, Replace, Strip, Metaspace");
}

TEST_CASE("a stream gives whole characters as soon as they are whole") {
  const Tokenizer bytes =
      make(R"({"vocab": {"a": 0, "ð": 1, "Ł": 2, "Ļ": 3, "Ĥ": 4}, "merges": []})");
  using Texts = std::vector<std::string>;
  CHECK(streamed(bytes, {0, 1, 2, 3, 4, 0}) == Texts{"a", "", "", "", "🙂", "a", ""});
  CHECK(streamed(bytes, {1, 2, 0, 2}) == Texts{"", "", kBad + "a", kBad, ""});
  CHECK(streamed(bytes, {0, 1, 2}) == Texts{"a", "", "", kBad});
  // A run of byte tokens is only known when it ends; the text's first space goes.
  const Tokenizer pieces = sentencepiece(true);
  CHECK(streamed(pieces, {9, 3, 4, 8, 3}) == Texts{"ab", "", "",
                                                   "\u00E9"
                                                   "ab",
                                                   "", kBad});
}

TEST_CASE("post-processors") {
  const auto ids = [](const std::string& json) {
    const SpecialTokens tokens = parse_post_processor(json, "t.json");
    return std::pair(tokens.before, tokens.after);
  };
  CHECK(ids("null") == std::pair(Ids{}, Ids{}));
  CHECK(ids(R"({"type": "ByteLevel", "trim_offsets": true})") == std::pair(Ids{}, Ids{}));
  CHECK(ids(R"({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]})") ==
        std::pair(Ids{0}, Ids{2}));
  CHECK(ids(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"},
                {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "b", "type_id": 0}},
                 {"Sequence": {"id": "A", "type_id": 0}}],
                 "special_tokens": {"b": {"id": "b", "ids": [7, 8], "tokens": ["x", "y"]}}}]})") ==
        std::pair(Ids{7, 8}, Ids{}));
  CHECK_THROWS_WITH(ids(R"({"type": "TemplateProcessing", "single": []})"),
                    "t.json: post-processor TemplateProcessing: single []; valid: special tokens "
                    "around one Sequence");
}
