#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "data/message.h"

namespace verlcpp::jinja {
class Template;
}

namespace verlcpp::data {

/// How a model's conversations become text: as transformers' apply_chat_template renders them.
struct ChatTemplate {
  /// By name: "default", and "tool_use" for rows with tools. Empty: the model has no template, and
  /// contents stand end to end.
  std::map<std::string, std::shared_ptr<const jinja::Template>> templates;
  std::string where;  // file or key that the template came from, for messages
  /// What every template sees: the special tokens, and apply_chat_template_kwargs over them.
  std::shared_ptr<const nlohmann::ordered_json> variables;
  std::string tools_json = {};  // a JSON list of schemas, for rows without tools of their own; ""
};

struct ChatTemplateOptions {
  /// verl's actor_rollout_ref.model.custom_chat_template: Jinja instead of the folder's.
  std::optional<std::string> custom = {};
  std::string custom_where = "custom_chat_template";  // names it in messages
  /// verl's data.apply_chat_template_kwargs as a JSON object.
  std::string kwargs_json = "{}";
};

/// What transformers finds in a model's folder: chat_template.jinja with
/// additional_chat_templates/NAME.jinja, or else the chat_template of tokenizer_config.json (one,
/// or a list of named ones); special tokens from tokenizer_config.json, or else
/// special_tokens_map.json. DataError, with file or key and line, for a template that cannot be
/// read.
ChatTemplate load_chat_template(const std::string& folder, const ChatTemplateOptions& options = {});
/// `jinja` empty: no template. `where` names it in messages.
ChatTemplate parse_chat_template(const std::string& jinja, const std::string& where);

/// The conversation as text. `row_tools_json`: the row's tools, a JSON list of schemas, or "": the
/// template's own. Keys of
/// a message that are null count as missing; reasoning is seen under all of its names. DataError
/// with the template's file and line, its raise_exception among them.
std::string render_chat(const ChatTemplate& chat_template, std::span<const Message> messages,
                        bool add_generation_prompt, const std::string& row_tools_json = "");

/// Whether a name of apply_chat_template_kwargs is one that is not the user's to set: messages,
/// tools, add_generation_prompt and arguments of apply_chat_template that say how to tokenize.
bool is_reserved_chat_variable(const std::string& name);

}  // namespace verlcpp::data
