#include "data/chat_template.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "data/special_token_texts.h"
#include "data/text_file.h"
#include "jinja/template.h"

namespace verlcpp::data {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Sources = std::map<std::string, std::pair<std::string, std::string>>;  // name: (Jinja, where)

constexpr const char* kDefault = "default";
constexpr const char* kToolUse = "tool_use";

/// chat_template.jinja, and its named siblings.
Sources files_of(const std::string& folder) {
  Sources sources;
  const std::string single = folder + "/chat_template.jinja";
  if (fs::exists(single)) sources[kDefault] = {read_text_file(single), single};
  std::error_code failed;
  for (fs::directory_iterator it(folder + "/additional_chat_templates", failed), end;
       !failed && it != end; it.increment(failed)) {
    if (it->path().extension() != ".jinja") continue;
    sources[it->path().stem().string()] = {read_text_file(it->path().string()),
                                           it->path().string()};
  }
  return sources;
}

/// tokenizer_config.json holds one template, or a list of named ones.
Sources templates_of_config(const Json& config, const std::string& path) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  if (found->is_string()) return {{kDefault, {found->get<std::string>(), path}}};
  Sources sources;
  const std::string valid =
      R"(; valid: a string, or a list of {"name": "default", "template": "..."})";
  if (!found->is_array()) throw DataError(path + ": chat_template is " + found->dump() + valid);
  for (const Json& entry : *found) {
    const Json name = entry.is_object() ? entry.value("name", Json()) : Json();
    const Json text = entry.is_object() ? entry.value("template", Json()) : Json();
    if (!name.is_string() || !text.is_string()) {
      throw DataError(path + ": chat_template has the entry " + entry.dump() + valid);
    }
    const std::string called = name.get<std::string>();
    sources[called] = {text.get<std::string>(), path + " (" + called + ")"};
  }
  return sources;
}

/// Those that can be used; a folder may have more.
void compile(const Sources& sources, const std::string& folder, ChatTemplate& out) {
  for (const auto& [name, source] : sources) {
    if (name != kDefault && name != kToolUse) continue;
    if (source.first.empty() && sources.size() == 1) return;
    out.templates[name] = std::make_shared<const jinja::Template>(source.first, source.second);
    out.where = source.second;
  }
  if (!sources.empty() && !out.templates.contains(kDefault)) {
    throw DataError(folder +
                    ": chat templates have names, and none is \"default\"; valid: one called "
                    "\"default\", or actor_rollout_ref.model.custom_chat_template");
  }
}

/// The message as the template sees it.
Json to_json(const Message& message) {
  if (message.json.empty()) return {{"role", message.role}, {"content", message.content}};
  Json json = Json::object();
  const Json whole = Json::parse(message.json);
  for (const auto& [key, value] : whole.items()) {
    if (!value.is_null()) json[key] = value;
  }
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (!json.contains(name)) continue;
    const Json reasoning = json[name];
    Json aliased = {{"thinking", reasoning}};
    aliased.update(json);
    aliased["reasoning_content"] = reasoning;
    return aliased;
  }
  return json;
}

}  // namespace

ChatTemplate parse_chat_template(const std::string& jinja, const std::string& where) {
  ChatTemplate out;
  out.where = where;
  out.variables = std::make_shared<const Json>(Json::object());
  compile({{kDefault, {jinja, where}}}, where, out);
  return out;
}

ChatTemplate load_chat_template(const std::string& folder, const ChatTemplateOptions& options) {
  ChatTemplate out;
  const std::string path = folder + "/tokenizer_config.json";
  const Json config = fs::exists(path) ? read_json_object(path) : Json::object();
  Sources sources;
  if (options.custom) {
    sources[kDefault] = {*options.custom, options.custom_where};
  } else {
    sources = files_of(folder);
    if (sources.empty()) sources = templates_of_config(config, path);
  }
  compile(sources, folder, out);
  Json variables = Json::object();
  for (const auto& [name, text] : read_special_token_texts(folder)) variables[name] = text;
  variables.update(Json::parse(options.kwargs_json));
  out.variables = std::make_shared<const Json>(std::move(variables));
  return out;
}

std::string render_chat(const ChatTemplate& chat_template, std::span<const Message> messages,
                        bool add_generation_prompt, const std::string& row_tools_json) {
  if (chat_template.templates.empty()) {
    std::string out;
    for (const Message& message : messages) out += message.content;
    return out;
  }
  const std::string& tools_json =
      row_tools_json.empty() ? chat_template.tools_json : row_tools_json;
  Json variables = Json::object();
  variables["messages"] = Json::array();
  for (const Message& message : messages) variables["messages"].push_back(to_json(message));
  variables["tools"] = tools_json.empty() ? Json() : Json::parse(tools_json);
  variables["documents"] = Json();
  variables["add_generation_prompt"] = add_generation_prompt;
  variables.update(*chat_template.variables);
  const bool for_tools = !tools_json.empty() && chat_template.templates.contains(kToolUse);
  return chat_template.templates.at(for_tools ? kToolUse : kDefault)->render(variables);
}

bool is_reserved_chat_variable(const std::string& name) {
  static const std::vector<std::string> kNames = {"messages",
                                                  "conversation",
                                                  "tools",
                                                  "chat_template",
                                                  "add_generation_prompt",
                                                  "continue_final_message",
                                                  "tokenize",
                                                  "tokenizer_kwargs",
                                                  "return_assistant_tokens_mask",
                                                  "padding",
                                                  "truncation",
                                                  "max_length",
                                                  "return_tensors",
                                                  "return_dict",
                                                  "sanitize_control_tokens"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace verlcpp::data
