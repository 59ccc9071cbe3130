#pragma once

#include <string>
#include <utility>
#include <vector>

namespace verlcpp::test {

/// A line of a table with what stands below it, indented.
struct Directive {
  std::string word, argument;  // "cut", "rows.jsonl 10"
  std::vector<std::string> lines;
};

/// One mistake and what the program says to it.
struct BadInput {
  std::string where, title;  // "rows.txt:12"
  bool bare = false;         // without the base's configuration
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<Directive> preparation;  // in order: file, bytes, replace, train, ...
  int exit = 2;
  std::string message;  // standard error behind "error: "
};

/// The entries of one table, in the format of test/data/bad_inputs/README.md. Throws
/// std::runtime_error with the line of what is not in that format.
std::vector<BadInput> read_bad_inputs(const std::string& path);

/// Carries out one directive of a preparation, except `train`, in the working folder. Throws
/// std::runtime_error when it would change nothing.
void prepare(const Directive& directive);

}  // namespace verlcpp::test
