#include <algorithm>

#include "jinja/parser.h"

namespace verlcpp::jinja {

using Kind = Statement::Kind;
using Type = Token::Type;

namespace {

std::unique_ptr<Statement> make_statement(Kind kind, int line) {
  return std::make_unique<Statement>(Statement{.kind = kind, .line = line});
}

const std::set<std::string> kEnds = {"elif",      "else",         "endif",   "endfor",
                                     "endset",    "endmacro",     "endcall", "endwith",
                                     "endfilter", "endgeneration"};

std::string listed(const std::set<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " or ") + name;
  return out;
}

}  // namespace

Body Parser::parse() {
  Body out = body({}, 1);
  if (!unknown_.empty()) throw unknown_.front();
  return out;
}

void Parser::expect_block_end() {
  if (current().type != Type::kBlockEnd) fail("expected '%}', found " + shown(current()));
  take();
}

/// Up to a tag in `ends`, whose name is then the current token, or to the end of the template.
/// `opened`: the line of the tag in front.
Body Parser::body(const std::set<std::string>& ends, int opened) {
  const Nesting nesting(*this);
  Body out;
  while (current().type != Type::kEnd) {
    const Token& token = take();
    if (token.type == Type::kData) {
      out.push_back(make_statement(Kind::kText, token.line));
      out.back()->text = token.text;
    } else if (token.type == Type::kVariableBegin) {
      out.push_back(make_statement(Kind::kPrint, token.line));
      out.back()->expression = tuple(true, "", false);
      if (current().type != Type::kVariableEnd) fail("expected '}}', found " + shown(current()));
      take();
    } else {
      if (current().type == Type::kName && ends.contains(current().text)) return out;
      if (current().type == Type::kName && kEnds.contains(current().text)) {
        fail("unexpected tag '" + current().text + "'" +
             (ends.empty() ? "" : "; expected " + listed(ends)));
      }
      out.push_back(statement());
      expect_block_end();
    }
  }
  if (!ends.empty()) {
    throw SyntaxError("the block that begins here is not closed; expected " + listed(ends), opened);
  }
  return out;
}

std::unique_ptr<Statement> Parser::statement() {
  const Nesting nesting(*this);
  if (current().type != Type::kName) fail("expected the name of a tag, found " + shown(current()));
  const std::string& name = current().text;
  if (name == "if") return if_statement();
  if (name == "for") return for_statement();
  if (name == "set") return set_statement();
  if (name == "with") return with_statement();
  if (name == "macro") return macro_statement();
  if (name == "call") return call_statement();
  if (name == "filter") return filter_statement();
  if (name == "generation") return generation_statement();
  if (name == "break") return loop_control(Kind::kBreak);
  if (name == "continue") return loop_control(Kind::kContinue);
  fail("the tag '" + name +
       "' is not supported; valid: if, for, set, with, macro, call, filter, generation, break, "
       "continue");
}

/// The rest of an opening tag, and its body.
Body Parser::block(const std::set<std::string>& ends) {
  skip_operator(":");
  const int line = current().line;
  expect_block_end();
  return body(ends, line);
}

Body Parser::last_block(const std::string& end) {
  Body out = block({end});
  take();
  return out;
}

std::unique_ptr<Statement> Parser::if_statement() {
  const Nesting nesting(*this);
  auto out = make_statement(Kind::kIf, take().line);
  const Setting setting(conditional_, true);
  out->expression = tuple(false, "", false);
  out->body = block({"elif", "else", "endif"});
  if (current().is_name("elif")) {
    out->otherwise.push_back(if_statement());  // takes the endif
  } else if (take().is_name("else")) {
    out->otherwise = last_block("endif");
  }
  return out;
}

std::unique_ptr<Statement> Parser::for_statement() {
  auto out = make_statement(Kind::kFor, take().line);
  out->targets.push_back(target("in", false));
  expect_name("in");
  out->expression = tuple(false, "recursive", false);
  const Setting strict(conditional_, false);
  if (skip_name("if")) out->condition = expression();
  if (current().is_name("recursive")) fail("recursive loops are not supported");
  {
    const Setting setting(in_loop_, true);
    out->body = block({"else", "endfor"});
  }
  if (take().is_name("else")) out->otherwise = last_block("endfor");
  return out;
}

std::unique_ptr<Statement> Parser::set_statement() {
  auto out = make_statement(Kind::kSet, take().line);
  out->targets.push_back(target("", true));
  if (skip_operator("=")) {
    out->expression = tuple(true, "", false);
    return out;
  }
  out->kind = Kind::kSetBlock;
  if (current().is_operator("|")) out->expression = filter_chain(nullptr);
  const Setting outside(in_loop_, false);
  out->body = last_block("endset");
  return out;
}

std::unique_ptr<Statement> Parser::with_statement() {
  auto out = make_statement(Kind::kWith, take().line);
  while (current().type != Type::kBlockEnd) {
    if (!out->targets.empty()) expect_operator(",");
    out->targets.push_back(single_target(false));
    expect_operator("=");
    out->values.push_back(expression());
  }
  const Setting strict(conditional_, false);
  out->body = last_block("endwith");
  return out;
}

/// The body of what is called: no loop of its own surroundings can be left from there. Which of the
/// special names it reads decides what it may be called with.
void Parser::function_body(Statement& out, const std::string& end) {
  const Setting outside(in_loop_, false);
  const Setting strict(conditional_, false);
  const size_t before = read_names_.size();
  out.body = last_block(end);
  const auto reads = [&](const char* name) {
    return std::find(read_names_.begin() + static_cast<std::ptrdiff_t>(before), read_names_.end(),
                     name) != read_names_.end();
  };
  out.signature.uses_varargs = reads("varargs");
  out.signature.uses_kwargs = reads("kwargs");
  out.signature.uses_caller = reads("caller");
}

Signature Parser::signature() {
  Signature out;
  expect_operator("(");
  while (!current().is_operator(")")) {
    if (!out.names.empty()) expect_operator(",");
    out.names.push_back(expect_identifier());
    if (skip_operator("=")) {
      out.defaults.push_back(expression());
    } else if (!out.defaults.empty()) {
      fail("a parameter without default follows one with a default");
    }
  }
  take();
  return out;
}

std::unique_ptr<Statement> Parser::macro_statement() {
  auto out = make_statement(Kind::kMacro, take().line);
  out->text = expect_identifier();
  out->signature = signature();
  function_body(*out, "endmacro");
  return out;
}

std::unique_ptr<Statement> Parser::call_statement() {
  auto out = make_statement(Kind::kCall, take().line);
  if (current().is_operator("(")) out->signature = signature();
  out->expression = expression();
  if (out->expression->kind != Expression::Kind::kCall) fail("expected a call");
  function_body(*out, "endcall");
  return out;
}

std::unique_ptr<Statement> Parser::filter_statement() {
  auto out = make_statement(Kind::kFilter, take().line);
  out->expression = filter_chain(filter(nullptr));
  const Setting strict(conditional_, false);
  out->body = last_block("endfilter");
  return out;
}

std::unique_ptr<Statement> Parser::generation_statement() {
  auto out = make_statement(Kind::kScope, take().line);
  function_body(*out, "endgeneration");
  return out;
}

std::unique_ptr<Statement> Parser::loop_control(Kind kind) {
  auto out = make_statement(kind, current().line);
  if (!in_loop_) fail("'" + current().text + "' outside of a loop");
  take();
  return out;
}

/// Up to `end` or '=': a name, several with commas between, in parentheses or not.
Target Parser::target(const std::string& end, bool with_namespace) {
  std::vector<Target> items = {single_target(with_namespace)};
  bool comma = false;
  while (skip_operator(",")) {
    comma = true;
    if (current().is_operator("=") || (!end.empty() && current().is_name(end))) break;
    if (current().type == Type::kBlockEnd) break;
    items.push_back(single_target(with_namespace));
  }
  if (!comma) return std::move(items.front());
  return {.name = {}, .attribute = {}, .items = std::move(items)};
}

Target Parser::single_target(bool with_namespace) {
  const Nesting nesting(*this);
  if (skip_operator("(")) {
    Target out = target("", with_namespace);
    expect_operator(")");
    return out;
  }
  static const std::set<std::string> kConstants = {"true",  "True", "false",
                                                   "False", "none", "None"};
  if (current().type == Type::kName && kConstants.contains(current().text)) {
    fail("cannot assign to '" + current().text + "'");
  }
  Target out{.name = expect_identifier(), .attribute = {}, .items = {}};
  if (with_namespace && skip_operator(".")) out.attribute = expect_identifier();
  return out;
}

}  // namespace verlcpp::jinja
