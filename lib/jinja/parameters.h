#pragma once

#include <string>

#include "jinja/value.h"

namespace verlcpp::jinja {

/// Takes the arguments of a call apart, in the order of the function's parameters. EvalError, with
/// the function's name, for one that is missing, of another type or too many.
class Parameters {
 public:
  Parameters(std::string function, Args args)
      : function_(std::move(function)), args_(std::move(args)) {}

  Value take(const std::string& name);
  Value take(const std::string& name, Value otherwise);
  std::string take_text(const std::string& name);
  std::string take_text(const std::string& name, const std::string& otherwise);
  int64_t take_integer(const std::string& name, int64_t otherwise);
  bool take_flag(const std::string& name, bool otherwise);
  bool has(const std::string& name) const;
  /// After the last take: nothing may be left.
  void finish() const;
  /// What has not been taken.
  Args rest() const;
  [[noreturn]] void fail(const std::string& message) const;

 private:
  bool find(const std::string& name, Value& out);
  std::string function_;
  Args args_;
  size_t next_ = 0;
};

}  // namespace verlcpp::jinja
