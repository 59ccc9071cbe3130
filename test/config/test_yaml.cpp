#include "config/yaml.h"
#include "helpers.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::config;

namespace {

struct WordCase {
  const char* word;
  const char* type;
  const char* shown;  // to_inline
};

}  // namespace

TEST_CASE("yaml: plain words become what OmegaConf's loader makes of them") {
  const WordCase kCases[] = {
      {"1e-6", "float", "1e-06"},
      {"1E5", "float", "100000.0"},
      {"1.", "float", "1.0"},
      {".5", "float", "0.5"},
      {"-1.5e+3", "float", "-1500.0"},
      {"1_000.5", "float", "1000.5"},
      {".inf", "float", "inf"},
      {"-.INF", "float", "-inf"},
      {".nan", "float", "nan"},
      {"inf", "string", "'inf'"},
      {"1e", "string", "'1e'"},
      {"100_000", "integer", "100000"},
      {"-7", "integer", "-7"},
      {"+7", "integer", "7"},
      {"0", "integer", "0"},
      {"0x1f", "integer", "31"},
      {"0b101", "integer", "5"},
      {"017", "integer", "15"},
      {"09", "string", "'09'"},
      {"99999999999999999999", "string", "'99999999999999999999'"},
      {"1:30", "integer", "90"},
      {"-1:30:15", "integer", "-5415"},
      {"1:30.5", "float", "90.5"},
      {"1:60", "string", "'1:60'"},
      {"-.5", "string", "'-.5'"},
      {".5e3", "string", "'.5e3'"},
      {".5e+3", "float", "500.0"},
      {"0_7", "integer", "7"},
      {"0o17", "string", "'0o17'"},
      {"-0x1f", "integer", "-31"},
      {"2024-01-02", "string", "'2024-01-02'"},
      {"true", "bool", "True"},
      {"False", "bool", "False"},
      {"YES", "bool", "True"},
      {"off", "bool", "False"},
      {"On", "bool", "True"},
      {"tRue", "string", "'tRue'"},
      {"n", "string", "'n'"},
      {"y", "string", "'y'"},
      {"null", "null", "null"},
      {"~", "null", "null"},
      {"NULL", "null", "null"},
      {"nULL", "string", "'nULL'"},
      {"", "null", "null"},
      {"'1'", "string", "'1'"},
      {"\"true\"", "string", "'true'"},
      {"''", "string", "''"},
      {"!!str 12", "string", "'12'"},
      {"!!int '0x1f'", "integer", "31"},
      {"!!int ' 5 '", "integer", "5"},
      {"!!float 5", "float", "5.0"},
      {"!!float -Inf", "float", "-inf"},
      {"!!bool yes", "bool", "True"},
      {"!!null x", "null", "null"},
      {"!", "null", "null"},
      {"|", "string", "''"},
      {">-\n\n", "string", "''"},
      {"~/models", "string", "'~/models'"},
      {"???", "string", "'?\?\?'"},
      {"${a.b}", "interpolation", "${a.b}"},
      {"'${a.b}'", "interpolation", "${a.b}"},
      {"x/${a}", "interpolation", "'x/${a}'"},
      {"'\\${a}'", "string", "'\\${a}'"},
  };
  for (const WordCase& item : kCases) {
    INFO("word " << item.word);
    const Node tree = parse_yaml(std::string("k: ") + item.word + "\n", "f.yaml");
    CHECK(tree.find("k")->type_name() == item.type);
    CHECK(to_inline(*tree.find("k")) == item.shown);
    CHECK(same_values(parse_yaml(to_yaml(tree), "again.yaml"), tree));
  }
  const Node escaped = parse_yaml("k: '\\${a}'", "f.yaml");
  CHECK(*escaped.find("k")->get_if<std::string>() == "${a}");
}

TEST_CASE("yaml: every value knows its line") {
  const Node tree = parse_yaml("a: 1\nb:\n  c: [1,\n    2]\n  d: |\n    text\n", "conf/f.yaml");
  CHECK(tree.find("a")->origin().text == "conf/f.yaml:1");
  CHECK(tree.find("b")->origin().text == "conf/f.yaml:2");
  CHECK(tree.find("b.c")->origin().text == "conf/f.yaml:3");
  CHECK(tree.find("b.c.1")->origin().text == "conf/f.yaml:4");
  CHECK(tree.find("b.d")->origin().text == "conf/f.yaml:5");
  CHECK(*tree.find("b.d")->get_if<std::string>() == "text\n");
}

TEST_CASE("yaml: errors name file, line and column") {
  const auto error = [](const std::string& text) {
    return config_error([&] { parse_yaml(text, "f.yaml"); });
  };
  CHECK(error("a: 1\nb: 2\na: 3\n") == "f.yaml:3:1: the key a comes twice in one map");
  CHECK(error("x:\n  <<: 1\n") == "f.yaml:2:7: << takes a map, or a list of maps");
  CHECK(contains(error("a: <<\n"), "f.yaml:1:4: a lone << is no value in YAML 1.1"));
  CHECK(contains(error("a: =\n"), "f.yaml:1:4: a lone = is no value in YAML 1.1"));
  CHECK(error("a: [1, , 2]\n") == "f.yaml:1:8: a value is missing before this comma");
  CHECK(error("null: 1\n") == "f.yaml:1:1: a key cannot be null");
  CHECK(error("a: 1\nb\n") == "f.yaml:2:1: not YAML: a colon is missing after this key");
  CHECK(error("a: 'x\n") == "f.yaml:1:4: not YAML: this quote is never closed");
  CHECK(error("a: 'it''s''\n") == "f.yaml:1:4: not YAML: this quote is never closed");
  CHECK(error("a: 'it''s'\nb: ''\nc: ''''\nd: \"\\\"\"\n") == "(no ConfigError)");
  // The library makes documents out of this until the memory is full.
  CHECK(error(",") == "f.yaml:1:1: not YAML: text that belongs to nothing before it");
  CHECK(error("a: !mine 1\n") ==
        "f.yaml:1:4: the tag !mine is not supported; write the value without a tag");
  CHECK(contains(error("a: !!set {b, c}\n"), "f.yaml:1:4: the tag tag:yaml.org,2002:set is not"));
  CHECK(contains(error("a: !!int 1.5\n"), "f.yaml:1:4: the tag tag:yaml.org,2002:int is not"));
  CHECK(contains(error("a: !!int ' '\n"), "f.yaml:1:4: the tag tag:yaml.org,2002:int is not"));
  CHECK(contains(error("a: !\"x\"\n"), "f.yaml:1:4: the tag ! is not supported"));
  CHECK(
      contains(error("a: &x {b: *x}\n"), "this alias stands inside the value that it stands for"));
  CHECK(
      contains(error("a: &x {<<: *x}\n"), "this alias stands inside the value that it stands for"));
  CHECK(contains(error("&x [*x]\n"), "this alias stands inside the value that it stands for"));
  CHECK(error("a: &a [1, 1, 1, 1, 1, 1, 1, 1]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n"
              "c: &c [*b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c]\n"
              "e: &e [*d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e]\n"
              "g: [*f, *f, *f, *f, *f, *f, *f, *f]\n") ==
        "f.yaml:1:23: a file holds at most 1000000 values, where each use of an alias counts anew");
  CHECK(error("a: !|\n  b\n") == "f.yaml:1:4: not YAML: a space is missing behind the !");
  CHECK(contains(error("a: [!]\n"), "f.yaml:1:5: a ! with nothing behind it"));
  CHECK(contains(error("a: {!}\n"), "f.yaml:1:5: YAML takes the ! in front of this key"));
  CHECK(contains(error("a: {!'b': 1}\n"), "f.yaml:1:5: the tag !'b': is not supported"));
  CHECK(contains(error("a: {! : 1}\n"), "f.yaml:1:5: a key cannot be null"));
  CHECK(contains(error("!mine a: 1\n"), "f.yaml:1:1: the tag !mine is not supported"));
  CHECK(contains(error("a:\nb #c\nd: 1\n"), "f.yaml:2:1: not YAML: this must be indented"));
  CHECK(contains(error("a:\n{}\nd: 1\n"), "f.yaml:2:1: not YAML: this must be indented"));
  CHECK(contains(error("a:\n  b:\n  [1]\n"), "f.yaml:3:3: not YAML: this must be indented"));
  CHECK(error("a: {\n}\nb:\n  [1\n]\n? c\n: {}\n") == "(no ConfigError)");
  CHECK(contains(error("a: 1\n%b: 2\n"), "f.yaml:2:1: not YAML: a line cannot begin with %"));
  CHECK(error("a: &x 1\nb: &x 2\n") == "f.yaml:2:4: not YAML: a second anchor &x");
  CHECK(error("a: &x: 1\n") == "f.yaml:1:4: not YAML: no name of an anchor: &x:");
  CHECK(contains(error("a: [? b]\nc\n"), "f.yaml:2:1: not YAML: a colon is missing after this"));
  CHECK(contains(error("a: [:b]\n"), "f.yaml:1:5: not YAML: a key is missing in front of this"));
  CHECK(contains(error("a: {b: :c}\n"), "f.yaml:1:8: not YAML: a key is missing in front of"));
  CHECK(error("%YAML 1.1\n---\na: :b\nc:\n- d\ne:\n  f\n? g\n: h\n") == "(no ConfigError)");
  CHECK(error("? [1]\n: 2\n") == "f.yaml:1:3: a key must be a plain word");
  CHECK(contains(error("a: [1, 2\n"), "f.yaml:2:1: "));
  CHECK(contains(error("a: 1\n---\nb: 2\n"), "f.yaml:2:1: one file holds one document"));
}

TEST_CASE("yaml: anchors, merge keys, and keys that are no strings") {
  const Node tree = parse_yaml(
      "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: {<<: [*a, *b], x: 5}\nd:\n  <<: *a\n  y: 6\n"
      "e: {0x10: a, on: b, 1e3: c, '0x10': d, +1_00000000000000000000: e}\n",
      "f.yaml");
  CHECK(to_inline(*tree.find("c")) == "{y: 2, z: 4, x: 5}");
  CHECK(to_inline(*tree.find("d")) == "{x: 1, y: 6}");
  CHECK(to_inline(*tree.find("e")) ==
        "{16: a, True: b, 1000.0: c, 0x10: d, 100000000000000000000: e}");
  CHECK(same_values(parse_yaml(to_yaml(tree), "f.yaml"), tree));
}

TEST_CASE("yaml: a lone mark says nothing about a plain word") {
  CHECK(to_inline(parse_yaml("a: [! 3, ! '3', ! x, ! 1.5]\nb: ! |\n  4\n", "f.yaml")) ==
        "{a: [3, '3', x, 1.5], b: '4\n'}");
}

TEST_CASE("yaml: an empty text is an empty map; printing reads back to itself") {
  CHECK(to_inline(parse_yaml("", "f.yaml")) == "{}");
  CHECK(to_inline(parse_yaml("# only a comment\n", "f.yaml")) == "{}");
  const std::string text =
      "empty: {}\nnone: []\nlist:\n  - 1\n  - - a\n    - 'true'\n  - k: 1e-6\n    l: {}\n"
      "'on': 'it''s'\n'1': \"tab\\there\"\n'': 'a: b # c'\nlines: \"a\\nb\"\n"
      "quotes: '\"x\"'\nspace: ' a '\nback: 'a\\b'\ndash: '-'\nbig: 1e300\n"
      "deep: {a: {b: {c: ['${x}', '${oc.select:a.b,{}}', '\\${x}', '\\\\${x}']}}}\n"
      "utf8: 'größe'\n";
  const Node tree = parse_yaml(text, "f.yaml");
  CHECK(tree.find("list.1.1")->type_name() == "string");
  INFO(to_yaml(tree));
  CHECK(same_values(parse_yaml(to_yaml(tree), "f.yaml"), tree));
  for (const Node& root : {Node(Scalar()), Node(1.5), Node("x: y"), Node::list({Node("a")})}) {
    CHECK(same_values(*parse_yaml("k:\n  " + to_yaml(root), "f.yaml").find("k"), root));
  }
  CHECK(to_yaml(Node::list({})) == "[]\n");
  CHECK(to_yaml(Node::map({})) == "{}\n");
}
