#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/ast.h"
#include "jinja/lexer.h"

namespace verlcpp::jinja {

/// Jinja's grammar over one template's tokens. SyntaxError, with the line, for what it does not
/// hold, and for a filter or test that does not exist where it would certainly be looked up.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Body parse();

 private:
  // parser_statements.cpp
  Body body(const std::set<std::string>& ends, int opened);
  std::unique_ptr<Statement> statement();
  Body block(const std::set<std::string>& ends);
  Body last_block(const std::string& end);
  std::unique_ptr<Statement> if_statement();
  std::unique_ptr<Statement> for_statement();
  std::unique_ptr<Statement> set_statement();
  std::unique_ptr<Statement> with_statement();
  std::unique_ptr<Statement> macro_statement();
  std::unique_ptr<Statement> call_statement();
  std::unique_ptr<Statement> filter_statement();
  std::unique_ptr<Statement> generation_statement();
  std::unique_ptr<Statement> loop_control(Statement::Kind kind);
  void function_body(Statement& out, const std::string& end);
  Signature signature();
  Target target(const std::string& end, bool with_namespace);
  Target single_target(bool with_namespace);

  // parser.cpp
  ExpressionPtr expression(bool with_condition = true);
  ExpressionPtr condition();
  ExpressionPtr or_expression();
  ExpressionPtr and_expression();
  ExpressionPtr not_expression();
  ExpressionPtr comparison();
  ExpressionPtr binary(int level);
  ExpressionPtr concatenation();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr string_constant();
  ExpressionPtr list_display();
  ExpressionPtr dict_display();
  ExpressionPtr tuple(bool with_condition, const std::string& end, bool parenthesized);
  ExpressionPtr postfix(ExpressionPtr value);
  ExpressionPtr filters_and_tests(ExpressionPtr value);
  ExpressionPtr subscript(ExpressionPtr value);
  ExpressionPtr call(ExpressionPtr function);
  ExpressionPtr filter(ExpressionPtr value);
  ExpressionPtr filter_chain(ExpressionPtr value);
  ExpressionPtr test(ExpressionPtr value);
  Arguments arguments();
  void argument(Arguments& out);
  std::string dotted_name();

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view spelled);
  void expect_operator(std::string_view spelled);
  void expect_name(std::string_view name);
  std::string expect_identifier();
  void expect_block_end();
  ExpressionPtr make(Expression::Kind kind, int line, std::string name = {}) const;
  [[noreturn]] void fail(const std::string& message) const;
  static std::string shown(const Token& token);

  /// Bounds the recursion, and with it the depth of the tree.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxDepth) parser_.fail("nested too deeply");
    }
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    static constexpr int kMaxDepth = 150;
    Parser& parser_;
  };
  /// Sets a flag for as long as it lives.
  class Setting {
   public:
    Setting(bool& flag, bool value) : flag_(flag), old_(flag) { flag_ = value; }
    ~Setting() { flag_ = old_; }
    Setting(const Setting&) = delete;
    Setting& operator=(const Setting&) = delete;

   private:
    bool& flag_;
    bool old_;
  };

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  bool in_loop_ = false;
  bool conditional_ = false;          // a missing filter counts only when it is reached
  std::vector<SyntaxError> unknown_;  // filters and tests that are looked up in any case
  std::vector<std::string> read_names_;
};

}  // namespace verlcpp::jinja
