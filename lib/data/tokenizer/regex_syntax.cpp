#include "data/tokenizer/regex_syntax.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "base/error.h"
#include "data/tokenizer/newer_unicode.h"

namespace verlcpp::data {

namespace {

// Whose members beyond PCRE2's Unicode 14 are known. C and Cn lose characters as Unicode grows, Mn
// and Mc exchanged one.
constexpr std::string_view kCategories[] = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};
constexpr std::string_view kScripts[] = {"Han",   "Hiragana", "Katakana",  "Hangul", "Latin",
                                         "Greek", "Cyrillic", "Arabic",    "Hebrew", "Thai",
                                         "Tamil", "Bengali",  "Devanagari"};

/// The inside of a character class, and whether the class is negated.
struct Members {
  std::string inside;
  bool negated = false;
};

class Translator {
 public:
  Translator(std::string_view in, const std::string& where) : in_(in), where_(where) {}

  std::string run() {
    while (at_ < in_.size()) item();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw DataError(where_ + ": regular expression \"" + std::string(in_) +
                    "\": " + std::string(what) + " is not supported");
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  bool take(std::string_view text) {
    if (!in_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  void atom(std::string_view text) {
    atom_ = out_.size();
    out_ += text;
  }

  void item() {
    const char c = peek();
    if (c == '\\') return escape();
    if (c == '[') return character_class();
    if (c == '(') return open_group();
    if (c == '{') return braces();
    ++at_;
    if (c == ')') {
      if (groups_.empty()) refuse("an unmatched )");
      atom_ = groups_.back();
      groups_.pop_back();
      out_ += c;
    } else if (c == '|') {
      out_ += c;
    } else if (c == '*' || c == '+' || c == '?') {
      out_ += c;
      if (peek() == '?' || peek() == '+') out_ += in_[at_++];
      if (peek() == '*' || peek() == '+' || peek() == '?') refuse("a repeated quantifier");
    } else {
      atom(in_.substr(at_ - 1, 1 + continuation()));
      at_ += continuation();
    }
  }

  /// Bytes of a UTF-8 character after its first, which lies before at_.
  size_t continuation() const {
    size_t n = 0;
    while ((static_cast<unsigned char>(peek(n)) & 0xC0) == 0x80) ++n;
    return n;
  }

  void open_group() {
    groups_.push_back(out_.size());
    // (?i) alone reaches over the alternatives that follow in Ruby, so only at the very start.
    for (const char* opening : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"}) {
      if (take(opening)) {
        out_ += opening;
        return;
      }
    }
    if (at_ == 0 && take("(?i)")) {
      out_ += "(?i)";
      groups_.pop_back();
      return;
    }
    if (peek(1) == '?' || peek(1) == '*') refuse("\"" + std::string(in_.substr(at_, 4)) + "\"");
    ++at_;
    out_ += '(';
  }

  /// {n}, {n,}, {,m} and {n,m}; any other brace is a character.
  void braces() {
    size_t end = 1;
    const auto digits = [&] {
      const size_t from = end;
      while (std::isdigit(static_cast<unsigned char>(peek(end)))) ++end;
      return std::string(in_.substr(at_ + from, end - from));
    };
    const std::string low = digits();
    const bool comma = peek(end) == ',';
    if (comma) ++end;
    const std::string high = comma ? digits() : low;
    if (peek(end) != '}' || (low.empty() && high.empty())) {
      ++at_;
      return atom("\\{");
    }
    at_ += end + 1;
    out_ += "{" + (low.empty() ? "0" : low) + (comma ? "," : "") + (comma ? high : "") + "}";
    if (peek() == '?' && comma) {
      out_ += in_[at_++];
    } else if (peek() == '+') {
      ++at_;
      out_.insert(atom_, "(?:");
      out_ += ")+";
    }
    if (peek() == '*' || peek() == '+' || peek() == '?') refuse("a repeated quantifier");
  }

  void character_class() {
    ++at_;
    std::string text = take("^") ? "[^" : "[";
    if (peek() == ']') refuse("an empty class");
    while (peek() != ']') {
      if (at_ >= in_.size()) refuse("a class without its ]");
      if (peek() == '[') refuse("a class inside of a class");
      if (in_.substr(at_).starts_with("&&")) refuse("an intersection of classes");
      if (peek() != '\\') {
        text += in_[at_++];
        continue;
      }
      if (const auto members = class_escape()) {
        if (members->negated && members->inside != "\\p{White_Space}") {
          refuse("a negated property inside of a class");
        }
        text += members->negated ? "\\P{White_Space}" : members->inside;
      } else {
        text += in_[at_ - 1] == 'b' ? "\\x08" : plain_escape();
      }
    }
    ++at_;
    atom(text + "]");
  }

  void escape() {
    if (const auto members = class_escape()) {
      return atom((members->negated ? "[^" : "[") + members->inside + "]");
    }
    const char c = in_[at_ - 1];
    if (c == 'b' || c == 'B') {
      const std::string w = "[" + word() + "]", not_w = "[^" + word() + "]";
      return atom(c == 'b' ? "(?:(?<=" + w + ")(?!" + w + ")|(?<!" + w + ")(?=" + w + "))"
                           : "(?:(?<=" + w + ")(?=" + w + ")|(?<!" + w + ")(?!" + w + "))");
    }
    if (c == 'A' || c == 'z' || c == 'Z' || c == 'R') return atom(std::string{'\\', c});
    atom(plain_escape());
  }

  /// Oniguruma's \w: UTS 18's without the joiners, and six Latin-1 numbers.
  static std::string word() {
    std::string out = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\xB2\\xB3\\xB9\\xBC-\\xBE";
    for (const char* category : {"L", "M", "Nd", "Nl", "Pc"}) out += newer_in_category(category);
    return out;
  }

  /// Reads \X; if that is a class of characters, its members. Otherwise at_ lies behind X.
  std::optional<Members> class_escape() {
    if (at_ + 1 >= in_.size()) refuse("a \\ at the end");
    const char c = in_[at_ + 1];
    at_ += 2;
    const bool negated = c == 'S' || c == 'D' || c == 'W' || c == 'H' || c == 'P';
    switch (std::tolower(static_cast<unsigned char>(c))) {
      case 's':
        return Members{"\\p{White_Space}", negated};
      case 'd':
        return Members{"\\p{Nd}" + newer_in_category("Nd"), negated};
      case 'w':
        return Members{word(), negated};
      case 'h':
        return Members{"0-9A-Fa-f", negated};
      case 'p':
        return property(negated);
      default:
        return std::nullopt;
    }
  }

  Members property(bool negated) {
    const size_t end = in_.find('}', at_);
    if (peek() != '{' || end == std::string_view::npos) refuse("\\p without {...}");
    std::string_view name = in_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const auto is_in = [&](const auto& names) {
      return std::find(std::begin(names), std::end(names), name) != std::end(names);
    };
    const std::string known(name);
    if (is_in(kCategories)) return {"\\p{" + known + "}" + newer_in_category(name), negated};
    // The script itself, not its extensions, which PCRE2 takes for \p{Han}.
    if (is_in(kScripts)) return {"\\p{sc:" + known + "}" + newer_in_script(name), negated};
    refuse("\\p{" + known + "}");
  }

  /// A character written with a backslash; at_ lies behind the letter.
  std::string plain_escape() {
    const char c = in_[at_ - 1];
    if (c == 'v') return "\\x0B";
    if (std::string_view("nrtfae").find(c) != std::string_view::npos) return {'\\', c};
    if (c == 'x' || c == 'u') return hexadecimal(c);
    if (std::isalnum(static_cast<unsigned char>(c))) refuse(std::string{'\\', c});
    const size_t more = continuation();
    at_ += more;
    if (more > 0) return std::string(in_.substr(at_ - more - 1, more + 1));
    return {'\\', c};
  }

  /// \xHH (a byte: only ASCII is a character), \x{H...}, \uHHHH.
  std::string hexadecimal(char kind) {
    const bool braced = kind == 'x' && take("{");
    size_t n = 0;
    while (std::isxdigit(static_cast<unsigned char>(peek(n))) && n < (braced ? 8u : 4u)) ++n;
    if (kind == 'x' && !braced) n = std::min<size_t>(n, 2);
    const std::string digits(in_.substr(at_, n));
    at_ += n;
    const bool is_ascii = n == 2 && digits[0] < '8';
    if (braced ? n == 0 || !take("}") : kind == 'u' ? n != 4 : !is_ascii) {
      refuse("this \\" + std::string(1, kind));
    }
    return "\\x{" + digits + "}";
  }

  std::string_view in_;
  const std::string& where_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;             // where the last atom begins in out_
  std::vector<size_t> groups_;  // where the open groups begin in out_
};

}  // namespace

std::string to_pcre2(std::string_view oniguruma, const std::string& where) {
  return Translator(oniguruma, where).run();
}

}  // namespace verlcpp::data
