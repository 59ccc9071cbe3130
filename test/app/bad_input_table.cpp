#include "bad_input_table.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace verlcpp::test {
namespace {

namespace fs = std::filesystem;

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& path, const std::string& text) {
  if (const fs::path parent = fs::path(path).parent_path(); !parent.empty()) {
    fs::create_directories(parent);
  }
  std::ofstream out(path, std::ios::binary);
  out << text << std::flush;
  if (!out) throw std::runtime_error(path + ": cannot be written");
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

/// "\xNN" is a byte, everything else itself.
std::string with_bytes(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool byte = text.compare(i, 2, "\\x") == 0 && i + 3 < text.size();
    out += byte ? static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16)) : text[i];
    if (byte) i += 3;
  }
  return out;
}

/// A safetensors file: the header's length in 8 bytes, little-endian, the header, the data.
std::string safetensors(const std::string& header, size_t data_bytes) {
  std::string out;
  for (int shift = 0; shift < 64; shift += 8) {
    out += static_cast<char>(header.size() >> shift & 0xFF);
  }
  return out + header + std::string(data_bytes, '\0');
}

/// "name rest" at the first space.
std::pair<std::string, std::string> halves(const std::string& text) {
  const size_t space = text.find(' ');
  if (space == std::string::npos) return {text, ""};
  return {text.substr(0, space), text.substr(space + 1)};
}

void replace(const Directive& directive) {
  if (directive.lines.size() != 2) throw std::runtime_error("replace takes two lines");
  std::string text = read(directive.argument);
  const size_t at = text.find(directive.lines[0]);
  if (at == std::string::npos) {
    throw std::runtime_error(directive.argument + " does not hold " + directive.lines[0]);
  }
  write(directive.argument, text.replace(at, directive.lines[0].size(), directive.lines[1]));
}

class Table {
 public:
  explicit Table(const std::string& path) : name_(fs::path(path).filename().string()) {
    std::ifstream in(path);
    if (!in) throw std::runtime_error(path + ": cannot be read");
    for (std::string line; std::getline(in, line);) {
      ++number_;
      if (line.starts_with("  ")) {
        if (directives_.empty()) fail("lines before a directive");
        directives_.back().lines.push_back(line.substr(2));
      } else if (line.starts_with("== ")) {
        finish_entry();
        entries_.emplace_back();
        entries_.back().where = where();
        entries_.back().title = line.substr(3);
      } else if (!line.empty() && line[0] != '#') {
        const auto [word, argument] = halves(line);
        if (entries_.empty()) fail("a directive before the first entry");
        directives_.push_back({word, argument, {}});
      }
    }
    finish_entry();
  }

  std::vector<BadInput> take() { return std::move(entries_); }

 private:
  std::string where() const { return name_ + ":" + std::to_string(number_); }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(where() + ": " + what);
  }

  void finish_entry() {
    if (entries_.empty()) return;
    BadInput& entry = entries_.back();
    for (Directive& directive : directives_) apply(entry, directive);
    directives_.clear();
    if (entry.message.empty()) fail("the entry above has no message: " + entry.title);
  }

  void apply(BadInput& entry, Directive& directive) const {
    const std::string& word = directive.word;
    if (word == "args") {
      entry.arguments = directive.lines;
    } else if (word == "bare") {
      entry.bare = true;
    } else if (word == "env") {
      const size_t equals = directive.argument.find('=');
      if (equals == std::string::npos) fail("env takes NAME=VALUE");
      entry.environment.emplace_back(directive.argument.substr(0, equals),
                                     directive.argument.substr(equals + 1));
    } else if (word == "exit") {
      entry.exit = std::stoi(directive.argument);
    } else if (word == "message") {
      entry.message = joined(directive.lines);
    } else {
      entry.preparation.push_back(std::move(directive));
    }
  }

  std::string name_;
  int number_ = 0;
  std::vector<BadInput> entries_;
  std::vector<Directive> directives_;  // of the last entry
};

}  // namespace

std::vector<BadInput> read_bad_inputs(const std::string& path) { return Table(path).take(); }

void prepare(const Directive& directive) {
  const std::string& word = directive.word;
  const auto [path, rest] = halves(directive.argument);
  const std::string text = joined(directive.lines);
  if (word == "file") {
    write(path, text.empty() ? "" : text + "\n");
  } else if (word == "bytes") {
    write(path, with_bytes(text));
  } else if (word == "tensors") {
    write(path, safetensors(text, std::stoul(rest)));
  } else if (word == "replace") {
    replace(directive);
  } else if (word == "cut") {
    if (fs::file_size(path) <= std::stoul(rest)) throw std::runtime_error(path + " is shorter");
    fs::resize_file(path, std::stoul(rest));
  } else if (word == "remove") {
    if (fs::remove_all(path) == 0) throw std::runtime_error(path + " is not there");
  } else if (word == "folder") {
    if (!fs::create_directories(path)) throw std::runtime_error(path + " is there already");
  } else {
    throw std::runtime_error("unknown directive " + word);
  }
}

}  // namespace verlcpp::test
