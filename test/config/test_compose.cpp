#include <set>

#include "config/compose.h"
#include "helpers.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::config;

namespace {

/// verl's shape in small.
const Files kEngines = {
    {"main.yaml",
     "defaults:\n  - model_engine: one\n  - actor@a.actor: ${model_engine}_actor\n  - _self_\n"
     "top: 1\n"},
    {"model_engine/one.yaml", "# @package _global_\nmodel_engine: one\n"},
    {"model_engine/two.yaml", "\n# @other x\n# @package _global_\nmodel_engine: two\n"},
    {"actor/one_actor.yaml",
     "defaults: [../optim@optim: sgd, actor, _self_]\nname: one\noptim: {wd: 3}\n"},
    {"actor/two_actor.yaml", "defaults: [../optim@optim: adam, actor]\nname: two\n"},
    {"actor/actor.yaml", "name: base\noptim: {lr: 0.1}\n"},
    {"optim/sgd.yaml", "kind: sgd\nlr: 1\nwd: 1\n"},
    {"optim/adam.yaml", "kind: adam\nlr: 1\n"},
};

const Files kValues = {
    {"main.yaml",
     "s: {x: 1, y: 2}\nb: ${s}\nn: null\nl: [1, 2]\nd: {k: 1}\nfree: {}\nname: text\n"}};

}  // namespace

TEST_CASE("compose: nested defaults, packages and interpolated choices") {
  const Node tree = composed(kEngines);
  CHECK(to_inline(tree) ==
        "{model_engine: one, a: {actor: {optim: {kind: sgd, lr: 0.1, wd: 3}, name: one}}, top: 1}");
  CHECK(tree.find("a.actor.optim.kind")->origin().text == "conf/optim/sgd.yaml:1");
  CHECK(tree.find("a.actor.optim.lr")->origin().text == "conf/actor/actor.yaml:2");
  CHECK(tree.find("a.actor.optim.wd")->origin().text == "conf/actor/one_actor.yaml:3");
}

TEST_CASE("compose: a choice on the command line reaches interpolated choices") {
  // two_actor has no _self_: its own keys come last.
  CHECK(tree_text(kEngines, {"model_engine=two"}) ==
        "{model_engine: two, a: {actor: {optim: {kind: adam, lr: 0.1}, name: two}}, top: 1}");
  CHECK(contains(tree_text(kEngines, {"actor@a.actor=two_actor"}),
                 "{model_engine: one, a: {actor: "
                 "{optim: {kind: adam"));
  CHECK(contains(tree_text(kEngines, {"optim@a.actor.optim=adam", "a.actor.name=z"}),
                 "{kind: adam, lr: 0.1, wd: 3}, name: z"));
}

TEST_CASE("compose: an absent _self_ is last, a present one stands where it is") {
  const Files shared = {{"base.yaml", "x: base\ny: base\n"}};
  Files files = shared;
  files["main.yaml"] = "defaults: [base]\nx: main\n";
  CHECK(tree_text(files) == "{x: main, y: base}");
  files["main.yaml"] = "defaults: [_self_, base]\nx: main\nz: main\n";
  CHECK(tree_text(files) == "{x: base, z: main, y: base}");
  files["main.yaml"] = "defaults: [_self_, base, _self_]\n";
  CHECK(compose_error(files) == "conf/main.yaml:1: _self_ comes twice in the defaults list");
}

TEST_CASE("compose: override of a choice in an outer file, in the outermost one first") {
  Files files = kEngines;
  files["outer.yaml"] = "defaults: [main, override model_engine: two, _self_]\ntop: 2\n";
  const auto outer = [&](const std::vector<std::string>& overrides) {
    return to_inline(compose({{in_memory("conf", files)}, "outer.yaml", overrides}).tree);
  };
  CHECK(outer({}) ==
        "{model_engine: two, a: {actor: {optim: {kind: adam, lr: 0.1}, name: two}}, top: 2}");
  CHECK(contains(outer({"model_engine=one"}), "kind: sgd"));
  files["outer.yaml"] =
      "defaults: [main, override optim@a.actor.optim: adam, override /model_engine: one, _self_]\n";
  CHECK(contains(outer({}), "kind: adam, lr: 0.1, wd: 3}, name: one"));
  files["outer.yaml"] = "defaults: [main, override nothing: two, _self_]\n";
  CHECK(contains(config_error([&] { outer({}); }),
                 "(conf/outer.yaml:1): the group nothing is not in the defaults list"));
}

TEST_CASE("compose: groups can be added, removed, chosen as null, and be optional") {
  CHECK(contains(tree_text(kEngines, {"+optim=adam"}), "top: 1, optim: {kind: adam, lr: 1}}"));
  CHECK(contains(tree_text(kEngines, {"+optim@x.y=adam"}), "x: {y: {kind: adam, lr: 1}}}"));
  CHECK(tree_text(kEngines, {"~actor@a.actor"}) == "{model_engine: one, top: 1}");
  CHECK(tree_text(kEngines, {"actor@a.actor=null"}) == "{model_engine: one, top: 1}");
  CHECK(tree_text(kEngines, {"~actor@a.actor=one_actor"}) == "{model_engine: one, top: 1}");
  CHECK(compose_error(kEngines, {"~actor@a.actor=two_actor"}) ==
        "~actor@a.actor=two_actor (override 1): actor@a.actor is one_actor (conf/main.yaml:3)");
  Files files = {{"main.yaml", "defaults: [optional g: a, g@h: null]\nx: 1\n"}};
  CHECK(tree_text(files) == "{x: 1}");
  files["g/a.yaml"] = "y: 1\n";
  CHECK(tree_text(files) == "{g: {y: 1}, x: 1}");
}

TEST_CASE("compose: wrong choices name what is available") {
  CHECK(compose_error(kEngines, {"top=2", "model_engine=fsdp"}) ==
        "model_engine=fsdp (override 2): there is no option fsdp; available: one, two");
  Files single = kEngines;
  single.erase("model_engine/two.yaml");
  CHECK(compose_error(single, {"model_engine=fsdp"}) ==
        "model_engine=fsdp (override 1): there is no option fsdp; only one is available");
  CHECK(compose_error(kEngines, {"model_engine=[1]"}) ==
        "model_engine=[1] (override 1): model_engine is a group of the defaults list and takes "
        "the name of one option, or a list of names; available: one, two");
  CHECK(compose_error(kEngines, {"model_engine=[one]"}) ==
        "conf/main.yaml:3: ${model_engine}_actor must name a group chosen by one name in the "
        "defaults list");
  CHECK(compose_error(kEngines, {"optim=adam"}) ==
        "optim=adam (override 1): the group optim is not in the defaults list; did you mean "
        "optim@a.actor.optim=adam?");
  CHECK(compose_error(kEngines, {"++model_engine=two"}) ==
        "++model_engine=two (override 1): a group cannot be forced with ++; write "
        "model_engine=two, or + to add it to the defaults list");
  CHECK(compose_error(kEngines, {"x/y=two"}) ==
        "x/y=two (override 1): there is no group x/y in conf");
  Files files = {{"main.yaml", "defaults:\n  - g: b\n"}, {"g/a.yaml", ""}};
  CHECK(compose_error(files) == "conf/main.yaml:2: g: there is no option b; only a is available");
  // A file that nobody chose may be broken.
  files["g/c.yaml"] = "x: [\n";
  CHECK(compose_error(files) == "conf/main.yaml:2: g: there is no option b; available: a, c");
  files = {{"main.yaml", "defaults:\n  - other\n"}};
  CHECK(compose_error(files) == "conf/main.yaml:2: there is no other.yaml in conf");
  CHECK(config_error([&] {
          compose({{in_memory("conf", files)}, "mian", {}});
        }) == "there is no mian.yaml in conf; did you mean main?");
}

TEST_CASE("compose: malformed defaults lists are refused with their place") {
  const auto error = [](const std::string& text) { return compose_error({{"main.yaml", text}}); };
  CHECK(error("defaults: x\n") == "conf/main.yaml:1: defaults must be a list, got 'x'");
  CHECK(contains(error("defaults:\n  - 3\n"), "conf/main.yaml:2: expected a config name or group"));
  CHECK(contains(error("defaults:\n  - {a: x, b: y}\n"), "expected a config name or group: name"));
  CHECK(
      contains(error("defaults:\n  - a: [x, 1]\n"), "a group takes the name of one option, or a"));
  CHECK(contains(error("defaults:\n  - ../x\n"), "../x leads out of the search path"));
  CHECK(contains(error("defaults:\n  - main\n"), "form a cycle: main.yaml -> main.yaml"));
  CHECK(contains(error("defaults:\n  - g: ${nope}_x\n"), "${nope}_x must name a group chosen"));
  CHECK(error("[1]") == "conf/main.yaml:1: the file must be a map of keys, not a list");
}

TEST_CASE("compose: value overrides, the last one wins") {
  const Node tree = composed(kValues, {"s.x=5", "l=[3]", "d={k: 2}", "n=1", "s.x=6", "l.0=9"});
  CHECK(to_inline(tree) ==
        "{s: {x: 6, y: 2}, b: ${s}, n: 1, l: [9], d: {k: 2}, free: {}, name: text}");
  CHECK(tree.find("s.x")->origin().text == "override 5");
  CHECK(tree.find("s.y")->origin().text == "conf/main.yaml:1");
  CHECK(tree.find("d.k")->origin().text == "override 3");
}

TEST_CASE("compose: adding, forcing and deleting follow Hydra") {
  const auto part = [](const std::vector<std::string>& overrides, const std::string& key) {
    return to_inline(*composed(kValues, overrides).find(key));
  };
  CHECK(part({"+free.a.b=1"}, "free") == "{a: {b: 1}}");
  CHECK(part({"+new.key=[1]"}, "new") == "{key: [1]}");
  CHECK(part({"+n=3"}, "n") == "3");
  CHECK(part({"+d={z: 2}"}, "d") == "{k: 1, z: 2}");
  CHECK(part({"+l=[3]"}, "l") == "[3]");
  CHECK(part({"++s.x=3", "++s.z=4"}, "s") == "{x: 3, y: 2, z: 4}");
  CHECK(part({"++s={w: 1}"}, "s") == "{x: 1, y: 2, w: 1}");
  CHECK(part({"+s.x.w=1"}, "s") == "{x: {w: 1}, y: 2}");
  CHECK(part({"d=1"}, "d") == "1");
  CHECK(part({"+b.z=2"}, "b") == "{z: 2}");
  CHECK(part({"~d.k"}, "d") == "{}");
  CHECK(part({"~d.k=1"}, "d") == "{}");
  CHECK(part({"~d.k=null"}, "d") == "{}");
  CHECK(part({"~s", "+s.x=4"}, "s") == "{x: 4}");
  CHECK(composed(kValues, {"+free.a.b=1"}).find("free.a")->origin().text == "override 1");
}

TEST_CASE("compose: wrong value overrides say what would be right") {
  CHECK(contains(compose_error({{"main.yaml", "'a.b': {c: 1}\n"}}, {"q=1"}), "there is no key q;"));
  CHECK(compose_error(kValues, {"s.x=1", "s.xx=2"}) ==
        "s.xx=2 (override 2): there is no key s.xx; did you mean s.x?");
  CHECK(compose_error(kValues, {"qqqqq=2"}) ==
        "qqqqq=2 (override 1): there is no key qqqqq; +qqqqq=2 adds a key of your own");
  CHECK(compose_error(kValues, {"d={kk: 2}"}) ==
        "d={kk: 2} (override 1): there is no key d.kk; did you mean d.k?");
  const Files free = {{"main.yaml", "override_config: {a: 1}\n"}};
  CHECK(compose_error(free, {"override_config.zzzzz=2"}) ==
        "override_config.zzzzz=2 (override 1): there is no key override_config.zzzzz; "
        "+override_config.zzzzz=2 adds a new key");
  CHECK(compose_error(free, {"override_config.b=2"}) ==
        "override_config.b=2 (override 1): there is no key override_config.b; did you mean "
        "override_config.a? +override_config.b=2 adds a new key");
  CHECK(compose_error(kValues, {"+s.x=1"}) ==
        "+s.x=1 (override 1): s.x already exists (1, conf/main.yaml:1); s.x=1 changes it, "
        "++s.x=1 adds or changes it");
  CHECK(compose_error(kValues, {"b.x=1"}) ==
        "b.x=1 (override 1): there is no key b.x, because a group above it is ${s}");
  CHECK(compose_error(kValues, {"~s.z"}) ==
        "~s.z (override 1): there is no key s.z; did you mean s.x?");
  CHECK(compose_error(kValues, {"~s.x=2"}) ==
        "~s.x=2 (override 1): deletes the key only where it has this value, but s.x is 1 "
        "(conf/main.yaml:1), and it is needed: s.x=VALUE changes it");
  CHECK(compose_error(kValues, {"~l.0"}) ==
        "~l.0 (override 1): an element of a list cannot be deleted; l=[...] sets the list");
  CHECK(compose_error(kValues, {"++l.5=2"}) == "++l.5=2 (override 1): l is a list of 2 elements");
  CHECK(contains(compose_error(kValues, {"name=[1"}), "override 1, column 6: "));
}

TEST_CASE("compose: layers merge as OmegaConf merges them") {
  Files files = {{"main.yaml", "defaults: [base]\nx: ?\?\?\nm:\n  y: ?\?\?\n  z: ?\?\?\n"},
                 {"base.yaml", "x: 1\nm: {y: 2}\n"}};
  CHECK(tree_text(files) == "{x: 1, m: {y: 2, z: '?\?\?'}}");
  const Node tree = composed(files);
  CHECK(tree.find("m.y")->origin().text == "conf/base.yaml:2");
  CHECK(tree.find("m.z")->origin().text == "conf/main.yaml:5");
  CHECK(tree_text(files, {"+m.z=3", "x=?\?\?"}) == "{x: '?\?\?', m: {y: 2, z: 3}}");
  files["main.yaml"] = "defaults: [base]\nm: [1]\n";
  CHECK(compose_error(files) ==
        "m is a map (conf/base.yaml:2) and cannot become a list (conf/main.yaml:2)");
  CHECK(compose_error(kValues, {"++l={k: 1}"}) ==
        "++l={k: 1} (override 1): l is a list (conf/main.yaml:4) and cannot become a map (override "
        "1)");
}

TEST_CASE("compose: a map over a key that leads to a map is merged with what it leads to") {
  Files files = {{"base.yaml", "a: {x: 1, y: '${z}'}\nb: ${a}\nc: ${b}\nd: {e: '${a}'}\nz: 3\n"},
                 {"main.yaml", "defaults: [base]\nb: {x: 2}\nc: {w: 4}\n"}};
  CHECK(tree_text(files, {"d={e: {x: 5}}"}) ==
        "{a: {x: 1, y: ${z}}, b: {x: 2, y: ${z}}, c: {x: 2, y: ${z}, w: 4}, "
        "d: {e: {x: 5, y: ${z}}}, z: 3}");
  files["main.yaml"] = "defaults: [base]\nb: 1\n";
  CHECK(to_inline(*composed(files).find("b")) == "1");
  CHECK(to_inline(*composed(files, {"d.e={x: 5}"}).find("d.e")) == "{x: 5}");
}

TEST_CASE(
    "compose: ??? over a key that leads to a map makes it a copy, a list cannot stand there") {
  Files files = {{"base.yaml", "a: {x: 1}\nb: ${oc.select:a}\nc: {d: '${..a}'}\nl: ${missing}\n"},
                 {"main.yaml", "defaults: [base]\nb: ?\?\?\nc: {d: {y: 2}}\n"}};
  CHECK(tree_text(files) == "{a: {x: 1}, b: {x: 1}, c: {d: {x: 1, y: 2}}, l: ${missing}}");
  files["main.yaml"] = "defaults: [base]\nb: [1]\n";
  CHECK(contains(compose_error(files), "b is a map (conf/base.yaml:1) and cannot become a list"));
}

TEST_CASE("compose: + and ~ look at what an interpolation leads to") {
  const Files files = {
      {"main.yaml", "a: 1\nn: null\nb: ${a}\nc: ${n}\nd: ${missing}\nm: {x: 1, y: 2}\n"}};
  CHECK(contains(compose_error(files, {"+b=2"}), "b already exists (1, conf/main.yaml:1)"));
  CHECK(to_inline(*composed(files, {"+c=2"}).find("c")) == "2");
  CHECK(contains(compose_error(files, {"+d=2"}), "+d=2 (override 1): "));
  CHECK(contains(compose_error(files, {"+d={x: 2}"}), "there is no key missing"));
  CHECK(contains(compose_error(files, {"a=?\?\?", "~b"}),
                 "b is ${a} (conf/main.yaml:3), which leads"));
  CHECK(composed(files, {"~b=1"}).find("b") == nullptr);
  // As Python compares: 1 == 1.0 == True, and the order of a map does not count.
  CHECK(composed(files, {"~a=true"}).find("a") == nullptr);
  CHECK(composed(files, {"~m={y: 2.0, x: 1}"}).find("m") == nullptr);
  CHECK(contains(compose_error(files, {"~m={y: 2}"}), "only where it has this value"));
}

TEST_CASE("compose: a map replaces what is no map, and its keys are new") {
  const Files files = {{"main.yaml", "m: {l: true, n: {k: 1}, i: '${m.n}'}\n"}};
  CHECK(tree_text(files, {"m={l: {z: 2}}"}) == "{m: {l: {z: 2}, n: {k: 1}, i: ${m.n}}}");
  CHECK(contains(compose_error(files, {"m={n: {z: 2}}"}), "there is no key m.n.z"));
  CHECK(contains(compose_error(files, {"m={i: {z: 2}}"}), "there is no key m.i.z"));
}

TEST_CASE("compose: the header of a file stands before any other comment") {
  const auto text = [](const std::string& header) {
    return tree_text({{"main.yaml", "defaults: [g: a]\n"}, {"g/a.yaml", header + "x: 1\n"}});
  };
  CHECK(text("\n#@package b.c\n") == "{b: {c: {x: 1}}}");
  CHECK(text("# text\n# @package b.c\n") == "{g: {x: 1}}");
  CHECK(text("# @package _global_.d\n") == "{d: {x: 1}}");
}

TEST_CASE("compose: what cannot be applied or resolved is left out where problems are collected") {
  KeyProblems overrides, interpolations;
  const Composed made = compose({{in_memory("conf", {{"main.yaml", "a: {bee: 1, c: 2, d: 3}"}})},
                                 "main",
                                 {"a.bees=5", "a.c=${nope}", "a.d=4", "+a.d=5"}},
                                overrides);
  CHECK(overrides.texts.size() == 2);
  CHECK(contains(overrides.texts[0], "there is no key a.bees; did you mean a.bee?"));
  CHECK(std::set<std::string>(overrides.keys.begin(), overrides.keys.end()) ==
        std::set<std::string>{"a.bees", "a.bee", "a.d"});
  CHECK(to_inline(resolve(made.tree, {}, interpolations)) == "{a: {bee: 1, c: null, d: 4}}");
  CHECK(interpolations.texts ==
        std::vector<std::string>{"a.c=${nope} (override 2): there is no key nope"});
  CHECK(interpolations.keys == std::vector<std::string>{"a.c"});
}

TEST_CASE("compose: an override that a later one beats is told") {
  const auto notes = [](const std::vector<std::string>& overrides) {
    return compose({{in_memory("conf", kValues)}, "main", overrides}).notes;
  };
  CHECK(
      notes({"s.x=5", "name=a", "s.x=6"}) ==
      std::vector<std::string>{"s.x=5 (override 1) has no effect: s.x=6 (override 3) comes later"});
  CHECK(notes({"s.x=5", "~s"}).size() == 1);
  CHECK(notes({"s.x=5", "s=1"}).size() == 1);
  CHECK(notes({"s.x=5", "s.x=5"}).empty());
  CHECK(notes({"s={x: 5}", "s={y: 6}"}).empty());
  // A map beats what it holds itself.
  CHECK(notes({"s.x=5", "s={x: 6}"}) ==
        std::vector<std::string>{
            "s.x=5 (override 1) has no effect: s={x: 6} (override 2) comes later"});
  CHECK(notes({"s={x: 5}", "s={x: 6,y: 7}"}).size() == 1);
  CHECK(notes({"s={x: 5,y: 7}", "s={x: 6}"}).empty());
  CHECK(notes({"s.x=5", "s={y: 6}"}).empty());
  CHECK(notes({"s.x=5", "s={x: 5}"}).empty());
  CHECK(notes({"s.x=5", "s.y=5", "~n"}).empty());
  // A name with a dot is one name.
  CHECK(notes({"++f={a.b: 1}", "++f={a: {b: 2}}"}).empty());
  CHECK(notes({"++f={a.b: 1}", "++f={a.b: 2}"}).size() == 1);
  CHECK(notes({"++f={'': 1}", "++f={'': 2}"}).size() == 1);
  const ComposeRequest engines{{in_memory("conf", kEngines)},
                               "main",
                               {"model_engine=one", "a.actor.name=x", "model_engine=two"}};
  CHECK(compose(engines).notes.size() == 1);
}

TEST_CASE("compose: the first search path wins, file by file") {
  const SearchPath mine = in_memory("mine", {{"g/a.yaml", "x: mine\n"}, {"g/c.yaml", "x: c\n"}});
  const SearchPath shipped = in_memory(
      "conf", {{"main.yaml", "defaults: [g: a]\n"}, {"g/a.yaml", "x: conf\n"}, {"g/b.yaml", ""}});
  const auto text = [&](const std::vector<std::string>& overrides) {
    return to_inline(compose({{mine, shipped}, "main", overrides}).tree);
  };
  CHECK(text({}) == "{g: {x: mine}}");
  CHECK(text({"g=c"}) == "{g: {x: c}}");
  CHECK(contains(config_error([&] { text({"g=z"}); }), "available: a, b, c"));
}
