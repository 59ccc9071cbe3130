#include <cmath>
#include <random>

#include "config/override.h"
#include "helpers.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::config;

namespace {

struct ValueCase {
  std::string text;  // after "a="
  const char* type;
  std::string shown;  // to_inline
};

Node value_of(const std::string& text) { return *parse_override("a=" + text, 1).value; }

/// A random tree of depth at most `depth` out of awkward strings, numbers and containers.
Node random_node(std::mt19937& random, int depth) {
  static const std::vector<std::string> kPieces = {
      "a", "1",  "e", "-",  ".", "'", "\"", "\\",   " ", "${", "}",    ",", "[", "]",   "{",
      ":", "\t", "=", "\n", "#", "$", "_",  "true", "(", ")",  "null", "é", "%", "inf", "~"};
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const auto text = [&] {
    std::string result;
    for (size_t n = pick(7); n > 0; --n) result += kPieces[pick(kPieces.size())];
    return result;
  };
  switch (pick(depth > 0 ? 8 : 6)) {
    case 0:
      return Node(Scalar());
    case 1:
      return Node(pick(2) == 0);
    case 2:
      return Node(static_cast<int64_t>(random()) - static_cast<int64_t>(random()));
    case 3:
      return Node(std::ldexp(static_cast<double>(random()), static_cast<int>(pick(200)) - 100));
    case 6: {
      List items;
      for (size_t n = pick(4); n > 0; --n) items.push_back(random_node(random, depth - 1));
      return Node::list(std::move(items));
    }
    case 7: {
      Map items;
      for (size_t n = pick(4); n > 0; --n) {
        items.emplace_back(std::to_string(n) + text(), random_node(random, depth - 1));
      }
      return Node::map(std::move(items));
    }
    default:
      return Node(text());
  }
}

}  // namespace

TEST_CASE("override: values are typed as Hydra types them") {
  const std::vector<ValueCase> cases = {
      {"null", "null", "null"},
      {"NULL", "null", "null"},
      {"true", "bool", "True"},
      {"False", "bool", "False"},
      {"TrUe", "bool", "True"},
      {"yes", "string", "'yes'"},
      {"on", "string", "'on'"},
      {"0", "integer", "0"},
      {"-5", "integer", "-5"},
      {"+5", "integer", "5"},
      {"100_000", "integer", "100000"},
      {"1__0", "string", "'1__0'"},
      {"010", "string", "'010'"},
      {"0x10", "string", "'0x10'"},
      {"9223372036854775807", "integer", "9223372036854775807"},
      {"9223372036854775808", "string", "'9223372036854775808'"},
      {"1e-6", "float", "1e-06"},
      {"1E-6", "float", "1e-06"},
      {"1e5", "float", "100000.0"},
      {"1.5e+3", "float", "1500.0"},
      {"1_0.5", "float", "10.5"},
      {"1e1_0", "float", "10000000000.0"},
      {".5", "float", "0.5"},
      {"1.", "float", "1.0"},
      {"-.5", "float", "-0.5"},
      {"1._5", "string", "'1._5'"},
      {"1e", "string", "'1e'"},
      {"inf", "float", "inf"},
      {"-Inf", "float", "-inf"},
      {"NaN", "float", "nan"},
      {"", "string", "''"},
      {" 1 ", "integer", "1"},
      {"1 2", "string", "'1 2'"},
      {"a b  c", "string", "'a b  c'"},
      {"a\tb", "string", "'a\tb'"},
      {"'1'", "string", "'1'"},
      {"\"true\"", "string", "'true'"},
      {"''", "string", "''"},
      {"'a b, c'", "string", "'a b, c'"},
      {R"('it\'s')", "string", R"('it\'s')"},
      {R"("it's")", "string", R"('it\'s')"},
      {R"('a\\')", "string", R"('a\\')"},
      {R"('a\b')", "string", R"('a\b')"},
      {R"(a\,b)", "string", "'a,b'"},
      {R"(a\b)", "string", R"('a\b')"},
      {R"(a\ )", "string", "'a '"},
      {R"(\ 1)", "string", "' 1'"},
      {R"(\\)", "string", R"('\\')"},
      {R"(\[x\])", "string", "'[x]'"},
      {"/data/a-b_c.d:e@f~g+h%i", "string", "'/data/a-b_c.d:e@f~g+h%i'"},
      {"~/models/x", "string", "'~/models/x'"},
      {"http://x.y:80/z?q", "string", "'http://x.y:80/z?q'"},
      {"1:2", "string", "'1:2'"},
      {"$HOME", "string", "'$HOME'"},
      {"größe#1!", "string", "'größe#1!'"},
      {"${b.c}", "interpolation", "${b.c}"},
      {"x${b}y", "interpolation", "'x${b}y'"},
      {"'${b} c'", "interpolation", "'${b} c'"},
      {"'${oc.select:a.b,{x:1}}'", "interpolation", "'${oc.select:a.b,{x:1}}'"},
      {"x : y: ", "string", "'x : y: '"},
      {"$\\{b\\}", "interpolation", "${b}"},
      {"1.5.2", "string", "'1.5.2'"},
      {"[1, 2 ]", "list", "[1, 2]"},
      {"{1_0: a, 1.50: b, true: c, x\\,y: d}", "map", "{10: a, 1.5: b, True: c, 'x,y': d}"},
      {"int(3.7)", "integer", "3"},
      {"int(' -1_0 ')", "integer", "-10"},
      {"float (1)", "float", "1.0"},
      {"float(Infinity)", "float", "inf"},
      {"str([1.0, {a: true}])", "list", "['1.0', {a: 'true'}]"},
      {"[bool(0),bool(value='TRUE'),bool(null)]", "list", "[False, True, False]"},
      {"str(int(2.5))", "string", "'2'"},
      {"sort([3,1.5,true])", "list", "[True, 1.5, 3]"},
      {"sort([b,a,c],reverse=true)", "list", "[c, b, a]"},
      {R"(str('\${b}'))", "string", R"('\${b}')"},
      {R"('\${b}')", "string", R"('\${b}')"},
      {"[]", "list", "[]"},
      {"[1, 2.0,'x' , y]", "list", "[1, 2.0, x, y]"},
      {R"(["console","wandb"])", "list", "[console, wandb]"},
      {"['/a/b','/c']", "list", "[/a/b, /c]"},
      {"[a b,'1',[true,[null]]]", "list", "['a b', '1', [True, [null]]]"},
      {"[1:2,a:b]", "list", "['1:2', 'a:b']"},
      {"{}", "map", "{}"},
      {"{a:1,b: [x], c: {d: ''}}", "map", "{a: 1, b: [x], c: {d: ''}}"},
      {"{a:b:c}", "map", "{a: 'b:c'}"},
      {"{a b: 1, 'c,d': 2}", "map", "{'a b': 1, 'c,d': 2}"},
      {"{1: x}", "map", "{1: x}"},
      {"'Et*6|t*6|t*5L'", "string", "'Et*6|t*6|t*5L'"},
  };
  for (const ValueCase& item : cases) {
    INFO("a=" << item.text);
    const Node value = value_of(item.text);
    CHECK(value.type_name() == item.type);
    CHECK(to_inline(value) == item.shown);
    CHECK(same_values(value_of(to_inline(value)), value));
  }
}

TEST_CASE("override: forms, keys and origins") {
  using Kind = Override::Kind;
  CHECK(parse_override("a.b=1", 1).kind == Kind::kSet);
  CHECK(parse_override("+a.b=1", 1).kind == Kind::kAdd);
  CHECK(parse_override("++a.b=1", 1).kind == Kind::kForce);
  CHECK(parse_override("~a.b", 1).kind == Kind::kDelete);
  CHECK_FALSE(parse_override("~a.b", 1).value.has_value());
  CHECK(to_inline(*parse_override("~a.b=1", 1).value) == "1");
  CHECK(parse_override("++a.b-c.0.$x=1", 1).key == "a.b-c.0.$x");
  const Override group = parse_override("group/sub@pkg.b=name", 3);
  CHECK(group.key == "group/sub");
  CHECK(*group.package == "pkg.b");
  CHECK(group.name() == "group/sub@pkg.b");
  CHECK(*parse_override("group@=name", 3).package == "");
  CHECK(group.value->origin().text == "override 3");
  CHECK(value_of("[1,{a: 2}]").find("1.a")->origin().text == "override 1");
}

TEST_CASE("override: a syntax error names number, column and text") {
  const auto error = [](const std::string& text) {
    return config_error([&] { parse_override(text, 2); });
  };
  CHECK(error("data.x=[1,2") ==
        "override 2, column 8: there is no ] that closes this [ (at a space the shell splits an "
        "override that is not in quotes)\n  data.x=[1,2");
  CHECK(contains(error("a={x:1"), "column 3: there is no } that closes this {"));
  CHECK(contains(error("a={x"), "column 3: there is no } that closes this {"));
  CHECK(contains(error("a='x"), "column 3: this quote is never closed"));
  CHECK(contains(error("a='x'y"), "column 6: there is text after the value"));
  CHECK(contains(error("a=1]"), "column 4: there is text after the value"));
  CHECK(contains(error("a=${b"), "column 3: there is no } that closes this ${"));
  CHECK(contains(error("a=${b:${c}}"), "column 11: an unquoted ${...} ends at its first }"));
  CHECK(contains(error("a=[1] "), "column 7: there is text after the value"));
  CHECK(contains(error("a={null:1}"), "column 4: a key cannot be null"));
  CHECK(contains(error("a={$b:1}"), "(no ConfigError)"));
  CHECK(contains(error("a=1,2"), "column 4: several values for one key are a sweep"));
  CHECK(contains(error("a=range(1,3)"), "column 3: range() is for sweeps, and this is one value"));
  CHECK(contains(error("a=[x,f(1)]"), "column 6: unknown function f; there are int, float, str,"));
  CHECK(contains(error("a=int(x)"), "column 3: int() cannot convert 'x'"));
  CHECK(contains(error("a=int(1e30)"), "column 3: int() cannot convert 1e+30"));
  CHECK(contains(error("a=bool(2x)"), "column 3: bool() cannot convert '2x'"));
  CHECK(contains(error("a=str(1,2)"), "column 3: str() of several values is a sweep"));
  CHECK(contains(error("a=int()"), "column 3: int() needs a value"));
  CHECK(contains(error("a=int(1"), "column 6: there is no ) that closes this ("));
  CHECK(contains(error("a=int(x=1)"), "column 3: int() has no argument x"));
  CHECK(contains(error("a=sort([1,b])"), "column 3: sort() takes numbers or strings"));
  CHECK(contains(error("a=sort(null)"), "column 3: sort() needs a list"));
  CHECK(contains(error("a=sort(reverse=true,[1])"), "column 21: an argument without a name"));
  CHECK(contains(error("0=1"), "column 1: a key is missing"));
  CHECK(contains(error("a.01=1"), "column 4: unexpected '1' in a key"));
  CHECK(contains(error("a/b.c=1"), "column 4: unexpected '.' in a key"));
  CHECK(contains(error("a$/b=1"), "column 2: unexpected '$' in a group"));
  CHECK(contains(error("a=b=c"), "column 4: unexpected =; quote a text that holds one"));
  CHECK(contains(error("a=[1,,2]"), "column 6: a value is missing"));
  CHECK(contains(error("a=[1,]"), "column 6: a value is missing"));
  CHECK(contains(error("a={x:}"), "column 6: a value is missing"));
  CHECK(contains(error("a={:1}"), "column 4: a key is missing"));
  CHECK(contains(error("a={x}"), "column 5: expected : after the key"));
  CHECK(to_inline(*parse_override("a={+1_00000000000000000000:x}", 1).value) ==
        "{100000000000000000000: x}");
  CHECK(contains(error("a={x:1,x:2}"), "column 9: the key x comes twice"));
  CHECK(contains(error("a=[x}"), "column 5: expected , or ]"));
  CHECK(contains(error("trainer"), "column 8: expected = and a value"));
  CHECK(error("") ==
        "override 2, column 1: the argument is empty (a stray pair of quotes, or an unset variable "
        "of the shell in quotes)");
  CHECK(contains(error("=1"), "column 1: a key is missing"));
  CHECK(contains(error("a.=1"), "column 2: a name is missing beside this ."));
  CHECK(contains(error(".a=1"), "column 1: a name is missing beside this ."));
  CHECK(contains(error("a = 1"), "column 2: a space in front of =; valid: a=VALUE"));
  CHECK(contains(error("a[0]=1"), "column 2: unexpected '[' in a key"));
  CHECK(contains(error("a=" + std::string(5000, '[')), "nested too deeply"));
  std::string deep = "a";
  for (int i = 0; i < 5000; ++i) deep += ".a";
  CHECK(contains(error(deep + "=1"), "this key is too deep"));
}

TEST_CASE("override: printing and parsing are inverse") {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const Node node = random_node(random, 3);
    INFO(to_inline(node));
    REQUIRE(same_values(value_of(to_inline(node)), node));
    REQUIRE(same_values(*parse_yaml(to_yaml(Node::map({{"k", node}})), "f").find("k"), node));
  }
}

TEST_CASE("override: any text parses or fails with a ConfigError that names a column") {
  const std::string alphabet = "ab1_.+-~@=/:,'\"\\[]{}()$ \t\n#e0\xc3\xa9%";
  std::mt19937 random(11);
  int parsed = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string text = random() % 2 == 0 ? "a=" : "";
    for (size_t n = random() % 24; n > 0; --n) text += alphabet[random() % alphabet.size()];
    try {
      const Override item = parse_override(text, 1);
      ++parsed;
      if (item.value) REQUIRE(same_values(value_of(to_inline(*item.value)), *item.value));
    } catch (const ConfigError& error) {
      REQUIRE(contains(error.what(), "override 1, column "));
    }
  }
  CHECK(parsed > 1000);
  CHECK(parsed < 49000);
}
