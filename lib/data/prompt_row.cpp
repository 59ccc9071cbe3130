#include "data/prompt_row.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "data/json_text.h"
#include "data/message_reader.h"

namespace verlcpp::data {
namespace {

using Json = nlohmann::ordered_json;

/// Which of these a conversation may have, its chat template says.
constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};
constexpr const char* kAgent = "single_turn_agent";
constexpr const char* kMessage = R"({"role": ..., "content": ...})";

/// A conversation that was printed as JSON.
bool is_conversation_text(const Json& prompt) {
  if (!prompt.is_string() || !prompt.get_ref<const std::string&>().starts_with('[')) return false;
  const Json messages = parse_json_or_discard(prompt.get_ref<const std::string&>());
  return messages.is_array() && !messages.empty() && messages[0].is_object() &&
         messages[0].contains("role");
}

class RowParser {
 public:
  RowParser(const RowColumns& columns, RowReport& report) : columns_(columns), report_(report) {}

  ParsedRow parse(const Json& json) {
    if (!json.is_object()) {
      report_.add("row", "the row is " + shown_json(json) + "; valid: a JSON object");
      return std::move(out_);
    }
    out_.has_prompt = read_prompt(json);
    out_.has_prompt = read_tools(json) && out_.has_prompt;
    out_.has_prompt = is_plain(json) && out_.has_prompt;
    out_.has_data_source = read_data_source(json);
    out_.has_ground_truth = read_ground_truth(json);
    const auto extra = json.find("extra_info");
    if (extra != json.end() && !extra->is_null()) out_.row.extra_json = extra->dump();
    return std::move(out_);
  }

 private:
  /// A field that is there and not null. `kind`: its name without indexes.
  const Json* field(const Json& json, const std::string& key, const std::string& prefix,
                    const std::string& kind, const std::string& valid) {
    const auto found = json.find(key);
    if (found != json.end() && !found->is_null()) return &*found;
    report_.add(kind + " missing", prefix + key + " is missing; valid: " + valid);
    return nullptr;
  }
  bool wrong(const std::string& kind, const std::string& name, const Json& value,
             const std::string& valid) {
    report_.add(kind + " wrong", name + " is " + shown_json(value) + "; valid: " + valid);
    return false;
  }

  bool read_prompt(const Json& json) {
    const std::string& key = columns_.prompt_key;
    const std::string valid = std::string("a string, or a list of ") + kMessage;
    const Json* prompt = field(json, key, "", key, valid);
    if (prompt == nullptr) return false;
    if (is_conversation_text(*prompt)) {
      return wrong(key, key, *prompt, valid + " (this is a list of them as text)");
    }
    if (prompt->is_string() && !prompt->get_ref<const std::string&>().empty()) {
      out_.row.prompt.push_back({"user", prompt->get<std::string>()});
      return true;
    }
    if (!prompt->is_array() || prompt->empty()) {
      return wrong(key, key, *prompt, valid + ", not empty");
    }
    bool good = true;
    for (size_t i = 0; i < prompt->size(); ++i) {
      good = read_message((*prompt)[i], key + "[" + std::to_string(i) + "]") && good;
    }
    return good;
  }

  /// Without columns that say what a language model answering once does not see or do.
  bool is_plain(const Json& json) {
    bool plain = true;
    for (const char* name : {"images", "videos"}) {
      const auto found = json.find(name);
      if (found == json.end() || found->is_null() || found->empty()) continue;
      plain = wrong(name, name, Json(found->size()), "none: language models see text alone");
    }
    const auto agent = json.find("agent_name");
    if (agent != json.end() && !agent->is_null() && *agent != kAgent) {
      plain = wrong("agent_name", "agent_name", *agent, kAgent);
    }
    return plain;
  }

  /// What `problem` of message_reader.h hears becomes a kind of mistake: the field without indexes.
  bool add(const std::string& text) {
    std::string kind;
    bool index = false;
    for (const char c : text.substr(0, text.find(" is "))) {
      if (c == ']') index = false;
      if (!index) kind += c;
      if (c == '[') index = true;
    }
    report_.add(kind + (text.find(" is missing; ") != std::string::npos ? " missing" : " wrong"),
                text);
    return false;
  }

  bool read_message(const Json& json, const std::string& name) {
    bool good = true;
    Message message =
        data::read_message(json, name, [&](const std::string& text) { good = add(text); });
    if (good) good = check_role(message.role, name);
    out_.row.prompt.push_back(std::move(message));
    return good;
  }

  bool read_tools(const Json& json) {
    const auto tools = json.find("tools");
    if (tools == json.end()) return true;
    bool good = true;
    out_.row.tools_json =
        data::read_tools(*tools, [&](const std::string& text) { good = add(text); });
    return good;
  }

  bool check_role(const std::string& role, const std::string& name) {
    if (std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end()) return true;
    std::string valid;
    for (const std::string_view one : kRoles)
      valid += (valid.empty() ? "" : ", ") + std::string(one);
    report_.add("role", name + ".role is " + shown_json(Json(role)) + "; valid: " + valid,
                columns_.unknown_role);
    return false;
  }

  bool read_data_source(const Json& json) {
    const std::string& key = columns_.reward_fn_key;
    const std::string valid = "a string that names the reward function";
    const Json* source = field(json, key, "", key, valid);
    if (source == nullptr) return false;
    if (!source->is_string()) return wrong(key, key, *source, valid);
    out_.row.data_source = source->get<std::string>();
    return true;
  }

  bool read_ground_truth(const Json& json) {
    const std::string parent = "reward_model", valid = R"({"ground_truth": ...})";
    const Json* reward_model = field(json, parent, "", parent, valid);
    if (reward_model == nullptr) return false;
    if (!reward_model->is_object()) return wrong(parent, parent, *reward_model, valid);
    const std::string name = parent + ".ground_truth";
    const std::string valid_truth = "a string, a number, a list or an object";
    const Json* truth = field(*reward_model, "ground_truth", parent + ".", name, valid_truth);
    if (truth == nullptr) return false;
    if (truth->is_boolean()) return wrong(name, name, *truth, valid_truth);
    out_.row.ground_truth = truth->is_string() ? truth->get<std::string>() : truth->dump();
    out_.row.ground_truth_json = truth->dump();
    return true;
  }

  const RowColumns& columns_;
  RowReport& report_;
  ParsedRow out_;
};

}  // namespace

ParsedRow parse_prompt_row(const Json& json, const RowColumns& columns, RowReport& report) {
  return RowParser(columns, report).parse(json);
}

}  // namespace verlcpp::data
