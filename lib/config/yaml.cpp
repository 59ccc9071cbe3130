#include "config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.h"
#include "config/python_text.h"
#include "config/scalar.h"

namespace verlcpp::config {

namespace {

class Reader {
 public:
  Reader(const std::string& text, const std::string& file, Origin::Source source)
      : text_(text), file_(file), source_(source) {}

  Node read(const YAML::Node& yaml) const {
    if (++values_ > kMostValues) fail(yaml.Mark(), kTooLarge);
    const Origin origin = at_line(yaml.Mark());
    const std::string& tag = yaml.Tag();
    const bool plain = tag.empty() || tag == "?" || tag == "tag:yaml.org,2002:map" ||
                       tag == "tag:yaml.org,2002:seq";
    if (!yaml.IsScalar() && !yaml.IsNull() && !plain) refuse_tag(yaml);
    if (yaml.IsMap()) return read_map(yaml, origin);
    if (yaml.IsSequence()) {
      List items;
      for (const YAML::Node& element : yaml) {
        if (element.IsNull()) refuse_gap(element.Mark());
        if (is_flow(yaml)) refuse_colon(element);
        items.push_back(read(element));
      }
      return Node::list(std::move(items), origin);
    }
    if (yaml.IsNull()) return Node(Scalar(), origin);
    if (tag == "?" || tag.empty()) {
      if (yaml.Scalar() == "=" || yaml.Scalar() == "<<") {
        fail(yaml.Mark(), "a lone " + yaml.Scalar() + " is no value in YAML 1.1; quote it");
      }
      return Node(scalar_from_yaml(yaml.Scalar()), origin);
    }
    // "!" marks a quoted scalar.
    if (tag == "!" || tag == "tag:yaml.org,2002:str") {
      require_quote(yaml);
      // A lone ! is a tag of nothing.
      const auto at = static_cast<size_t>(std::max(yaml.Mark().pos, 0));
      if (yaml.Scalar().empty() && at < text_.size() && text_[at] == '!') {
        // In brackets PyYAML takes what follows for the tag's name: [!] is never closed there.
        const bool ends =
            at + 1 >= text_.size() || std::isspace(static_cast<unsigned char>(text_[at + 1])) != 0;
        if (!ends) fail(yaml.Mark(), "a ! with nothing behind it; write null, or the value");
        return Node(Scalar(), origin);
      }
      const std::string mark = text_.substr(std::min(at, text_.size()), 2);
      if (mark == "!|" || mark == "!>") {
        fail(yaml.Mark(), "not YAML: a space is missing behind the !");
      }
      if (is_plain_behind_mark(at)) return Node(scalar_from_yaml(yaml.Scalar()), origin);
      return Node(string_or_interpolation(yaml.Scalar()), origin);
    }
    return Node(of_type(yaml), origin);
  }

  /// A scalar whose tag says what it is.
  Scalar of_type(const YAML::Node& yaml) const {
    const std::string& text = yaml.Scalar();  // Python's int() and float() drop the space around it
    const size_t first = std::min(text.find_first_not_of(" \n\t"), text.size());
    const Scalar value =
        scalar_from_yaml(text.substr(first, text.find_last_not_of(" \n\t") + 1 - first));
    const std::string& tag = yaml.Tag();
    if (tag == "tag:yaml.org,2002:null") return {};
    const auto* whole = std::get_if<int64_t>(&value);
    if (tag == "tag:yaml.org,2002:int" && whole != nullptr) return value;
    if (tag == "tag:yaml.org,2002:bool" && std::holds_alternative<bool>(value)) return value;
    if (tag == "tag:yaml.org,2002:float" && whole != nullptr) return static_cast<double>(*whole);
    if (tag == "tag:yaml.org,2002:float" && std::holds_alternative<double>(value)) return value;
    const auto* word = std::get_if<std::string>(&value);
    if (tag == "tag:yaml.org,2002:float" && word != nullptr && is_float_word(*word)) {
      return std::strtod(word->c_str(), nullptr);
    }
    refuse_tag(yaml);
  }

  /// What Python's float() reads beside numbers.
  static bool is_float_word(const std::string& text) {
    static const std::regex kWord("[-+]?(inf|infinity|nan)", std::regex::icase);
    return std::regex_match(text, kWord);
  }

  [[noreturn]] void refuse_tag(const YAML::Node& yaml) const {
    fail(yaml.Mark(), "the tag " + yaml.Tag() + " is not supported; write the value without a tag");
  }

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& message) const {
    throw ConfigError(file_ + ":" + std::to_string(mark.line + 1) + ":" +
                      std::to_string(mark.column + 1) + ": " + message);
  }

 private:
  Node read_map(const YAML::Node& yaml, const Origin& origin) const {
    Node merged = Node::map({}, origin);
    Map own;
    for (const auto& item : yaml) {
      const YAML::Node& key = item.first;
      if (key.IsScalar() && key.Scalar() == "<<" && key.Tag() == "?") {
        merge_into(merged.items(), item.second);
        continue;
      }
      if (is_flow(yaml)) {
        refuse_colon(key);
        refuse_colon(item.second);
      } else {
        if (item.second.IsNull()) require_colon(key);
        require_indent(key, item.second);
      }
      std::string name = key_of(key);
      const auto same = [&](const auto& other) { return other.first == name; };
      if (std::any_of(own.begin(), own.end(), same)) {
        fail(key.Mark(), "the key " + name + " comes twice in one map");
      }
      Node child = read(item.second);
      // A value may start on a later line; people look for the key.
      child.set_origin(at_line(key.Mark()));
      own.emplace_back(std::move(name), std::move(child));
    }
    put_over(merged.items(), own);
    return merged;
  }

  std::string key_of(const YAML::Node& key) const {
    if (!key.IsScalar() && !key.IsNull()) fail(key.Mark(), "a key must be a plain word");
    if (key.IsNull()) fail(key.Mark(), "a key cannot be null");
    require_quote(key);
    if (key.Tag() == "!" || key.Tag() == "tag:yaml.org,2002:str") {
      refuse_mark(key);
      return key.Scalar();
    }
    if (key.Tag() != "?") refuse_tag(key);
    const Scalar typed = scalar_from_yaml(key.Scalar());
    if (std::holds_alternative<std::monostate>(typed)) fail(key.Mark(), "a key cannot be null");
    static const std::regex kDecimal("[-+]?[1-9][0-9_]{0,255}");
    const bool is_large =
        std::holds_alternative<std::string>(typed) && std::regex_match(key.Scalar(), kDecimal);
    return is_large ? large_integer(key.Scalar()) : key_name(typed);
  }

  /// In front of a key PyYAML takes a ! for the tag of what follows behind a space.
  void refuse_mark(const YAML::Node& key) const {
    const auto at = static_cast<size_t>(std::max(key.Mark().pos, 0));
    if (at >= text_.size() || text_[at] != '!') return;
    const bool ends =
        at + 1 >= text_.size() || std::isspace(static_cast<unsigned char>(text_[at + 1])) != 0;
    if (key.Scalar().empty() && ends) fail(key.Mark(), "a key cannot be null");
    if (!ends && text_.compare(at, 2, "!!") != 0 && text_.compare(at, 2, "!<") != 0) {
      fail(key.Mark(),
           "YAML takes the ! in front of this key for a tag; leave it out, or quote the key with "
           "it");
    }
  }

  static bool is_flow(const YAML::Node& yaml) { return yaml.Style() == YAML::EmitterStyle::Flow; }

  /// Inside brackets a colon stands behind a key; the library lets a word begin with one.
  void refuse_colon(const YAML::Node& node) const {
    if (node.IsScalar() && node.Tag() == "?" && node.Scalar().starts_with(':')) {
      fail(node.Mark(), "not YAML: a key is missing in front of this colon");
    }
  }

  /// Written `? key`, with `: value` on a line of its own.
  bool is_explicit(size_t key) const {
    const size_t before = key == 0 ? std::string::npos : text_.find_last_not_of(" \n", key - 1);
    return before != std::string::npos && text_[before] == '?';
  }

  /// The library takes a word or brackets below their key that are not indented.
  void require_indent(const YAML::Node& key, const YAML::Node& value) const {
    const bool is_deeper =
        value.Mark().line == key.Mark().line || value.Mark().column > key.Mark().column;
    const bool has_to_be = value.IsScalar() || is_flow(value);
    if (has_to_be && !is_deeper && !is_explicit(static_cast<size_t>(key.Mark().pos))) {
      fail(value.Mark(), "not YAML: this must be indented further than its key, or has no colon");
    }
  }

  /// The library takes [a, , b] for a null between two commas.
  void refuse_gap(const YAML::Mark& mark) const {
    const auto at = static_cast<size_t>(mark.pos);
    if (mark.pos >= 0 && at < text_.size() && text_[at] == ',') {
      fail(mark, "a value is missing before this comma");
    }
  }

  /// The library takes a line without a colon for a key without a value.
  void require_colon(const YAML::Node& key) const {
    const YAML::Mark mark = key.Mark();
    const auto start = static_cast<size_t>(mark.pos);
    if (!key.IsScalar() || mark.pos < 0 || start >= text_.size()) return;
    if (is_explicit(start)) return;  // it may stand alone
    const size_t end = std::min(text_.find('\n', start), text_.size());
    for (size_t colon = text_.find(':', start); colon < end; colon = text_.find(':', colon + 1)) {
      if (colon + 1 >= end || text_[colon + 1] == ' ' || text_[colon + 1] == '\r') return;
    }
    fail(mark, "not YAML: a colon is missing after this key");
  }

  /// `! 3`: PyYAML reads the word as if there were no mark.
  bool is_plain_behind_mark(size_t at) const {
    if (at >= text_.size() || text_.compare(at, 2, "! ") != 0) return false;
    const size_t word = text_.find_first_not_of(" \t", at + 1);
    return word != std::string::npos && !is_quote(text_[word]) && text_[word] != '|' &&
           text_[word] != '>';
  }

  static bool is_quote(char c) { return c == '"' || c == '\''; }

  /// The library closes a quote at the end of the file by itself.
  void require_quote(const YAML::Node& text) const {
    const YAML::Mark mark = text.Mark();
    const auto start = static_cast<size_t>(mark.pos);
    if (mark.pos < 0 || start >= text_.size()) return;
    const char quote = text_[start];
    if (quote == '!' && start + 1 < text_.size() && is_quote(text_[start + 1])) refuse_tag(text);
    if (!is_quote(quote)) return;
    for (size_t i = start + 1; i < text_.size(); ++i) {
      const bool escapes = quote == '"' ? text_[i] == '\\' : text_.compare(i, 2, "''") == 0;
      if (escapes) {
        ++i;
      } else if (text_[i] == quote) {
        return;
      }
    }
    fail(mark, "not YAML: this quote is never closed");
  }

  /// `<<: *base`, or a list of them, of which the first counts.
  void merge_into(Map& items, const YAML::Node& base) const {
    if (base.IsSequence()) {
      for (size_t i = base.size(); i > 0; --i) merge_into(items, base[i - 1]);
      return;
    }
    if (!base.IsMap()) fail(base.Mark(), "<< takes a map, or a list of maps");
    put_over(items, read(base).items());
  }

  static void put_over(Map& items, const Map& over) {
    for (const auto& [name, value] : over) {
      const auto same = [&name = name](const auto& item) { return item.first == name; };
      const auto found = std::find_if(items.begin(), items.end(), same);
      if (found == items.end()) {
        items.emplace_back(name, value);
      } else {
        found->second = value;
      }
    }
  }

  Origin at_line(const YAML::Mark& mark) const {
    return {file_ + ":" + std::to_string(mark.line + 1), source_};
  }

  static constexpr size_t kMostValues = 1'000'000;
  static constexpr const char* kTooLarge =
      "a file holds at most 1000000 values, where each use of an alias counts anew";

  const std::string& text_;
  const std::string& file_;
  const Origin::Source source_;
  mutable size_t values_ = 0;  // read so far
};

/// A tab in an indentation breaks a file in ways that the library's messages do not show.
void refuse_tabs(const std::string& text, const Reader& reader) {
  YAML::Mark mark = YAML::Mark::null_mark();
  mark.line = 0;
  for (size_t start = 0; start < text.size(); ++mark.line) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const size_t tab = text.find_first_not_of(' ', start);
    mark.column = static_cast<int>(tab - start);
    if (tab < end && text[tab] == '\t') {
      reader.fail(mark, "a tab in the indentation; YAML indents with spaces");
    }
    start = end + 1;
  }
}

/// A line that begins with % is for the reader of YAML, and a document has to follow. The library
/// drops it.
void refuse_directives(const std::string& text, const Reader& reader) {
  YAML::Mark mark = YAML::Mark::null_mark();
  mark.line = mark.column = 0;
  for (size_t start = 0; start < text.size(); ++mark.line) {
    const size_t end = std::min(text.find('\n', start), text.size());
    if (text[start] == '%' && text.find("\n---", start) == std::string::npos) {
      reader.fail(mark, "not YAML: a line cannot begin with %; quote the text");
    }
    start = end + 1;
  }
}

/// Counts documents, and looks at the names of anchors and at aliases, which may not recur. The
/// library makes them up without end out of some texts (","), so they are not loaded before they
/// are counted.
class DocumentCounter : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    ++count;
    start = mark;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (std::find(open.begin(), open.end(), anchor) == open.end()) return;
    throw YAML::ParserException(
        mark, "this alias stands inside the value that it stands for; write the value out");
  }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open.push_back(anchor);
  }
  void OnSequenceEnd() override { open.pop_back(); }
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open.push_back(anchor);
  }
  void OnMapEnd() override { open.pop_back(); }

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    const auto of_name = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_';
    };
    const bool is_name = std::all_of(name.begin(), name.end(), of_name);
    if (is_name && anchors.insert(name).second) return;
    throw YAML::ParserException(mark,
                                (is_name ? "a second anchor &" : "no name of an anchor: &") + name);
  }

  int count = 0;
  YAML::Mark start;  // of the last
  std::set<std::string> anchors;
  std::vector<YAML::anchor_t> open;  // of the maps and lists around; 0 without one
};

void refuse_second_document(const std::string& text, const Reader& reader) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentCounter documents;
  while (documents.count < 2 && parser.HandleNextDocument(documents)) {
  }
  if (documents.count < 2) return;
  const auto at = static_cast<size_t>(std::max(documents.start.pos, 0));
  const bool marked = at < text.size() && text.compare(at, 3, "---") == 0;
  reader.fail(documents.start, marked ? "one file holds one document, here a second one begins"
                                      : "not YAML: text that belongs to nothing before it");
}

}  // namespace

Node parse_yaml(const std::string& text, const std::string& file, Origin::Source source) {
  const Reader reader(text, file, source);
  YAML::Node document;
  try {
    refuse_second_document(text, reader);
    document = YAML::Load(text);
  } catch (const YAML::Exception& error) {
    refuse_tabs(text, reader);
    reader.fail(error.mark, "not YAML: " + error.msg);
  }
  refuse_directives(text, reader);
  if (document.IsNull()) return Node::map({}, Origin{file + ":1", source});
  return reader.read(document);
}

}  // namespace verlcpp::config
