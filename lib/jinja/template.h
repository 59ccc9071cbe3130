#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "jinja/ast.h"

namespace verlcpp::jinja {

/// A Jinja2 template as transformers renders chat templates: trim_blocks and lstrip_blocks on, the
/// loop controls, generation blocks, the sandbox that changes no list and no dict, tojson without
/// HTML escapes, raise_exception and strftime_now. Not there: template inheritance and inclusion,
/// recursive loops, escaped text as a type of its own, integers of more than 64 bits.
class Template {
 public:
  /// DataError "where, line N: what" for a template that cannot be read.
  Template(std::string_view source, std::string where);

  /// `variables` is an object of what the template sees. DataError "where, line N: what" for an
  /// error while it runs, raise_exception among them, and for a template that does not end: it is
  /// stopped after some seconds, at 64 MiB of text or a million items.
  std::string render(const nlohmann::ordered_json& variables) const;

 private:
  std::string where_;
  Body body_;
};

}  // namespace verlcpp::jinja
