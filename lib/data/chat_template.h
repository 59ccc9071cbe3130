#pragma once

#include <span>
#include <string>

#include "data/message.h"

namespace verlcpp::data {

/// How a model's conversations become text. Two conventions are known: a model without a chat
/// template, and ChatML.
struct ChatTemplate {
  enum class Style { kPlain, kChatMl };
  Style style = Style::kPlain;
  std::string where;           // file the template came from, for messages
  std::string default_system;  // ChatML: the system turn the template adds when there is none
  /// ChatML templates with reasoning rewrite the assistant's earlier turns; those are refused.
  bool rewrites_assistant = false;
};

/// Reads <folder>/chat_template.jinja, or else the chat_template of <folder>/tokenizer_config.json;
/// neither present is the plain style. DataError for a template that is not plain ChatML.
ChatTemplate load_chat_template(const std::string& folder);
/// `jinja` empty: the plain style. `where` names the file in messages.
ChatTemplate parse_chat_template(const std::string& jinja, const std::string& where);

/// Plain: the contents end to end. ChatML: "<|im_start|>role\ncontent<|im_end|>\n" a turn, closed
/// by
/// "<|im_start|>assistant\n" when `add_generation_prompt`. DataError for a role it does not know.
std::string render_chat(const ChatTemplate& chat_template, std::span<const Message> messages,
                        bool add_generation_prompt);

}  // namespace verlcpp::data
