#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "data/chat_template.h"
#include "setup.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/inputs.h"
#include "train/tool_config.h"

using namespace verlcpp;
using test::TemporaryFolder;

namespace {

const std::string kTool = R"(tools:
  - class_name: my.Tool
    config: {type: native}
    tool_schema:
      type: function
      function:
        name: add
        description: Adds.
        parameters:
          type: object
          properties:
            a:
              type: integer
          required: [a]
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// What is said of a file, without the key and the file's name.
std::string refusal(const std::string& yaml) {
  const TemporaryFolder folder;
  const std::string file = folder.write("tools.yaml", yaml), begin = "KEY: " + file;
  try {
    train::read_tool_config(file, "KEY");
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    REQUIRE(text.starts_with(begin));
    return text.substr(begin.size());
  }
  return "accepted";
}

}  // namespace

TEST_CASE("tools are shown as verl dumps its schemas") {
  const TemporaryFolder folder;
  const std::string file = folder.write("tools.yaml", R"(tools:
  - class_name: "verl.tools.gsm8k_tool.Gsm8kTool"
    config:
      type: native
    tool_schema:
      more: dropped
      type: "function"
      function:
        description: "Rewards. é"
        name: "calc_gsm8k_reward"
        extra: dropped
        parameters:
          additionalProperties: false
          required: ["answer"]
          note: null
          type: "object"
          properties:
            answer:
              minimum: 1.5
              description: "The answer"
              default: null
              type: [integer, "number"]
              items: {type: string, default: null, z: [null, {a: null}]}
              enum: [1, null, "x", true]
            a.b: {type: string, description: null, enum: null}
        strict: true
  - class_name: my.Tool
    config: {type: native}
    tool_schema: {type: function, function: {name: "${tools.0.class_name}", description: ""}}
)");
  // Written by verl's pydantic classes from the same file.
  CHECK(
      train::read_tool_config(file, "KEY") ==
      R"([{"type":"function","function":{"name":"calc_gsm8k_reward","description":"Rewards. é",)"
      R"("parameters":{"type":"object","properties":{"answer":{"type":["integer","number"],)"
      R"("description":"The answer","enum":[1,null,"x",true],"minimum":1.5,)"
      R"("items":{"type":"string","default":null,"z":[null,{"a":null}]}},"a.b":{"type":"string"}},)"
      R"("required":["answer"],"additionalProperties":false},"strict":true}},)"
      R"({"type":"function","function":{"name":"verl.tools.gsm8k_tool.Gsm8kTool",)"
      R"("description":""}}])");
  CHECK(train::read_tool_config(folder.write("none.yaml", "tools: []\n"), "KEY").empty());
}

TEST_CASE("a tools file of another shape is refused with its line") {
  CHECK(refusal(kTool) == "accepted");
  const std::string list = "; valid: a list of {class_name, config, tool_schema}";
  CHECK(refusal("") == ":1: tools is missing" + list);
  CHECK(refusal("a: 1\ntools: {b: 2}\n") == ":2: tools is {b: 2}" + list);
  CHECK(refusal("- 1\n") == ": no group of keys; valid: one with tools");
  CHECK(refusal("tools: [\n").find("not YAML") != std::string::npos);
  CHECK(refusal("tools:\n  - 3\n") == ":2: tools[0] is no group of keys; valid: a group of keys");
  CHECK(refusal(replaced(kTool, "class_name: my.Tool", "name: x")) ==
        ":2: tools[0].class_name is missing; valid: a string");
  CHECK(refusal(replaced(kTool, "native", "mcp")) ==
        ":3: tools[0].config.type is 'mcp'; valid: native (verl's tools of other servers are not "
        "read)");
  CHECK(refusal(replaced(kTool, "    tool_schema:", "    schema:")) ==
        ":2: tools[0].tool_schema is missing; valid: a group of keys");
  const std::string function = "tools[0].tool_schema.function.";
  CHECK(refusal(replaced(kTool, "name: add", "name: 7")) ==
        ":7: " + function + "name is 7; valid: a string");
  CHECK(refusal(replaced(kTool, "description: Adds.", "description: null")) ==
        ":6: " + function + "description is missing; valid: a string");
  CHECK(refusal(replaced(kTool, "type: object", "type: 3")) ==
        ":10: " + function + "parameters.type is 3; valid: a string");
  CHECK(refusal(replaced(kTool, "type: integer", "type: [1]")) ==
        ":13: " + function +
            "parameters.properties.a.type is [1]; valid: a string, or a list of strings");
  CHECK(refusal(replaced(kTool, "required: [a]", "required: a")) ==
        ":14: " + function + "parameters.required is 'a'; valid: a list of strings");
  CHECK_THROWS_WITH(train::read_tool_config("/nowhere/x", "KEY"),
                    Catch::Matchers::ContainsSubstring("KEY: /nowhere/x: "));
}

TEST_CASE("every row's prompt sees the tools, but a row's own come first") {
  const TemporaryFolder folder;
  const std::string row =
      R"({"data_source":"verlcpp/cycle","prompt":[{"role":"user","content":"a"}],)"
      R"("reward_model":{"ground_truth":"a 2 8"})";
  const std::string rows =
      folder.write("rows.jsonl", row + "}\n" + row + R"(,"tools":[{"function":{"name":"b"}}]})" +
                                     "\n" + row + R"(,"tools":null})" + "\n");
  const std::string tools = folder.write("tools.yaml", replaced(kTool, "name: add", "name: abc"));
  const std::string model = folder.path() + "/model";
  std::filesystem::copy(VERLCPP_SOURCE "/scripts/quickstart/model", model);
  folder.write("model/chat_template.jinja",
               "{{ tools[0].function.name }}:{{ messages[0].content }}");
  // Where verl's scripts set it: data.tool_config_path follows.
  const test::Configured c = test::configured(
      test::valid_run(), {"data.train_files='" + rows + "'", "data.train_batch_size=3",
                          "actor_rollout_ref.model.path='" + model + "'",
                          "actor_rollout_ref.rollout.multi_turn.tool_config_path='" + tools + "'"});
  const train::Inputs inputs = train::load_inputs(c.config, c.tree);
  std::vector<std::string> texts;
  for (const auto& ids : inputs.prompt_ids) texts.push_back(inputs.tokenizer->decode(ids));
  CHECK(texts == std::vector<std::string>{"abc:a", "b:a", "abc:a"});
}
