#include "config/interpolation.h"

#include <set>

#include "config/compose.h"
#include "config/expression.h"
#include "config/problems.h"
#include "config/resolver.h"
#include "config/value_parser.h"

namespace verlcpp::config {

namespace {

const RunFacts kNoFacts;

}  // namespace

Node resolve(const Node& tree, const RunFacts& run) {
  KeyProblems problems;
  Node resolved = resolve(tree, run, problems);
  throw_problems(problems.texts);
  return resolved;
}

Node resolve(const Node& tree, const RunFacts& run, KeyProblems& problems) {
  Resolver resolver(tree, run);
  resolver.note_problems(problems);
  Node resolved = resolver.resolve_node(tree, {});
  std::set<std::string> said;
  std::erase_if(problems.texts, [&](const std::string& text) { return !said.insert(text).second; });
  return resolved;
}

Node resolve_in(const Node& tree, const Node& node, const std::string& path, const RunFacts& run) {
  return Resolver(tree, run).resolve_node(node, split(path));
}

std::optional<Node> select(const Node& tree, const std::string& path) {
  return Resolver(tree, kNoFacts).select(path);
}

std::optional<std::string> followed_key(const Interpolation& interpolation) {
  const std::string& text = interpolation.text;
  if (!text.starts_with("${") || end_of_interpolation(text, 0) != text.size()) return std::nullopt;
  const std::string inside = text.substr(2, text.size() - 3);
  const Expression parsed = parse_expression(inside);
  std::string name;
  for (const std::string& piece : parsed.pieces) name += piece;
  if (name.starts_with('.') || name.find("${") != std::string::npos) return std::nullopt;
  if (!parsed.is_call) return without_brackets(name);
  if (name != "oc.select") return std::nullopt;
  const List arguments = parse_arguments(inside, parsed.arguments, {});
  const auto* key = arguments.empty() ? nullptr : arguments[0].get_if<std::string>();
  return key == nullptr ? std::nullopt : std::optional(*key);
}

}  // namespace verlcpp::config
