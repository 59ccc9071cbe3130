// Renders chats for scripts/parity/chat_templates_check.py: a JSON object a line in, with template,
// messages and optionally tools, add_generation_prompt and variables; {"text": ...} or
// {"error": ...} a line out.

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/chat_template.h"

using namespace verlcpp;
using Json = nlohmann::ordered_json;

namespace {

std::string render(const Json& chat) {
  data::ChatTemplate parsed = data::parse_chat_template(chat["template"], "template");
  parsed.variables = std::make_shared<const Json>(chat.value("variables", Json::object()));
  std::vector<data::Message> messages;
  for (const Json& message : chat["messages"]) {
    messages.push_back({.role = "", .content = "", .json = message.dump()});
  }
  const Json tools = chat.value("tools", Json());
  return data::render_chat(parsed, messages, chat.value("add_generation_prompt", false),
                           tools.is_null() ? "" : tools.dump());
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    Json out;
    try {
      out["text"] = render(Json::parse(line));
    } catch (const DataError& error) {
      out["error"] = error.what();
    }
    std::cout << out.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  }
}
