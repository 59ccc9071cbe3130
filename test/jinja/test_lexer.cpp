// White space around tags, comments, raw blocks, literals: as Jinja's lexer has them with
// trim_blocks and lstrip_blocks on.

#include "render.h"
#include "support/catch.h"

using verlcpp::test::failure;
using verlcpp::test::render;

TEST_CASE("a block's line vanishes, a variable's stays") {
  CHECK(render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n") == "a\n  b\nc");
  CHECK(render("a\n  {{ 1 }}\nb") == "a\n  1\nb");
  CHECK(render("x {% if true %} y {% endif %} z") == "x  y  z");
  CHECK(render("  {# gone #}\nb") == "b");
}

TEST_CASE("- takes all white space, + leaves it") {
  CHECK(render("a \n {%- if true -%} \n b \n {%- endif -%} \n c") == "abc");
  CHECK(render("a \n {{- 1 -}} \n b") == "a1b");
  CHECK(render("a\n  {%+ if true +%}\nb{% endif %}") == "a\n  \nb");
  CHECK(render("a {#- c -#} b") == "ab");
  CHECK(render("a\xC2\xA0{{- 1 }}") == "a1");
}

TEST_CASE("line breaks are one kind, the last one is dropped") {
  CHECK(render("a\r\nb\rc\n") == "a\nb\nc");
  CHECK(render("a\n\n") == "a\n");
  CHECK(render("") == "");
}

TEST_CASE("raw text is not read") {
  CHECK(render("{% raw %}{{ x }}{% if %}{% endraw %}") == "{{ x }}{% if %}");
  CHECK(render("{%- raw -%}  {{ x }}  {%- endraw -%}  y") == "{{ x }}y");
}

TEST_CASE("literals") {
  CHECK(render(R"({{ 'a\n\t\'\\\x41\u00e9\q' }})") == "a\n\t'\\A\xC3\xA9\\q");
  CHECK(render("{{ 'a' \"b\" }}") == "ab");
  CHECK(render("{{ 1_000 }} {{ 0x1f }} {{ 1.5e3 }} {{ 2e3 }} {{ 0b11 }}") ==
        "1000 31 1500.0 2000.0 3");
  CHECK(render("{{ x.0.1 }}", R"({"x": [[7, 8]]})") == "8");
  CHECK(render("{{ {'a': {'b': 1}}['a']['b'] }}") == "1");
}

TEST_CASE("what cannot be read is named with its line") {
  CHECK(failure("a\n{# b") == "t, line 2: a comment is not closed with #}");
  CHECK(failure("a\n\n{{ x") == "t, line 3: a tag is not closed with }}");
  CHECK(failure("{{ 'x }}") == "t, line 1: a string is not closed");
  CHECK(failure("{% raw %}") == "t, line 1: a raw block is not closed with {% endraw %}");
  CHECK(failure("{{ (1] }}") == "t, line 1: unexpected ']', expected ')'");
  CHECK(failure("{{ 1 $ 2 }}") == "t, line 1: unexpected character '$'");
  CHECK(failure("{{ 99999999999999999999 }}") ==
        "t, line 1: the number 99999999999999999999 cannot be read; valid: an integer of 64 bits, "
        "or a float");
}
