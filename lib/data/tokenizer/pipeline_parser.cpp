#include "data/tokenizer/pipeline_parser.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/regex_syntax.h"
#include "data/utf8.h"

namespace verlcpp::data {

namespace {

using Json = nlohmann::json;

/// One kind of part, such as the decoder, with its steps.
struct Kind {
  const char* name;
  const char* list;       // a Sequence's key
  const char* supported;  // kinds, for messages
};
constexpr Kind kNormalizer = {"normalizer", "normalizers",
                              "Sequence, NFC, NFD, NFKC, NFKD, Prepend, Replace, Lowercase, Strip"};
constexpr Kind kPreTokenizer = {
    "pre-tokenizer", "pretokenizers",
    "Sequence, Split, ByteLevel, Digits, Metaspace, Whitespace, WhitespaceSplit"};
constexpr Kind kDecoder = {"decoder", "decoders",
                           "Sequence, ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace"};
constexpr Kind kPostProcessor = {
    "post-processor", "processors",
    "Sequence, TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel"};

/// Reads one object of a part; messages name the file, the kind and the key.
class Reader {
 public:
  Reader(const Json& json, const Kind& kind, const std::string& where)
      : json_(json), kind_(kind), where_(where) {}

  std::string type() const {
    if (json_.is_null()) return "none";
    const Json value = get("type");
    return value.is_string() ? value.get<std::string>() : json_.dump(-1, ' ', true);
  }
  [[noreturn]] void fail(const std::string& what) const { throw DataError(where_ + ": " + what); }
  [[noreturn]] void refuse() const {
    fail("needs " + std::string(kind_.name) + " " + type() + "; supported: " + kind_.supported);
  }
  [[noreturn]] void bad(const char* key, const std::string& valid) const {
    fail(std::string(kind_.name) + " " + type() + ": " + key + " " + get(key).dump(-1, ' ', true) +
         "; valid: " + valid);
  }
  /// An absent key and null mean the same.
  Json get(const char* key) const {
    const auto found = json_.is_object() ? json_.find(key) : json_.end();
    return found == json_.end() ? Json() : *found;
  }
  bool flag(const char* key, bool absent) const {
    const Json value = get(key);
    if (value.is_null()) return absent;
    if (!value.is_boolean()) bad(key, "true or false");
    return value.get<bool>();
  }
  std::string text(const char* key) const {
    const Json value = get(key);
    if (!value.is_string()) bad(key, "a text");
    return value.get<std::string>();
  }
  std::string character(const char* key) const {
    const std::string value = text(key);
    if (code_points(value).size() != 1) bad(key, "one character");
    return value;
  }
  int64_t count(const char* key) const {
    const Json value = get(key);
    if (!value.is_number_unsigned()) bad(key, "a count");
    return value.get<int64_t>();
  }
  Pattern pattern() const {
    const Json value = get("pattern");
    const auto is = [&](const char* key) {
      return value.is_object() && value.contains(key) && value[key].is_string() &&
             !value[key].get_ref<const std::string&>().empty();
    };
    if (is("String")) return Pattern::literal(value["String"]);
    if (is("Regex")) return Pattern::regex(value["Regex"], where_);
    bad("pattern", "{\"String\": \"...\"} or {\"Regex\": \"...\"}, not empty");
  }
  Pattern regex(const char* expression) const { return Pattern::regex(expression, where_); }

  /// `read` for every step, those of sequences in their order.
  template <typename Step, typename Read>
  void each(std::vector<Step>& out, const Read& read) const {
    if (type() != "Sequence") return read(*this, out);
    const Json list = get(kind_.list);
    if (!list.is_array()) bad(kind_.list, "a list");
    for (const Json& entry : list) Reader(entry, kind_, where_).each(out, read);
  }

 private:
  const Json& json_;
  const Kind& kind_;
  const std::string& where_;
};

void read_normalizer(const Reader& part, std::vector<NormalizerStep>& out) {
  const std::string type = part.type();
  if (type == "NFC") {
    out.emplace_back(UnicodeForm::kNfc);
  } else if (type == "NFD") {
    out.emplace_back(UnicodeForm::kNfd);
  } else if (type == "NFKC") {
    out.emplace_back(UnicodeForm::kNfkc);
  } else if (type == "NFKD") {
    out.emplace_back(UnicodeForm::kNfkd);
  } else if (type == "Prepend") {
    out.emplace_back(PrependStep{part.text("prepend")});
  } else if (type == "Replace") {
    out.emplace_back(ReplaceStep{part.pattern(), part.text("content")});
  } else if (type == "Lowercase") {
    out.emplace_back(LowercaseStep{});
  } else if (type == "Strip") {
    out.emplace_back(StripStep{part.flag("strip_left", true), part.flag("strip_right", true)});
  } else {
    part.refuse();
  }
}

SplitBehavior read_behavior(const Reader& part) {
  const std::pair<const char*, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  const std::string text = part.text("behavior");
  for (const auto& [name, behavior] : kNames) {
    if (text == name) return behavior;
  }
  part.bad("behavior", "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

// The expression is GPT-2's (openai/gpt-2, encoder.py).
void read_byte_level(const Reader& part, std::vector<PreTokenizerStep>& out) {
  if (part.flag("add_prefix_space", true)) out.emplace_back(PrefixSpaceStep{});
  if (part.flag("use_regex", true)) {
    out.emplace_back(SplitStep{part.regex("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| "
                                          "?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"),
                               SplitBehavior::kIsolated, false});
  }
  out.emplace_back(ByteLettersStep{});
}

/// "always" unless told otherwise; older files say add_prefix_space.
MetaspaceStep::Prepend read_prepend(const Reader& part) {
  using Prepend = MetaspaceStep::Prepend;
  const Json scheme = part.get("prepend_scheme");
  Prepend prepend = Prepend::kAlways;
  if (scheme == "first") {
    prepend = Prepend::kFirst;
  } else if (scheme == "never") {
    prepend = Prepend::kNever;
  } else if (!scheme.is_null() && scheme != "always") {
    part.bad("prepend_scheme", "always, first or never");
  }
  if (!part.flag("add_prefix_space", true) && prepend != Prepend::kNever) {
    part.bad("add_prefix_space", "true unless prepend_scheme is never");
  }
  return prepend;
}

void read_metaspace(const Reader& part, std::vector<PreTokenizerStep>& out) {
  const std::string replacement = part.character("replacement");
  out.emplace_back(MetaspaceStep{replacement, read_prepend(part)});
  if (part.flag("split", true)) {
    out.emplace_back(
        SplitStep{Pattern::literal(replacement), SplitBehavior::kMergedWithNext, false});
  }
}

void read_pre_tokenizer(const Reader& part, std::vector<PreTokenizerStep>& out) {
  const std::string type = part.type();
  const std::string word = kRustWord;
  if (type == "ByteLevel") {
    read_byte_level(part, out);
  } else if (type == "Metaspace") {
    read_metaspace(part, out);
  } else if (type == "Split") {
    out.emplace_back(SplitStep{part.pattern(), read_behavior(part), part.flag("invert", false)});
  } else if (type == "Digits") {
    // Rust's is_numeric knows thirteen numbers of Unicode 17.
    out.emplace_back(SplitStep{part.regex("[\\p{N}\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}]"),
                               part.flag("individual_digits", false) ? SplitBehavior::kIsolated
                                                                     : SplitBehavior::kContiguous,
                               false});
  } else if (type == "Whitespace") {
    const std::string words = word + "+|(?:(?!" + word + ")\\S)+";
    out.emplace_back(SplitStep{part.regex(words.c_str()), SplitBehavior::kRemoved, true});
  } else if (type == "WhitespaceSplit") {
    out.emplace_back(SplitStep{part.regex("\\s"), SplitBehavior::kRemoved, false});
  } else {
    part.refuse();
  }
}

void read_decoder(const Reader& part, std::vector<DecoderStep>& out) {
  const std::string type = part.type();
  if (type == "ByteLevel") {
    out.emplace_back(ByteLevelDecode{});
  } else if (type == "ByteFallback") {
    out.emplace_back(ByteFallbackDecode{});
  } else if (type == "Fuse") {
    out.emplace_back(FuseDecode{});
  } else if (type == "Replace") {
    out.emplace_back(ReplaceDecode{part.pattern(), part.text("content")});
  } else if (type == "Strip") {
    out.emplace_back(
        StripDecode{part.character("content"), part.count("start"), part.count("stop")});
  } else if (type == "Metaspace") {
    out.emplace_back(MetaspaceDecode{part.character("replacement"),
                                     read_prepend(part) != MetaspaceStep::Prepend::kNever});
  } else {
    part.refuse();
  }
}

/// The ids that a template's special token stands for.
void append_ids(const Reader& part, const Json& name, std::vector<int32_t>& out) {
  const Json all = part.get("special_tokens");
  const Json entry = all.is_object() && name.is_string() && all.contains(name.get<std::string>())
                         ? all[name.get<std::string>()]
                         : Json();
  if (!entry.is_object() || !entry.contains("ids") || !entry["ids"].is_array()) {
    part.bad("special_tokens", "the ids of " + name.dump(-1, ' ', true));
  }
  for (const Json& id : entry["ids"]) {
    if (!id.is_number_unsigned()) part.bad("special_tokens", "ids that are counts");
    out.push_back(id.get<int32_t>());
  }
}

void read_template(const Reader& part, SpecialTokens& out) {
  const Json pieces = part.get("single");
  bool text_seen = false;
  for (const Json& piece : pieces) {
    if (piece.is_object() && piece.contains("SpecialToken") && piece["SpecialToken"].is_object()) {
      append_ids(part, piece["SpecialToken"].value("id", Json()),
                 text_seen ? out.after : out.before);
    } else if (piece.is_object() && piece.contains("Sequence") && !text_seen) {
      text_seen = true;
    } else {
      part.bad("single", "special tokens around one Sequence");
    }
  }
  if (!text_seen) part.bad("single", "special tokens around one Sequence");
}

void read_post_processor(const Reader& part, std::vector<SpecialTokens>& out) {
  const std::string type = part.type();
  SpecialTokens one;
  if (type == "TemplateProcessing") {
    read_template(part, one);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    for (const auto& [key, ids] : {std::pair("cls", &one.before), std::pair("sep", &one.after)}) {
      const Json value = part.get(key);
      if (!value.is_array() || value.size() != 2 || !value[1].is_number_unsigned()) {
        part.bad(key, "[token, id]");
      }
      ids->push_back(value[1].get<int32_t>());
    }
  } else if (type != "ByteLevel") {  // which changes offsets, not ids
    part.refuse();
  }
  out.push_back(std::move(one));
}

}  // namespace

Normalizer parse_normalizer(const std::string& json, const std::string& where) {
  const Json part = Json::parse(json);
  std::vector<NormalizerStep> steps;
  if (!part.is_null()) Reader(part, kNormalizer, where).each(steps, read_normalizer);
  return Normalizer(std::move(steps));
}

PreTokenizer parse_pre_tokenizer(const std::string& json, const std::string& where) {
  const Json part = Json::parse(json);
  std::vector<PreTokenizerStep> steps;
  if (!part.is_null()) Reader(part, kPreTokenizer, where).each(steps, read_pre_tokenizer);
  return PreTokenizer(std::move(steps));
}

Decoder parse_decoder(const std::string& json, const std::string& where) {
  const Json part = Json::parse(json);
  std::vector<DecoderStep> steps;
  Reader(part, kDecoder, where).each(steps, read_decoder);
  return Decoder(std::move(steps));
}

// The steps of a sequence wrap one another.
SpecialTokens parse_post_processor(const std::string& json, const std::string& where) {
  const Json part = Json::parse(json);
  std::vector<SpecialTokens> steps;
  if (!part.is_null()) Reader(part, kPostProcessor, where).each(steps, read_post_processor);
  SpecialTokens out;
  for (const SpecialTokens& step : steps) {
    out.before.insert(out.before.begin(), step.before.begin(), step.before.end());
    out.after.insert(out.after.end(), step.after.begin(), step.after.end());
  }
  return out;
}

}  // namespace verlcpp::data
