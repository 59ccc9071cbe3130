#include "run_binary.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace verlcpp::test {
namespace {

/// One word for the shell.
std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

Outcome run_binary(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const std::string err = folder.path() + "/stderr";
  std::string command = quoted(VERLCPP_TRAIN);
  for (const std::string& argument : arguments) command += " " + quoted(argument);
  command += " 2>" + quoted(err);
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed: " + command);
  Outcome outcome;
  std::array<char, 4096> buffer{};
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    outcome.out.append(buffer.data(), n);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  outcome.err = read_file(err);
  return outcome;
}

}  // namespace verlcpp::test
