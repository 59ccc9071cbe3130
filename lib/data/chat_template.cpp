#include "data/chat_template.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/text_file.h"

namespace verlcpp::data {

namespace {

using Json = nlohmann::json;

constexpr const char* kStart = "<|im_start|>";
constexpr const char* kEnd = "<|im_end|>";
constexpr const char* kValid =
    "; valid: no chat template, or ChatML (<|im_start|>role\\ncontent<|im_end|>\\n)";

/// A Jinja string literal holds a newline as itself or as backslash-n.
std::string unescape_newlines(std::string text) {
  for (size_t at = text.find("\\n"); at != std::string::npos; at = text.find("\\n", at + 1)) {
    text.replace(at, 2, "\n");
  }
  return text;
}

/// The text of a system turn spelled out inside one literal of the template: what ChatML templates
/// of the Qwen2 family add when the conversation has no system turn.
std::string find_default_system(const std::string& jinja) {
  const std::string open = std::string(kStart) + "system\n";
  for (size_t at = jinja.find(open); at != std::string::npos; at = jinja.find(open, at + 1)) {
    const size_t begin = at + open.size();
    const size_t end = jinja.find(kEnd, begin);
    if (end == std::string::npos) break;
    const std::string text = jinja.substr(begin, end - begin);
    if (!text.empty() && text.find_first_of("'\"{}") == std::string::npos) return text;
  }
  return "";
}

/// tokenizer_config.json holds one template, or a list of named ones.
std::string template_of_config(const std::string& path) {
  const Json json = Json::parse(read_text_file(path), nullptr, false);
  if (!json.is_object()) throw DataError(path + ": not a JSON object");
  const auto found = json.find("chat_template");
  if (found == json.end() || found->is_null()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array()) {
    for (const Json& entry : *found) {
      if (!entry.is_object() || entry.value("name", Json()) != "default") continue;
      const Json text = entry.value("template", Json());
      if (text.is_string()) return text.get<std::string>();
    }
  }
  throw DataError(path + ": chat_template is neither a string nor a list with a \"default\" one");
}

void append_turn(std::string& out, const std::string& role, const std::string& content) {
  out += kStart + role + "\n" + content + kEnd + "\n";
}

std::string render_chatml(const ChatTemplate& chat_template, std::span<const Message> messages,
                          bool add_generation_prompt) {
  std::string out;
  const bool has_system = !messages.empty() && messages.front().role == "system";
  if (!has_system && !chat_template.default_system.empty()) {
    append_turn(out, "system", chat_template.default_system);
  }
  for (const Message& message : messages) {
    const std::string& role = message.role;
    if (role != "system" && role != "user" && role != "assistant") {
      throw DataError(chat_template.where + ": role \"" + role +
                      "\" of a message; valid: system, user, assistant");
    }
    if (role == "assistant" && chat_template.rewrites_assistant) {
      throw DataError(chat_template.where +
                      ": this chat template rewrites assistant turns (it contains <think>), which "
                      "is not supported; valid: prompts of system and user turns");
    }
    append_turn(out, role, message.content);
  }
  if (add_generation_prompt) out += std::string(kStart) + "assistant\n";
  return out;
}

}  // namespace

ChatTemplate parse_chat_template(const std::string& jinja, const std::string& where) {
  ChatTemplate out;
  out.where = where;
  if (jinja.empty()) return out;
  const std::string text = unescape_newlines(jinja);
  if (text.find(kStart) == std::string::npos || text.find(kEnd) == std::string::npos) {
    throw DataError(where + ": chat template \"" + jinja.substr(0, 60) +
                    (jinja.size() > 60 ? "...\"" : "\"") + " is not supported" + kValid);
  }
  if (text.find(std::string(kStart) + "assistant\n<think>") != std::string::npos) {
    throw DataError(where + ": chat template that opens the answer with <think> is not supported" +
                    kValid);
  }
  if (text.find("|trim") != std::string::npos || text.find("| trim") != std::string::npos) {
    throw DataError(where + ": chat template that trims contents is not supported" + kValid);
  }
  out.style = ChatTemplate::Style::kChatMl;
  out.default_system = find_default_system(text);
  out.rewrites_assistant = text.find("<think>") != std::string::npos;
  return out;
}

ChatTemplate load_chat_template(const std::string& folder) {
  const std::string jinja = folder + "/chat_template.jinja";
  if (std::filesystem::exists(jinja)) return parse_chat_template(read_text_file(jinja), jinja);
  const std::string config = folder + "/tokenizer_config.json";
  if (!std::filesystem::exists(config)) return parse_chat_template("", config);
  return parse_chat_template(template_of_config(config), config);
}

std::string render_chat(const ChatTemplate& chat_template, std::span<const Message> messages,
                        bool add_generation_prompt) {
  if (chat_template.style == ChatTemplate::Style::kChatMl) {
    return render_chatml(chat_template, messages, add_generation_prompt);
  }
  std::string out;
  for (const Message& message : messages) out += message.content;
  return out;
}

}  // namespace verlcpp::data
