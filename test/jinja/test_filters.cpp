#include "render.h"
#include "support/catch.h"

using verlcpp::test::failure;
using verlcpp::test::render;

TEST_CASE("tojson is transformers' own") {
  const std::string v = R"({"x": {"b": [1, 2.0, null, true], "a": "<\u00e9\"\n>"}})";
  CHECK(render("{{ x|tojson }}", v) ==
        "{\"b\": [1, 2.0, null, true], \"a\": \"<\xC3\xA9\\\"\\n>\"}");
  CHECK(render("{{ x.b|tojson(indent=2) }}{{ []|tojson(indent=2) }}", v) ==
        "[\n  1,\n  2.0,\n  null,\n  true\n][]");
  CHECK(render("{{ x|tojson(sort_keys=true, ensure_ascii=true, separators=(',', ':')) }}", v) ==
        R"({"a":"<\u00e9\"\n>","b":[1,2.0,null,true]})");
  CHECK(failure("{{ nothing|tojson }}") ==
        "t, line 1: Object of type Undefined is not JSON serializable");
}

TEST_CASE("filters of text") {
  CHECK(render("{{ ' a '|trim }}|{{ 'a b-c'|title }}|{{ 'aB'|capitalize }}|{{ none|upper }}|"
               "{{ 12|string|length }}") == "a|A B-C|Ab|NONE|2");
  CHECK(render("{{ 'a\\n\\nb'|indent(2) }}|{{ 'a\\nb'|indent('> ', true) }}") ==
        "a\n\n  b|> a\n> b");
  CHECK(
      render("{{ 'aa'|replace('a', 'b', 1) }} {{ [1, none]|join('-') }} {{ '%s'|format('x') }}") ==
      "ba 1-None x");
  CHECK(render("{{ '<a>'|e }} {{ '<a>'|safe + '<b>' }}") == "&lt;a&gt; <a>&lt;b&gt;");
}

TEST_CASE("filters of lists") {
  const std::string v = R"({"m": [{"r": "u", "n": 2}, {"r": "a", "n": 1}, {"n": 3}]})";
  CHECK(render("{{ m|map(attribute='n')|list }} {{ m|map(attribute='n')|sum }} "
               "{{ m|selectattr('r')|map(attribute='r')|join }} "
               "{{ m|selectattr('n', 'gt', 1)|list|length }} "
               "{{ (m|rejectattr('r', 'defined')|first).n }}",
               v) == "[2, 1, 3] 6 ua 2 3");
  CHECK(render("{{ [3, 1, 2]|sort }} {{ ['b', 'A']|sort }} {{ [1, 1.0, 2]|unique|list }} "
               "{{ 'abc'|reverse }} {{ [1, 2]|last }} {{ {'b': 1, 'a': 2}|dictsort }}") ==
        "[1, 2, 3] ['A', 'b'] [1, 2] cba 2 [('a', 2), ('b', 1)]");
  CHECK(render("{{ m|sort(attribute='n')|map(attribute='n')|list }} {{ [1, 5]|max }} "
               "{{ [1, 2, 3]|batch(2, 0)|list }} {{ ['a']|map('upper')|list }}",
               v) == "[1, 2, 3] 5 [[1, 2], [3, 0]] ['A']");
}

TEST_CASE("what map and select yield can be gone through once") {
  CHECK(render("{% set x = [1, 2]|map('string') %}{{ x|list }}{{ x|list }}") == "['1', '2'][]");
  CHECK(failure("{{ [1]|select|length }}") == "t, line 1: object of type 'generator' has no len()");
}

TEST_CASE("map and select fail for who gets to the bad item") {
  CHECK(render("{{ not (2.5|select is not sameas true) }}") == "False");
  CHECK(failure("{{ 2.5|select|list }}") == "t, line 1: 'float' object is not iterable");
  CHECK(render("{{ [-1, 'a']|map('abs')|first }}") == "1");
  CHECK(failure("{{ [-1, 'a']|map('abs')|list }}").starts_with("t, line 1: "));
  CHECK(render("{{ 1 in [-1, 'a']|map('abs') }}") == "True");
  CHECK(failure("{{ 2 in [-1, 'a']|map('abs') }}").starts_with("t, line 1: "));
  CHECK(
      failure("{% for x in [-1, 'a']|map('abs') %}{{ x }}{% endfor %}").starts_with("t, line 1: "));
}

TEST_CASE("the last character of escaped text stays escaped") {
  CHECK(render("{{ [('<i>'|e)|last, ('<i>'|e)|first] }}") == "[Markup(';'), '&']");
}

TEST_CASE("numbers") {
  CHECK(render("{{ '42.9'|int }} {{ 'x'|int(7) }} {{ 'ff'|int(0, 16) }} {{ '1.5'|float }} "
               "{{ 2.5|round }} {{ 1.25|round(1) }} {{ 1.21|round(1, 'ceil') }} {{ -3|abs }}") ==
        "42 7 255 1.5 2.0 1.2 1.3 3");
  // Python's ceil and floor give integers.
  CHECK(render("{{ -0.0|round(0, 'ceil') }} {{ -0.3|round(0, 'ceil') }} {{ -0.0|round }}") ==
        "0.0 0.0 -0.0");
  CHECK(failure("{{ ('inf'|float)|round(0, 'floor') }}").find("finite") != std::string::npos);
  CHECK(failure("{{ [nowhere, 1]|min }}") == "t, line 1: 'nowhere' is undefined");
  CHECK(render("{{ [nowhere]|max }}{{ []|max }}") == "");
  CHECK(render("{{ 1e20 is even }} {{ 1e30 is divisibleby(1e25) }}") == "True False");
}

TEST_CASE("tests") {
  CHECK(render("{{ 'a' is string }}{{ {} is mapping }}{{ [] is sequence }}{{ 'a' is iterable }}"
               "{{ true is number }}{{ true is integer }}{{ 4 is even }}{{ 6 is divisibleby 3 }}"
               "{{ 1 is in [1] }}{{ 1 is not eq 2 }}{{ none is none }}{{ false is false }}") ==
        "TrueTrueTrueTrueTrueFalseTrueTrueTrueTrueTrueTrue");
}

TEST_CASE("filters and tests that do not exist, and arguments that do not fit") {
  CHECK_THAT(failure("a\n{{ x|urlize }}"),
             Catch::Matchers::StartsWith("t, line 2: no filter named 'urlize'; valid: abs, attr"));
  CHECK_THAT(failure("{{ x is weird }}"),
             Catch::Matchers::StartsWith("t, line 1: no test named 'weird'; valid: "));
  // As in Jinja, one that is never reached does not matter.
  CHECK(render("{% if false %}{{ x|urlize }}{% endif %}{{ 1 if true else x|urlize }}") == "1");
  CHECK(failure("{{ 'a'|trim(1) }}") == "t, line 1: strip() takes None or a string, not int");
  CHECK(failure("{{ 'a'|replace('b') }}") == "t, line 1: replace() is missing its argument 'new'");
  CHECK(failure("{{ 'a'|upper(1) }}") == "t, line 1: upper() takes at most 0 arguments, not 1");
  CHECK(failure("{{ [1]|join(x=1) }}") == "t, line 1: join() has no parameter 'x'");
}
