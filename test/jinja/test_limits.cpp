// Every template ends, with a message.

#include "render.h"
#include "support/catch.h"

using verlcpp::test::failure;
using verlcpp::test::render;

TEST_CASE("recursion, loops and sizes are bounded") {
  CHECK(failure("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}") ==
        "t, line 1: calls itself too deeply");
  const std::string r = "{% for a in range(90000) %}{% for b in range(90000) %}";
  CHECK(failure(r + "{% endfor %}{% endfor %}") ==
        "t, line 1: does not end: stopped after 20000000 steps");
  CHECK(failure("{{ 'a' * 100000000 }}") == "t, line 1: builds a text of more than 67108864 bytes");
  CHECK(failure("{{ [1] * 100000000 }}") == "t, line 1: builds a list of more than 1000000 items");
  CHECK(failure("{{ range(1000000)|length }}") ==
        "t, line 1: range() yields more than 100000 numbers");
  CHECK(failure("{{ 'a'.ljust(100000000) }}") ==
        "t, line 1: builds a text of more than 67108864 bytes");
  CHECK(failure("{% set x = 'ab' * 1000000 %}{{ x.replace('', x) }}") ==
        "t, line 1: builds a text of more than 67108864 bytes");
}

TEST_CASE("nesting is bounded") {
  const auto repeat = [](const std::string& text, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += text;
    return out;
  };
  CHECK(failure("{{ " + repeat("(", 9000) + "1" + repeat(")", 9000) + " }}") ==
        "t, line 1: nested too deeply");
  CHECK(failure(repeat("{% if 1 %}", 9000)) == "t, line 1: nested too deeply");
  CHECK(failure("{{ " + repeat("not ", 9000) + "1 }}") == "t, line 1: nested too deeply");
  CHECK(failure("{{ x }}", "{\"x\": " + repeat("[", 500) + repeat("]", 500) + "}") ==
        "t, line 1: a variable is nested too deeply");
  // Each level doubles what is printed.
  CHECK(failure("{% set ns = namespace(x=['aaaaaaaaaaaaaaaa']) %}{% for i in range(40) %}"
                "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}") ==
        "t, line 1: builds a text of more than 67108864 bytes");
}

TEST_CASE("a variable of more than 64 bits is refused, not rounded") {
  CHECK(failure("{{ x }}", R"({"x": 18446744073709551615})") ==
        "t, line 1: the number 18446744073709551615 of a variable exceeds 64 bits");
}
