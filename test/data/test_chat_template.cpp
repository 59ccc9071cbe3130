// From a model's folder and a row to the text of a prompt.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/chat_template.h"
#include "data/message_reader.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::data;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() {
    fs::remove_all(path_);
    fs::create_directories(path_ / "additional_chat_templates");
  }
  ~Folder() { fs::remove_all(path_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_ = fs::temp_directory_path() / "verlcpp_test_chat_template";
};

const std::vector<Message> kUser = {{"user", "hi"}};

std::string refusal(const Folder& folder) {
  try {
    load_chat_template(folder.path());
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

Message message_of(const std::string& json) {
  return read_message(nlohmann::ordered_json::parse(json), "m",
                      [](const std::string& problem) { FAIL(problem); });
}

}  // namespace

TEST_CASE("no template: the contents end to end") {
  const Folder folder;
  const std::vector<Message> two = {{"user", "1+1="}, {"assistant", "2"}};
  CHECK(render_chat(load_chat_template(folder.path()), two, true) == "1+1=2");
  folder.write("tokenizer_config.json", R"({"chat_template": null})");
  CHECK(render_chat(load_chat_template(folder.path()), two, true) == "1+1=2");
}

TEST_CASE("where the template comes from") {
  const Folder folder;
  const auto rendered = [&](const std::string& tools = "") {
    return render_chat(load_chat_template(folder.path()), kUser, true, tools);
  };
  folder.write("tokenizer_config.json", R"({"chat_template": "config"})");
  CHECK(rendered() == "config");
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "default", "template": "plain"},
                   {"name": "tool_use", "template": "{{ tools|length }} tools"},
                   {"name": "rag", "template": "{% broken"}]})");
  CHECK(rendered() == "plain");
  CHECK(rendered("[{}, {}]") == "2 tools");
  folder.write("chat_template.jinja", "file");
  CHECK(rendered() == "file");
  CHECK(rendered("[{}]") == "file");
  folder.write("additional_chat_templates/tool_use.jinja", "with tools");
  CHECK(rendered() == "file");
  CHECK(rendered("[{}]") == "with tools");
  const ChatTemplate custom = load_chat_template(folder.path(), {.custom = "custom"});
  CHECK(render_chat(custom, kUser, true, "[{}]") == "custom");
}

TEST_CASE("templates that cannot be used are named") {
  const Folder folder;
  const std::string config = folder.path() + "/tokenizer_config.json";
  folder.write("tokenizer_config.json", "[]");
  CHECK(refusal(folder) == config + ": not a JSON object");
  folder.write("tokenizer_config.json", R"({"chat_template": 3})");
  CHECK(refusal(folder) == config +
                               ": chat_template is 3; valid: a string, or a list of "
                               R"({"name": "default", "template": "..."})");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "x", "template": "y"}]})");
  CHECK(refusal(folder) ==
        folder.path() +
            ": chat templates have names, and none is \"default\"; valid: one "
            "called \"default\", or actor_rollout_ref.model.custom_chat_template");
  folder.write("tokenizer_config.json", R"({"chat_template": "a\n{% if %}"})");
  CHECK(refusal(folder) == config + ", line 2: expected an expression, found '%}'");
}

TEST_CASE("special tokens, and variables over them") {
  const Folder folder;
  folder.write("chat_template.jinja",
               "{{ bos_token }}{{ eos_token }}{{ pad_token }}{{ unk_token }}{{ enable_thinking }}");
  folder.write("tokenizer_config.json",
               R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false},
                   "pad_token": null})");
  folder.write("special_tokens_map.json", R"({"bos_token": "no", "unk_token": "<unk>"})");
  CHECK(render_chat(load_chat_template(folder.path()), kUser, true) == "<s></s><unk>");
  const ChatTemplate kwargs = load_chat_template(
      folder.path(), {.kwargs_json = R"({"enable_thinking": false, "eos_token": "!"})"});
  CHECK(render_chat(kwargs, kUser, true) == "<s>!<unk>False");
}

TEST_CASE("what a template sees of the call and of messages") {
  const auto rendered = [](const std::string& jinja, const std::vector<Message>& messages) {
    return render_chat(parse_chat_template(jinja, "t"), messages, false);
  };
  CHECK(rendered("{{ messages }}{{ tools }}{{ documents }}{{ add_generation_prompt }}", kUser) ==
        "[{'role': 'user', 'content': 'hi'}]NoneNoneFalse");
  // Nulls are missing; reasoning has all of its names; the row's order stays.
  const Message call = message_of(
      R"({"role": "assistant", "content": null, "reasoning": "r", "tool_calls":
          [{"name": "f", "arguments": {"z": 1, "a": 2}}], "name": null})");
  CHECK(rendered("{{ messages[0].content is defined }} {{ messages[0].name is defined }} "
                 "{{ messages[0].reasoning_content }} {{ messages[0].thinking }} "
                 "{{ messages[0].tool_calls[0].arguments|tojson }}",
                 {call}) == R"(False False r r {"z": 1, "a": 2})");
  const Message parts = message_of(
      R"({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})");
  CHECK(parts.content == "ab");
  CHECK(rendered("{{ messages[0].content[1].text }}", {parts}) == "b");
  CHECK_THROWS_WITH(rendered("\n{{ raise_exception('no') }}", kUser), "t, line 2: no");
}

TEST_CASE("messages and tools that are not such are refused") {
  const auto problem = [](const std::string& json) {
    std::string text;
    read_message(nlohmann::ordered_json::parse(json), "m", [&](const std::string& p) { text = p; });
    return text;
  };
  CHECK(problem(R"({"role": "user", "content": "a", "name": 3})").empty());
  CHECK(problem(R"({"role": "user"})") == "m.content is missing; valid: a string");
  CHECK(problem(R"({"role": "user", "content": null})") == "m.content is missing; valid: a string");
  CHECK(problem(R"({"role": "user", "content": [{"type": "image"}]})") ==
        R"(m.content[0] is {"type":"image"}; valid: {"type": "text", "text": "..."} (text only))");
  CHECK(problem(R"({"role": "assistant", "tool_calls": [{}]})").empty());
  const auto tools = [](const std::string& json) {
    std::string text;
    const std::string read =
        read_tools(nlohmann::ordered_json::parse(json), [&](const std::string& p) { text = p; });
    return text.empty() ? read : text;
  };
  CHECK(tools(R"([{"b": 1, "a": 2}])") == R"([{"b":1,"a":2}])");
  CHECK(tools(R"("[{\"b\": 1}]")") == R"([{"b":1}])");
  CHECK(tools("null").empty());
  CHECK(tools("[7]") == "tools is [7]; valid: a list of JSON schemas, or that as text");
}

TEST_CASE("names that are not the user's to set") {
  CHECK(is_reserved_chat_variable("messages"));
  CHECK(is_reserved_chat_variable("tokenize"));
  CHECK_FALSE(is_reserved_chat_variable("enable_thinking"));
}
