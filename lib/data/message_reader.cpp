#include "data/message_reader.h"

#include <nlohmann/json.hpp>

#include "data/json_text.h"

namespace verlcpp::data {
namespace {

using Json = nlohmann::ordered_json;
using Problem = std::function<void(const std::string&)>;

constexpr size_t kShownValue = 60;

bool has_tool_calls(const Json& json) {
  const auto found = json.find("tool_calls");
  return found != json.end() && found->is_array() && !found->empty();
}

/// The text parts of a content, end to end.
std::string text_of_parts(const Json& parts, const std::string& name, const Problem& problem) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    const auto text = part.is_object() ? part.find("text") : part.end();
    if (part.is_object() && text != part.end() && text->is_string() &&
        part.value("type", Json("text")) == "text") {
      out += text->get<std::string>();
    } else {
      problem(name + "[" + std::to_string(i) + "] is " + shown_json(part) +
              R"(; valid: {"type": "text", "text": "..."} (text only))");
    }
  }
  return out;
}

std::string read_content(const Json& json, const std::string& name, const Problem& problem) {
  const auto found = json.find("content");
  const bool missing = found == json.end() || found->is_null();
  if (missing && has_tool_calls(json)) return "";
  if (missing) {
    problem(name + ".content is missing; valid: a string");
    return "";
  }
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array()) return text_of_parts(*found, name + ".content", problem);
  problem(name + ".content is " + shown_json(*found) +
          "; valid: a string, or a list of text parts (text only)");
  return "";
}

}  // namespace

std::string shown_json(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kShownValue) return text;
  size_t end = kShownValue;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // keep UTF-8 whole
  return text.substr(0, end) + "...";
}

Message read_message(const Json& json, const std::string& name, const Problem& problem) {
  Message message;
  if (!json.is_object()) {
    problem(name + " is " + shown_json(json) + R"(; valid: {"role": ..., "content": ...})");
    return message;
  }
  const auto role = json.find("role");
  if (role == json.end() || role->is_null()) {
    problem(name + ".role is missing; valid: a string");
  } else if (!role->is_string()) {
    problem(name + ".role is " + shown_json(*role) + "; valid: a string (text only)");
  } else {
    message.role = role->get<std::string>();
  }
  message.content = read_content(json, name, problem);
  const auto content = json.find("content");
  const bool plain = json.size() == 2 && content != json.end() && content->is_string();
  if (!plain) message.json = json.dump();
  return message;
}

std::string read_tools(const Json& json, const Problem& problem) {
  if (json.is_null()) return "";
  const Json tools = json.is_string() ? parse_json_or_discard(json.get<std::string>()) : json;
  bool valid = tools.is_array();
  for (size_t i = 0; valid && i < tools.size(); ++i) valid = tools[i].is_object();
  if (!valid) {
    problem("tools is " + shown_json(json) + "; valid: a list of JSON schemas, or that as text");
    return "";
  }
  return tools.dump();
}

}  // namespace verlcpp::data
