#include <cstdlib>

#include "config/interpolation.h"
#include "helpers.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::config;

namespace {

/// `k` of "k: <text>" beside some fixed neighbours, resolved.
Node value(const std::string& text) {
  const std::string neighbours =
      "one: 1\nnothing: null\nopen: \"?\?\?\"\nrate: 1e-6\nflag: true\nword: text\nlist: [5, {x: "
      "6}]\n"
      "group:\n  a: 1\n  b: ${.a}\n  c: ${word}\n  deep:\n    d: ${..a}\n    e: ${...one}\n"
      "alias: ${group}\n";
  return *resolved(neighbours + "k: " + text + "\n").find("k");
}

std::string shown(const std::string& text) { return to_inline(value(text)); }
std::string error_of(const std::string& text) {
  return config_error([&] { value(text); });
}

}  // namespace

TEST_CASE("interpolation: plain keys keep the type") {
  CHECK(shown("${one}") == "1");
  CHECK(shown("${ one }") == "1");
  CHECK(shown("${rate}") == "1e-06");
  CHECK(shown("${flag}") == "True");
  CHECK(shown("${nothing}") == "null");
  CHECK(shown("'${list[0]}'") == "5");
  CHECK(shown("${list.1.x}") == "6");
  CHECK(shown("'${group[deep][e]}'") == "1");
  CHECK(shown("${alias.deep.e}") == "1");
  CHECK(shown("[1, '${one}', {z: '${word}'}]") == "[1, 1, {z: text}]");
}

TEST_CASE("interpolation: relative keys count groups upwards") {
  CHECK(shown("{x: 3, y: '${.x}', z: {w: '${..x}', v: '${...one}'}}") ==
        "{x: 3, y: 3, z: {w: 3, v: 1}}");
  CHECK(shown("{x: 3, l: ['${..x}', '${.0}']}") == "{x: 3, l: [3, 3]}");
  CHECK(contains(error_of("'${...x}'"), "...x leads above the root"));
}

TEST_CASE("interpolation: a whole group is resolved where it stands") {
  CHECK(shown("${group}") == "{a: 1, b: 1, c: text, deep: {d: 1, e: 1}}");
  CHECK(shown("${oc.select:group.deep}") == "{d: 1, e: 1}");
  CHECK(shown("${alias}") == "{a: 1, b: 1, c: text, deep: {d: 1, e: 1}}");
}

TEST_CASE("interpolation: string pieces print as Python prints them") {
  CHECK(shown("a/${one}-${rate}-${flag}-${nothing}/${word}") == "'a/1-1e-06-True-None/text'");
  CHECK(shown("'\\${one} ${one}'") == "'\\${one} 1'");
  CHECK(*value("'\\${one} ${one}'").get_if<std::string>() == "${one} 1");
  CHECK(*value("'\\\\${one}'").get_if<std::string>() == "\\1");
  CHECK(shown("x-${list}") == R"('x-[5, {\'x\': 6}]')");
  CHECK(shown("'${list} ${oc.select:none,[\"it''s\",null]}'") ==
        R"('[5, {\'x\': 6}] ["it\'s", None]')");
  CHECK(shown("x${open}") == "'?\?\?'");
  CHECK(contains(error_of("'x${open}${one]}'"), "unexpected ] in a key"));
}

TEST_CASE("interpolation: oc.select and its typed defaults") {
  CHECK(shown("${oc.select:one,7}") == "1");
  CHECK(shown("${oc.select:nothing,7}") == "null");
  CHECK(shown("${oc.select:open,7}") == "7");
  CHECK(shown("${oc.select:none}") == "null");
  CHECK(shown("${oc.select:none,False}") == "False");
  CHECK(shown("${oc.select:none, null}") == "null");
  CHECK(shown("${oc.select:none,2048}") == "2048");
  CHECK(shown("${oc.select:none,1e-3}") == "0.001");
  CHECK(shown("${oc.select:none,{}}") == "{}");
  CHECK(shown("'${oc.select:none,[1,{a: b}]}'") == "[1, {a: b}]");
  CHECK(shown("${oc.select:none,some text}") == "'some text'");
  CHECK(shown("${oc.select:none,}") == "''");
  CHECK(shown("\"${oc.select:none,'a,}b'}\"") == "'a,}b'");
  CHECK(shown("${oc.select:none.of.these,4}") == "4");
  CHECK(shown("${oc.select:one.x,4}") == "4");
  CHECK(shown("${oc.select:nothing.x,4}") == "4");
  CHECK(shown("${oc.select:none,${oc.select:none,${one}}}") == "1");
  CHECK(shown("${oc.select:none,'x${one}'}") == "'x1'");
  CHECK(shown("{s: 2, t: '${oc.select:.s,null}', u: '${oc.select:.v,null}'}") ==
        "{s: 2, t: 2, u: null}");
  // A default is looked at only when it is needed.
  CHECK(shown("${oc.select:one,${missing}}") == "1");
}

TEST_CASE("interpolation: keys and arguments are cut as OmegaConf cuts them") {
  CHECK(shown("'${${oc.select:none,word}}'") == "'text'");
  CHECK(shown("'${group[${oc.select:none,a}]}'") == "1");
  CHECK(shown("'${oc.${oc.select:none,select}:one}'") == "1");
  CHECK(shown("'${oc.select:none,[1,,x]}'") == "[1, '', x]");
  CHECK(shown("'${oc.select: none , a b }'") == "'a b'");
  CHECK(shown(R"('${oc.select:none,a\,b\ }')") == "'a,b '");
  CHECK(shown(R"('${oc.select:none,x\\${one}}')") == R"('x\1')");
  CHECK(shown(R"('${oc.select:none,"it is ${oc.select:none,"x"}"}')") == "'it is x'");
  CHECK(shown(R"('${oc.select:none,"\${one}"}')") == R"('\${one}')");
}

TEST_CASE("interpolation: in a text a map is printed as it is written") {
  CHECK(shown("{m: {a: '${one}', b: [x]}, t: 'it is ${.m}'}") ==
        R"({m: {a: 1, b: [x]}, t: 'it is {\'a\': \'\${one}\', \'b\': [\'x\']}'})");
}

TEST_CASE("interpolation: oc.select finds nothing under an empty name, or in a list by one") {
  CHECK(shown("${oc.select:group.,4}") == "4");
  CHECK(shown("${oc.select:group..a,4}") == "4");
  CHECK(shown("${oc.select:list.9,4}") == "4");
  CHECK(contains(error_of("${oc.select:list.a,4}"), "list is a list, and a is no number"));
  CHECK(contains(error_of("${oc.select:group.,${group.}}"), "a key is missing or incomplete"));
}

TEST_CASE("interpolation: oc.env") {
  setenv("VERLCPP_TEST_ENV", "12", 1);
  unsetenv("VERLCPP_TEST_UNSET");
  CHECK(shown("${oc.env:VERLCPP_TEST_ENV}") == "'12'");
  CHECK(shown("'${oc.decode:${oc.env:VERLCPP_TEST_ENV}}'") == "12");
  CHECK(shown("${oc.env:VERLCPP_TEST_UNSET,5}") == "'5'");
  CHECK(shown("${oc.env:VERLCPP_TEST_UNSET,null}") == "null");
  CHECK(shown("${oc.env:VERLCPP_TEST_UNSET,a b}") == "'a b'");
  CHECK(contains(error_of("${oc.env:VERLCPP_TEST_UNSET}"), "VERLCPP_TEST_UNSET is not set"));
}

TEST_CASE("interpolation: an argument in quotes is a text, whatever the interpolation in it is") {
  CHECK(shown("\"${oc.select:none,'${one}'}\"") == "'1'");
  CHECK(shown("\"${oc.select:none,'${oc.select:none,'${one}'}'}\"") == "'1'");
  CHECK(shown("\"${oc.select:none,['${one}',${one}]}\"") == "['1', 1]");
  CHECK(shown("\"${oc.decode:'${one}'}\"") == "1");
  CHECK(shown("\"${oc.select:none,'${nothing}'}\"") == "'None'");
  CHECK(shown("\"${oc.select:none,'${list}'}\"") == R"('[5, {\'x\': 6}]')");
  CHECK(shown("{a: \"${oc.select:none,'${one}'}\", b: '${oc.select:none,${one}}'}") ==
        "{a: '1', b: 1}");
}

TEST_CASE("interpolation: every cycle is said, once") {
  KeyProblems problems;
  const Node tree = parse_yaml("a: ${b}\nb: ${a}\nc: ${c}\nd: ${a}\ne: ${c}\n", "f.yaml");
  CHECK(to_inline(resolve(tree, {}, problems)) == "{a: null, b: null, c: null, d: null, e: null}");
  REQUIRE(problems.texts.size() == 2);
  CHECK(problems.texts[0] == "a=${b} (f.yaml:1): the interpolations form a cycle: a -> b -> a");
  CHECK(problems.texts[1] == "c=${c} (f.yaml:3): the interpolations form a cycle: c -> c");
  CHECK(problems.keys == std::vector<std::string>{"a", "b", "c", "d", "e"});
}

TEST_CASE("interpolation: a list has no names, and who asks is said") {
  CHECK(error_of("${list.x}") == "k=${list.x} (x.yaml:16): list is a list, and x is no number");
}

TEST_CASE("interpolation: a relative key inside an argument starts where the call stands") {
  CHECK(shown("'${oc.create:[x${.one}, {a: [${.one}]}]}'") == "[x1, {a: [1]}]");
  CHECK(shown("'${oc.select:nope,{a: ${.word}}}'") == "{a: text}");
  CHECK(*value("'a${oc.select:nope,[${.one}]}'").get_if<std::string>() == "a[1]");
  CHECK(shown("'${oc.env:VERLCPP_NO_SUCH,[${.one}]}'") == "'[1]'");
  CHECK(shown("'${oc.decode:\"[\\${.one}]\"}'") == "[1]");
  CHECK(contains(error_of("'${oc.create:{a: 1, b: ${.a}}}'"), "there is no key a"));
}

TEST_CASE("interpolation: oc.create, oc.dict.keys and oc.dict.values") {
  CHECK(shown("'${oc.create:{a: [1, ${one}]}}'") == "{a: [1, 1]}");
  CHECK(shown("'${oc.create:${list}}'") == "[5, {x: 6}]");
  CHECK(shown("{m: {a: 1, b: '${one}'}, k: '${oc.dict.keys:k.m}', v: '${oc.dict.values:.m}'}") ==
        "{m: {a: 1, b: 1}, k: [a, b], v: [1, 1]}");
  CHECK(shown("'x${oc.dict.values:group}'") ==
        R"('x[\'\${group.a}\', \'\${group.b}\', \'\${group.c}\', \'\${group.deep}\']')");
  CHECK(shown("${oc.create:text}") == "{text: null}");
  CHECK(shown(R"("${oc.create:'{a: [1]}'}")") == "{a: [1]}");
  CHECK(contains(error_of("'${oc.create:3}'"), "oc.create takes a map or a list"));
  CHECK(shown("{a: 1, k: '${oc.dict.keys:k}', u: 2}") == "{a: 1, k: [a, k, u], u: 2}");
  CHECK(contains(error_of("${oc.dict.keys:list}"), "list is no map"));
  CHECK(contains(error_of("${oc.dict.values:none}"), "there is no key none"));
}

TEST_CASE("interpolation: now and hydra lead to what is known of the run") {
  const auto shown_with = [](const std::string& yaml) {
    RunFacts facts;
    facts.now = 1'000'000'000;
    facts.hydra.set("job.num", Node(int64_t{3}));
    facts.hydra.set("run.dir", Node(Interpolation{"r/${k.x}", false}));
    return to_inline(*resolve(parse_yaml("k: " + yaml + "\n", "x.yaml"), facts).find("k"));
  };
  CHECK(shown_with("{x: run, y: '${hydra:run.dir}/${hydra:job.num}'}") == "{x: run, y: r/run/3}");
  CHECK(shown_with("'${hydra:job.num}'") == "3");
  CHECK(shown_with("'${now:%%f%f}'") == "'%f000000'");
  CHECK(shown_with("'${now:%Y-%m}'") == "'2001-09'");
  CHECK(contains(error_of("${hydra:job.num}"), "hydra:job.num is not known here"));
  CHECK(contains(config_error([&] { shown_with("'${hydra:verbose}'"); }),
                 "hydra:verbose is not known here; known are ${hydra:job.num}, ${hydra:run.dir}"));
  CHECK(contains(config_error([&] { shown_with("{x: '${hydra:run.dir}'}"); }), "form a cycle"));
  CHECK(contains(error_of("${now:}"), "now takes a format of the time, as in ${now:%Y-%m-%d}"));
}

TEST_CASE("interpolation: the key that one leads to") {
  const auto key = [](const char* text) {
    return followed_key(Interpolation{text, false}).value_or("-");
  };
  CHECK(key("${a.b}") == "a.b");
  CHECK(key("${a[b]}") == "a.b");
  CHECK(key("${oc.select:a.b,null}") == "a.b");
  for (const char* text : {"x${a}", "${.a}", "${oc.env:A}", "${a.${b}}", "${oc.select:${a}}"}) {
    CHECK(key(text) == "-");
  }
}

TEST_CASE("interpolation: a value keeps its own origin, a default has the line's") {
  const Node tree = resolved(
      "a: 1\nb: ${a}\nc: ${oc.select:b,3}\nd: ${oc.select:none,3}\n"
      "e: ${d}\nf: x${a}\ng: {h: 1}\ni: ${g}\n");
  const auto origin = [&](const char* key) { return tree.find(key)->origin().text; };
  CHECK(origin("b") == "x.yaml:1");
  CHECK(origin("c") == "x.yaml:1");
  CHECK(origin("d") == "x.yaml:4");
  CHECK(origin("e") == "x.yaml:4");
  CHECK(origin("f") == "x.yaml:6");
  CHECK(origin("i") == "x.yaml:7");
  CHECK(origin("i.h") == "x.yaml:7");
}

TEST_CASE("interpolation: overrides are in before anything is resolved") {
  const std::map<std::string, std::string> files = {
      {"main.yaml", "a: {x: 1, m: {p: 1}}\nb: ${oc.select:a.x,7}\nc: ${oc.select:a.m,{}}\n"}};
  const Node tree = resolve(composed(files, {"a.x=5", "+a.m.q=2"}));
  CHECK(to_inline(tree) == "{a: {x: 5, m: {p: 1, q: 2}}, b: 5, c: {p: 1, q: 2}}");
  CHECK(tree.find("b")->origin().text == "override 1");
  CHECK(tree.find("c.q")->origin().text == "override 2");
  CHECK(to_inline(*resolve(composed(files, {"b=${a.m.p}"})).find("b")) == "1");
}

TEST_CASE("interpolation: errors name the key, the text and the place") {
  CHECK(error_of("${worb}") == "k=${worb} (x.yaml:16): there is no key worb; did you mean word?");
  CHECK(error_of("${k}") == "k=${k} (x.yaml:16): the interpolations form a cycle: k -> k");
  CHECK(contains(error_of("{a: '${k.b}', b: '${k}'}"), "the interpolations form a cycle: "));
  CHECK(contains(error_of("${oc.dict:x}"), "unknown resolver oc.dict; there are oc.select"));
  CHECK(contains(error_of("'${wo${word}}'"), "unexpected { in a key"));
  CHECK(contains(error_of("'${${one}}'"), "1 is no text, which is what is wanted here"));
  CHECK(contains(error_of("'${oc.select:}'"), "oc.select takes a key and a default"));
  CHECK(contains(error_of("'${oc.decode:\"[1\"}'"), "there is no ] that closes this ["));
  CHECK(contains(error_of("'${oc.select:a,b(c)}'"), "a resolver's arguments hold no calls"));
  CHECK(contains(error_of("'${oc.select:a,b#}'"), "unexpected #; quote a text that holds one"));
  CHECK(contains(error_of("${oc.select:a,b,c}"), "oc.select takes a key and a default"));
  CHECK(contains(error_of("'${one'"), "there is no } that closes this ${"));
  CHECK(contains(error_of("'${}'"), "a key is missing or incomplete"));
  CHECK(contains(error_of("'${a..b}'"), "a key is missing or incomplete"));
  std::string deep = "one";
  for (int i = 0; i < 3000; ++i) deep = "${" + deep + "}";
  CHECK(contains(error_of("'" + deep + "'"), "the interpolations are nested too deeply"));
}

TEST_CASE("interpolation: all that lead nowhere are named, each mistake once") {
  CHECK(config_error([] {
          resolved("a: ${worb}\nb: {c: '${a}', d: 'x${oc.env:VERLCPP_TEST_UNSET}'}\ne: 1\n");
        }) ==
        "the configuration has 2 problems:\n"
        "  1. a=${worb} (x.yaml:1): there is no key worb\n"
        "  2. b.d=x${oc.env:VERLCPP_TEST_UNSET} (x.yaml:2): the environment variable "
        "VERLCPP_TEST_UNSET is not set");
  CHECK(config_error([] { resolved("a: ${b}\nb: ${a}\n"); }) ==
        "a=${b} (x.yaml:1): the interpolations form a cycle: a -> b -> a");
}

TEST_CASE("interpolation: a way through a link needs nothing else of what it leads to") {
  for (const std::string link : {"${n}", "${oc.select:n,null}"}) {
    for (const std::string back : {"${m.k}", "${oc.select:m.k,7}", "${.k}"}) {
      INFO(link << " " << back);
      CHECK(to_inline(resolved("m: " + link + "\nn: {k: 1, l: '" + back + "'}\n")) ==
            "{m: {k: 1, l: 1}, n: {k: 1, l: 1}}");
    }
  }
}

TEST_CASE("interpolation: oc.select's default stands for ??? itself, not for what leads to it") {
  const auto selected = [](const std::string& yaml) {
    return to_inline(*resolved(yaml).find("l"));
  };
  const std::string open = "k: '??\?'\n";
  CHECK(selected(open + "l: ${oc.select:k,e}\n") == "'e'");
  CHECK(selected(open + "l: ${oc.select:k.x,e}\n") == "'e'");
  CHECK(selected("m: ${n}\nn: {k: '??\?'}\nl: ${oc.select:m.k,e}\n") == "'e'");
  CHECK(selected(open + "m: ${oc.select:k,null}\nl: ${oc.select:m.x,e}\n") == "'e'");
  CHECK(selected(open + "m: ${k}\nl: ${oc.select:m,e}\n") == "'??\?'");
  CHECK(selected(open + "m: ${k}\nl: ${oc.select:m.x,e}\n") == "'??\?'");
  CHECK(selected(open + "m: {z: '${k}'}\nl: ${oc.select:m.z,e}\n") == "'??\?'");
}

TEST_CASE("interpolation: each key is followed once, also inside a text") {
  std::string yaml = "a0: x\n";
  for (int i = 1; i < 16; ++i) {
    yaml += "a" + std::to_string(i) + ": ${.a" + std::to_string(i - 1) + "}${.a" +
            std::to_string(i - 1) + "}\n";
  }
  // Thirty more of one character: two to the thirty if each were followed twice.
  yaml += "b0: ''\n";
  for (int i = 1; i < 40; ++i) {
    yaml += "b" + std::to_string(i) + ": ${.b" + std::to_string(i - 1) + "}${.b" +
            std::to_string(i - 1) + "}\n";
  }
  const Node tree = resolve(composed({{"main.yaml", yaml}}, {}));
  CHECK(tree.find("a15")->get_if<std::string>()->size() == 32768);
  CHECK(tree.find("b39")->get_if<std::string>()->empty());
}
