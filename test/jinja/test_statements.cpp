#include "render.h"
#include "support/catch.h"

using verlcpp::test::failure;
using verlcpp::test::render;

TEST_CASE("if, elif, else") {
  const std::string source = "{% if x == 1 %}a{% elif x == 2 %}b{% else %}c{% endif %}";
  CHECK(render(source, R"({"x": 1})") == "a");
  CHECK(render(source, R"({"x": 2})") == "b");
  CHECK(render(source, R"({"x": 3})") == "c");
}

TEST_CASE("loops and what loop knows") {
  CHECK(render("{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}"
               "{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}"
               "{{ loop.nextitem }}{{ loop.cycle('x', 'y') }};{% endfor %}") ==
        "103TrueFalse3bx;212FalseFalse3acy;321FalseTrue3bx;");
  CHECK(render("{% for x in [1, 2, 3, 4] if x is even %}{{ x }}/{{ loop.length }} {% endfor %}") ==
        "2/2 4/2 ");
  CHECK(render("{% for x in [] %}a{% else %}none{% endfor %}") == "none");
  CHECK(render("{% for k, (a, b) in {'x': [1, 2]}.items() %}{{ k }}{{ a }}{{ b }}{% endfor %}") ==
        "x12");
  CHECK(render("{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}"
               "{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}") == "02");
  CHECK(failure("{% for x in 3 %}{% endfor %}") == "t, line 1: 'int' object is not iterable");
  CHECK(failure("{% for a, b in [[1]] %}{% endfor %}") ==
        "t, line 1: cannot unpack 1 values into 2 names");
}

TEST_CASE("what is set in a loop stays there, but in a namespace") {
  CHECK(
      render("{% set n = 0 %}{% for x in [1, 2] %}{% set n = n + x %}{{ n }}{% endfor %}{{ n }}") ==
      "120");
  CHECK(render("{% set ns = namespace(n=0) %}{% for x in [1, 2] %}{% set ns.n = ns.n + x %}"
               "{% endfor %}{{ ns.n }}") == "3");
  CHECK(render("{% if true %}{% set n = 1 %}{% endif %}{{ n }}") == "1");
  CHECK(render("{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t %} x {% endset %}[{{ t }}]"
               "{% set u | upper | trim %} y {% endset %}{{ u }}") == "12[ x ]Y");
  CHECK(failure("{% set x = 1 %}\n{% set x.y = 2 %}") ==
        "t, line 2: cannot assign attribute on non-namespace object 'x'");
}

TEST_CASE("macros") {
  CHECK(render("{% macro m(a, b='d', c=a) %}{{ a }}{{ b }}{{ c }};{% endmacro %}"
               "{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}{{ m() }}") ==
        "1d1;12"
        "1;1d3;d;");
  CHECK(render("{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}"
               "{{ f(3) }}") == "3210");
  CHECK(render("{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, x=2) }}") ==
        "(1,){'x': 2}");
  CHECK(render("{% macro m(t) %}<{{ caller(t) }}>{% endmacro %}"
               "{% call(x) m('a') %}{{ x }}!{% endcall %}") == "<a!>");
  CHECK(failure("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}") ==
        "t, line 1: macro 'm' takes not more than 1 argument(s)");
}

TEST_CASE("blocks that only frame their content") {
  CHECK(render("{% generation %}a{% endgeneration %}b") == "ab");
  CHECK(render("{% filter upper %}a{{ 'b' }}{% endfilter %}") == "AB");
  CHECK(render("{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}") == "3False");
}

TEST_CASE("functions") {
  CHECK(render("{{ range(1, 8, 3)|list }} {{ dict(a=1) }} {% set j = joiner('-') %}"
               "{{ j() }}{{ j() }} {% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ "
               "c.next() }}") == "[1, 4, 7] {'a': 1} - 121");
  CHECK(render("{{ strftime_now('%Y')|length }}") == "4");
  CHECK(failure("a\n{{ raise_exception('Roles must alternate') }}") ==
        "t, line 2: Roles must alternate");
}

TEST_CASE("mistakes of grammar are named with their line") {
  CHECK(failure("a\n{% if x %}") ==
        "t, line 2: the block that begins here is not closed; expected elif or else or endif");
  CHECK(failure("{% if x %}\na") ==
        "t, line 1: the block that begins here is not closed; expected elif or else or endif");
  CHECK(failure("{% for x in y %}\n{% endif %}") ==
        "t, line 2: unexpected tag 'endif'; expected else or endfor");
  CHECK(failure("{% include 'x' %}") ==
        "t, line 1: the tag 'include' is not supported; valid: if, for, set, with, macro, call, "
        "filter, generation, break, continue");
  CHECK(failure("{{ 1 + }}") == "t, line 1: expected an expression, found '}}'");
  CHECK(failure("{{ a b }}") == "t, line 1: expected '}}', found 'b'");
  CHECK(failure("{% break %}") == "t, line 1: 'break' outside of a loop");
  CHECK(failure("{% set true = 1 %}") == "t, line 1: cannot assign to 'true'");
}
