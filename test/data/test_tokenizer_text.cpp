// The stages of a tokenizer before its model: regular expressions, normalizers, pre-tokenizers.
// What is expected is what the tokenizers library (0.23.3) gave for the same part and text.

#include "base/error.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/pipeline_parser.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::data;
using Strings = std::vector<std::string>;

namespace {

std::string normalize(const std::string& json, const std::string& text) {
  return parse_normalizer(json, "t.json").apply({text, true}).text;
}

Strings words(const std::string& json, const std::string& text, bool at_start = true) {
  Strings out;
  for (const Piece& piece : parse_pre_tokenizer(json, "t.json").apply({text, at_start})) {
    out.push_back(piece.text);
  }
  return out;
}

/// The parts that Split by `expression`, isolated, leaves.
Strings split(const std::string& expression, const std::string& text) {
  Strings out;
  for (const Part& part : Pattern::regex(expression, "t.json").parts(text)) {
    if (part.end > part.begin) out.push_back(text.substr(part.begin, part.end - part.begin));
  }
  return out;
}

std::string refusal(const std::string& expression) {
  try {
    Pattern::regex(expression, "t.json");
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

const std::string kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kGpt4 =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+)"
    R"(|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";

}  // namespace

TEST_CASE("the families' patterns split as with Oniguruma") {
  // Long s, an Arabic digit, no-break space, line separator, ideographic space.
  const std::string text =
      "I'M  he's\u017F'\u017F 12345\u0664 x\r\n\r\n  y!!\n\u00A0\u2028z\u3000 \t";
  const Strings front = {"I", "'M", " ", " he", "'s", "\u017F", "'\u017F", " "};
  const Strings back = {" x", "\r\n\r\n", " ", " y", "!!\n", "\u00A0", "\u2028z", "\u3000 \t"};
  const auto around = [&](const Strings& numbers) {
    Strings out = front;
    out.insert(out.end(), numbers.begin(), numbers.end());
    out.insert(out.end(), back.begin(), back.end());
    return out;
  };
  CHECK(split(kQwen2, text) == around({"1", "2", "3", "4", "5", "\u0664"}));
  CHECK(split(kLlama3, text) == around({"123", "45\u0664"}));
  // In Ruby's syntax {1,3}+ repeats; it is not possessive.
  CHECK(split(kGpt4, text) == around({"12345\u0664"}));
}

TEST_CASE("regular expressions mean what they mean in Oniguruma") {
  CHECK(split(R"(\p{N}{1,3}+)", "1234567") == Strings{"1234567"});
  CHECK(split(R"(\b)", "ab c") == Strings{"ab", " ", "c"});
  CHECK(split(R"(\w+)", "a\u00B2_\u200D-b") == Strings{"a\u00B2_", "\u200D-", "b"});
  CHECK(split(R"(\h+)", "xyzAF0") == Strings{"xyz", "AF0"});
  CHECK(split("a{,2}b", "aaab") == Strings{"a", "aab"});
  CHECK(split("^a|b$", "a\nab\nb") == Strings{"a", "\n", "a", "b", "\n", "b"});
  CHECK(split(R"(\p{Han}+)", "\u4E00\u3001\u30FC\u9FFF") ==
        Strings{"\u4E00", "\u3001\u30FC", "\u9FFF"});
  CHECK(split(R"(\x41|\u0042|\x{43})", "ABCD") == Strings{"A", "B", "C", "D"});
  CHECK(split("(?i)k", "K\u212Ak") == Strings{"K", "\u212A", "k"});
  CHECK(split("x{a}", "x{a}") == Strings{"x{a}"});
  // Letters of Unicode 15 and 16.
  CHECK(split(R"(\p{L}+)", "\U0001E030\u1C8Aa1") == Strings{"\U0001E030\u1C8Aa", "1"});
}

TEST_CASE("regular expressions without an equal are refused") {
  const auto message = [](const std::string& expression, const std::string& what) {
    return "t.json: regular expression \"" + expression + "\": " + what + " is not supported";
  };
  CHECK(refusal("[a[b]]") == message("[a[b]]", "a class inside of a class"));
  CHECK(refusal("[a&&b]") == message("[a&&b]", "an intersection of classes"));
  CHECK(refusal(R"([\P{L}])") == message(R"([\P{L}])", "a negated property inside of a class"));
  CHECK(refusal(R"((a)\1)") == message(R"((a)\1)", R"(\1)"));
  CHECK(refusal(R"(\p{Cherokee})") == message(R"(\p{Cherokee})", R"(\p{Cherokee})"));
  CHECK(refusal("a(?m)b") == message("a(?m)b", "\"(?m)\""));
  CHECK(refusal("[a") == message("[a", "a class without its ]"));
  CHECK(refusal("a)") == message("a)", "an unmatched )"));
  CHECK(refusal("a\\") == message("a\\", "a \\ at the end"));
  CHECK(refusal("(a") == "t.json: regular expression \"(a\": missing closing parenthesis");
}

TEST_CASE("a long run neither overflows the stack nor takes quadratic time") {
  const std::string spaces(1 << 20, ' ');
  CHECK(split(kQwen2, spaces + "a") == Strings{spaces.substr(1), " a"});
  const std::string letters(1 << 20, 'a');
  CHECK(split("(?:a|b)+", letters) == Strings{letters});
}

TEST_CASE("normalizers") {
  CHECK(normalize("null", "A\u0301") == "A\u0301");
  CHECK(normalize(R"({"type": "NFC"})", "e\u0301\u1100\u1161\u11A8 \u212B") ==
        "\u00E9\uAC01 \u00C5");
  CHECK(normalize(R"({"type": "NFD"})", "\u00E9\uAC01\u212B") ==
        "e\u0301\u1100\u1161\u11A8A\u030A");
  CHECK(normalize(R"({"type": "NFKC"})", "\uFB01\u2460\uFF21\u00BD") == "fi1A1\u20442");
  CHECK(normalize(R"({"type": "NFKD"})", "\uFB01\u00E9\uFF76\uFF9E") == "fie\u0301\u30AB\u3099");
  // Characters later than Unicode 9 stay where and what they are.
  CHECK(normalize(R"({"type": "NFC"})", "a\u1ABF\u0301\u0323") == "a\u1ABF\u0323\u0301");
  CHECK(normalize(R"({"type": "NFKC"})", "\u32FF") == "\u32FF");
  CHECK(normalize(R"({"type": "Lowercase"})", "\u0130STRA\u1E9EE \u03A3\u03A3") ==
        "i\u0307stra\u00DFe \u03C3\u03C3");
  CHECK(normalize(R"({"type": "Strip", "strip_left": true, "strip_right": true})",
                  "\u2003 a b\u00A0\n") == "a b");
  CHECK(normalize(R"({"type": "Strip", "strip_left": true, "strip_right": false})", " a ") == "a ");
  CHECK(normalize(R"({"type": "Prepend", "prepend": "_"})", "a b") == "_a b");
  CHECK(normalize(R"({"type": "Prepend", "prepend": "_"})", "").empty());
  CHECK(normalize(R"({"type": "Replace", "pattern": {"String": "ss"}, "content": "\u00DF"})",
                  "Massse") == "Ma\u00DFse");
  CHECK(normalize(R"({"type": "Replace", "pattern": {"Regex": "\\d{2,}|(?<=a)b"}, "content": "#"})",
                  "ab12 3b345") == "a## 3b#");
  CHECK(normalize(R"({"type": "Replace", "pattern": {"Regex": "x*"}, "content": "-"})", "axb") ==
        "-a-b-");
  CHECK(normalize(R"({"type": "Sequence", "normalizers": [{"type": "Lowercase"},
                      {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "A"}]}]})",
                  "B") == "Ab");
}

TEST_CASE("every behavior of Split") {
  const auto by = [](const std::string& behavior, bool invert) {
    return words(R"({"type": "Split", "pattern": {"String": "-"}, "behavior": ")" + behavior +
                     R"(", "invert": )" + (invert ? "true}" : "false}"),
                 "the-final--countdown-");
  };
  const Strings isolated = {"the", "-", "final", "-", "-", "countdown", "-"};
  const Strings joined = {"the", "-", "final", "--", "countdown", "-"};
  const Strings previous = {"the-", "final-", "-", "countdown-"};
  CHECK(by("Removed", false) == Strings{"the", "final", "countdown"});
  CHECK(by("Removed", true) == Strings{"-", "-", "-", "-"});
  CHECK(by("Isolated", false) == isolated);
  CHECK(by("Isolated", true) == isolated);
  CHECK(by("MergedWithPrevious", false) == previous);
  CHECK(by("MergedWithPrevious", true) == Strings{"the", "-final", "-", "-countdown", "-"});
  CHECK(by("MergedWithNext", false) == Strings{"the", "-final", "-", "-countdown", "-"});
  CHECK(by("MergedWithNext", true) == previous);
  CHECK(by("Contiguous", false) == joined);
  CHECK(by("Contiguous", true) == joined);
}

TEST_CASE("pre-tokenizers") {
  CHECK(words("null", "a b") == Strings{"a b"});
  CHECK(words("null", "").empty());
  CHECK(words(R"({"type": "ByteLevel", "add_prefix_space": true})", "h\u00E9 it's") ==
        Strings{"\u0120h\u00C3\u00A9", "\u0120it", "'s"});
  CHECK(words(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})", "a b\n") ==
        Strings{"a\u0120b\u010A"});
  CHECK(words(R"({"type": "Digits"})", "a12\u00BD3 b") == Strings{"a", "12\u00BD3", " b"});
  CHECK(words(R"({"type": "Digits", "individual_digits": true})", "a12\u00BD3 b") ==
        Strings{"a", "1", "2", "\u00BD", "3", " b"});
  CHECK(words(R"({"type": "Whitespace"})", "a.b  c\u00B2\u200Dd!?") ==
        Strings{"a", ".", "b", "c", "\u00B2", "\u200Dd", "!?"});
  CHECK(words(R"({"type": "WhitespaceSplit"})", "a.b \u3000 c") == Strings{"a.b", "c"});
}

TEST_CASE("Metaspace") {
  const auto with = [](const std::string& scheme, const char* split) {
    return R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": ")" + scheme +
           R"(", "split": )" + split + "}";
  };
  CHECK(words(with("always", "true"), "a  b c") == Strings{"_a", "_", "_b", "_c"});
  CHECK(words(with("always", "false"), "a  b c") == Strings{"_a__b_c"});
  CHECK(words(with("always", "true"), " a", false) == Strings{"_a"});
  CHECK(words(with("first", "false"), "a b") == Strings{"_a_b"});
  CHECK(words(with("first", "false"), "a b", false) == Strings{"a_b"});
  CHECK(words(with("never", "true"), "a  b c") == Strings{"a", "_", "_b", "_c"});
  CHECK(words(R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern":
                  {"String": "-"}, "behavior": "Isolated", "invert": false}, )" +
                  with("first", "true") + "]}",
              "a-b") == Strings{"_a", "-", "b"});
}

TEST_CASE("parts that are not implemented are refused by name") {
  CHECK_THROWS_WITH(normalize(R"({"type": "Precompiled"})", ""),
                    "t.json: needs normalizer Precompiled; supported: Sequence, NFC, NFD, NFKC, "
                    "NFKD, Prepend, Replace, Lowercase, Strip");
  CHECK_THROWS_WITH(
      words(R"({"type": "Sequence", "pretokenizers": [{"type": "Punctuation"}]})", ""),
      "t.json: needs pre-tokenizer Punctuation; supported: Sequence, Split, "
      "ByteLevel, Digits, Metaspace, Whitespace, WhitespaceSplit");
  CHECK_THROWS_WITH(words(R"({"type": "Split", "pattern": {"String": ""}})", ""),
                    "t.json: pre-tokenizer Split: pattern {\"String\":\"\"}; valid: "
                    "{\"String\": \"...\"} or {\"Regex\": \"...\"}, not empty");
  CHECK_THROWS_WITH(
      words(R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "isolated"})", ""),
      "t.json: pre-tokenizer Split: behavior \"isolated\"; valid: Removed, Isolated, "
      "MergedWithPrevious, MergedWithNext or Contiguous");
  CHECK_THROWS_WITH(words(R"({"type": "Metaspace", "replacement": "__"})", ""),
                    "t.json: pre-tokenizer Metaspace: replacement \"__\"; valid: one character");
}
