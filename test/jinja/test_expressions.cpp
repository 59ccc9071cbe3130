// Operators, attributes, methods and what values print as: Python's.

#include "render.h"
#include "support/catch.h"

using verlcpp::test::failure;
using verlcpp::test::render;

TEST_CASE("values print as Python prints them") {
  CHECK(render("{{ true }} {{ none }} {{ nothing }}|") == "True None |");
  CHECK(render("{{ [1, 'a', none, 2.0, true] }} {{ (1,) }} {{ {'k': \"it's\"} }}") ==
        "[1, 'a', None, 2.0, True] (1,) {'k': \"it's\"}");
  CHECK(render("{{ 1e22 }} {{ 1e-7 }} {{ 0.1 + 0.2 }} {{ 1e15 }} {{ -0.0 }}") ==
        "1e+22 1e-07 0.30000000000000004 1000000000000000.0 -0.0");
  CHECK(render("{{ ['\\n\\u200b\\x07\xC3\xA9'] }}") == "['\\n\\u200b\\x07\xC3\xA9']");
  CHECK(render("{{ {'a': 1}.items() }} {{ range(3) }}") == "dict_items([('a', 1)]) range(0, 3)");
}

TEST_CASE("arithmetic is Python's") {
  CHECK(render("{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ -2 ** 2 }}") ==
        "3 -4 2 3.5 1024 4");
  CHECK(render("{{ 'ab' * 2 }} {{ [1] + [2] }} {{ 1 ~ 'a' ~ none }} {{ 1 + 2 * 3 }}") ==
        "abab [1, 2] 1aNone 7");
  CHECK(failure("{{ 1 + 'a' }}") ==
        "t, line 1: unsupported operand type(s) for +: 'int' and 'str'");
  CHECK(failure("{{ 9223372036854775807 + 1 }}") == "t, line 1: an integer exceeds 64 bits");
  CHECK(failure("{{ 1 % 0 }}") == "t, line 1: division by zero");
}

TEST_CASE("comparisons, truth and conditions") {
  CHECK(render("{{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ 'a' in 'cab' }} {{ 2 not in [1] }}") ==
        "True True True True");
  CHECK(render("{{ 0 or 'x' }} {{ [] and 1 }} {{ not '' }} {{ 'a' if false }}|") == "x [] True |");
  CHECK(render("{{ 'a' if x is defined else 'b' }} {{ x is none }}", R"({"x": null})") == "a True");
  CHECK(failure("{{ 1 < 'a' }}") ==
        "t, line 1: '<' not supported between instances of 'int' and 'str'");
}

TEST_CASE("a missing name may be printed and tested, not used") {
  CHECK(render("[{{ a }}] {{ a|default('d') }} {{ a is defined }} {{ 'x' in a }}") ==
        "[] d False False");
  CHECK(failure("\n{{ a.b }}") == "t, line 2: 'a' is undefined");
  CHECK(failure("{{ m.content + 'x' }}", R"({"m": {}})") ==
        "t, line 1: 'dict object' has no attribute 'content'");
  CHECK(failure("{{ f() }}") == "t, line 1: 'f' is undefined");
}

TEST_CASE("items, attributes and slices") {
  const std::string m = R"({"m": {"items": 1, "role": "user", "xs": [1, 2, 3]}})";
  CHECK(render("{{ m.role }} {{ m['items'] }} {{ m.items() | length }} {{ m.xs[-1] }}", m) ==
        "user 1 3 3");
  CHECK(render("{{ m.xs[::-1] }} {{ m.xs[1:] }} {{ 'h\xC3\xA9llo'[1:3] }} {{ 'abc'[::-1] }}", m) ==
        "[3, 2, 1] [2, 3] \xC3\xA9l cba");
  CHECK(render("[{{ m.xs[9] }}{{ m['no'] }}]", m) == "[]");
  CHECK(
      failure("{{ m.xs.append(4) }}", m) ==
      "t, line 1: access to attribute 'append' of 'list' object is unsafe: chat templates may not "
      "change lists and dicts");
}

TEST_CASE("methods of strings and dicts") {
  CHECK(render("{{ ' a b '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'a,b,c'.split(',', 1) }}|"
               "{{ ' a  b '.split() }}|{{ 'a</think>b'.split('</think>')[-1] }}") ==
        "a b|a|['a', 'b,c']|['a', 'b']|b");
  CHECK(render("{{ 'stra\xC3\x9F"
               "e'.upper() }} {{ 'A B'.title() }} {{ 'abc'.startswith(('x', 'a')) }} "
               "{{ 'h\xC3\xA9h'.find('h', 1) }} {{ '-'.join(['a', 'b']) }}") ==
        "STRASSE A B True 2 a-b");
  CHECK(render("{{ 'a\\nb\\u2028c'.splitlines() }} {{ 'aXb'.removeprefix('a') }} "
               "{{ 'aaa'.replace('a', 'b', 2) }} {{ 'a'.center(4, '*') }}") ==
        "['a', 'b', 'c'] Xb bba *a**");
  CHECK(render("{{ d.get('x', 'y') }} {{ d.keys()|list }}", R"({"d": {"b": 1, "a": 2}})") ==
        "y ['b', 'a']");
  CHECK(render("{{ '%s=%03d %.1f' % ('a', 7, 2.25) }} {{ '{:>4}|{x}'.format('a', x=1) }}") ==
        "a=007 2.2    a|1");
  CHECK(render("{{ '%03d|%+d|%25d' % (1e20, -9.5e18, 1e20) }}") ==
        "100000000000000000000|-9500000000000000000|    100000000000000000000");
  CHECK(failure("{{ '%d' % ('inf'|float) }}").find("finite") != std::string::npos);
  CHECK(render("{{ '\u00df \u00df\u00df'.title() }}") == "Ss Ss\xC3\x9F");
  // Title letters, an iota below, and an upper case of which the second character is the letter.
  CHECK(render("{{ '\\u01c6 \\u1fb2 \\u1f80 \\u0149'.title() == "
               "'\\u01c5 \\u1fba\\u0345 \\u1f88 \\u02bcN' }} "
               "{{ '\\u10d0'.capitalize() == '\\u10d0' }}") == "True True");
  // A sigma ends the word unless letters follow, also behind accents and apostrophes.
  CHECK(render("{{ '\\u0391\\u03a3'.title() == '\\u0391\\u03c2' }} "
               "{{ \"\\u0391\\u03a3'\\u0391\".lower() == \"\\u03b1\\u03c3'\\u03b1\" }} "
               "{{ 'a\\u0301\\u03a3'.lower() == 'a\\u0301\\u03c2' }}") == "True True True");
  // Letters without another case, and title letters.
  CHECK(render("{{ '\\u00aa'.islower() }} {{ '\\u2102'.isupper() }} {{ '\\u01c5'.isupper() }} "
               "{{ '\\u01c5'.swapcase() == '\\u01c5' }} {{ '\\ua69ca'.title() == '\\ua69ca' }}") ==
        "True True False True True");
}
