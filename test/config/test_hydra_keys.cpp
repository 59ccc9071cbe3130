#include <filesystem>
#include <fstream>

#include "config/compose.h"
#include "config/embedded.h"
#include "helpers.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::config;

namespace {

const Files kValues = {{"main.yaml", "n: 1\nname: text\n"}};

}  // namespace

TEST_CASE("hydra: searchpath adds folders") {
  namespace fs = std::filesystem;
  const fs::path place = fs::temp_directory_path() / "verlcpp_test_hydra_keys";
  fs::remove_all(place);
  fs::create_directories(place / "g");
  std::ofstream(place / "g" / "far.yaml") << "x: far\n";
  std::ofstream(place / "g" / "a.yaml") << "x: shadowed\n";
  Files files = {{"main.yaml", "defaults: [g: a]\n"}, {"g/a.yaml", "x: near\n"}};
  const std::string search = "hydra.searchpath=['file://" + place.string() + "']";
  const Node tree = composed(files, {search, "g=far"});
  CHECK(to_inline(tree) == "{g: {x: far}}");
  CHECK(tree.find("g.x")->origin().text == (place / "g/far.yaml").string() + ":1");
  CHECK(tree_text(files, {search}) == "{g: {x: near}}");
  files["main.yaml"] += "hydra: {searchpath: ['file://" + place.string() + "']}\n";
  CHECK(tree_text(files, {"g=far"}) == "{g: {x: far}}");
  CHECK(contains(compose_error(files, {"g=far", "hydra.searchpath=[]"}), "there is no option far"));
  // Without a scheme it is a folder too; null is none at all, and leaves the file's.
  CHECK(tree_text(files, {"g=far", "hydra.searchpath=null"}) == "{g: {x: far}}");
  CHECK(tree_text({{"main.yaml", "{}"}}, {"+g=far", "hydra.searchpath=[" + place.string() + "]"}) ==
        "{g: {x: far}}");
  CHECK(tree_text(kValues, {"hydra.searchpath=null"}) == tree_text(kValues, {}));
  setenv("VERLCPP_TEST_PLACE", place.c_str(), 1);
  CHECK(tree_text(files, {"hydra.searchpath=['file://${oc.env:VERLCPP_TEST_PLACE}']", "g=far"}) ==
        "{g: {x: far}}");
  const ComposeRequest absent{
      {in_memory("conf", files)}, "main", {"hydra.searchpath=['file:///nowhere/at/all']"}};
  CHECK(compose(absent).notes ==
        std::vector<std::string>{
            "hydra.searchpath (override 1): there is no folder /nowhere/at/all; it is skipped"});
  fs::remove_all(place);

  const std::string wanted =
      " must be FOLDER or file:///FOLDER (or pkg://verl.trainer.config for verl's own files, which "
      "are here)";
  for (const std::string element : {"'s3://a'", "''", "null", "{a: b}"}) {
    CHECK(compose_error(kValues, {"hydra.searchpath=[file:///a," + element + "]"})
              .find(": its element ") != std::string::npos);
  }
  CHECK(compose_error(kValues, {"hydra.searchpath=[file:///a,3]"}) ==
        "hydra.searchpath = ['file:///a', 3] (override 1): its element 3" + wanted);
  CHECK(compose_error(kValues, {"hydra.searchpath=conf"}) ==
        "hydra.searchpath = 'conf' (override 1): must be a list, as in [FOLDER]; each element" +
            wanted);
  CHECK(contains(compose_error({{"main.yaml", "hydra: 1\n"}}),
                 "hydra = 1 (conf/main.yaml:1): must be a map"));
  CHECK(contains(compose_error(kValues, {"mine=a", "g/x=b", "hydra.searchpath=[file:///nowhere]"}),
                 "there is no group g/x in conf, /nowhere (no such folder)"));
}

TEST_CASE("hydra: pkg://verl.trainer.config is the embedded tree, other packages are skipped") {
  const Files files = {{"main.yaml", "defaults: [{algorithm@mine: rollout_correction}]\n"}};
  const auto given = [&](const std::string& places) {
    return compose({{in_memory("mine", files)}, "main", {"hydra.searchpath=[" + places + "]"}});
  };
  for (const char* place : {"pkg://verl.trainer.config", "pkg://verl/trainer/config/"}) {
    const Composed found = given(place);
    CHECK(found.notes.empty());
    CHECK(found.tree.find("mine")->items()[0].second.origin().text.starts_with("conf/algorithm/"));
  }
  const Composed both = given("pkg://my.package,pkg://verl.trainer.config");
  CHECK(both.notes == std::vector<std::string>{
                          "hydra.searchpath (override 1): pkg://my.package is a folder inside a "
                          "Python package, which cannot be opened here; it is skipped"});
  // Searched where it stands already.
  const std::string error = config_error([] {
    compose({{in_memory("mine", {}), embedded()},
             "main",
             {"hydra.searchpath=[pkg://verl.trainer.config]"}});
  });
  CHECK(contains(error, "there is no main.yaml in mine, conf"));
  CHECK(!contains(error, "conf, conf"));
}

TEST_CASE("hydra: keys that nothing reads have no effect, and are named") {
  const auto notes = [](const Files& files, const std::vector<std::string>& overrides) {
    return compose({{in_memory("conf", files)}, "main", overrides}).notes;
  };
  const std::string of_hydra =
      " no effect here; of Hydra's own keys only hydra.searchpath, hydra.run.dir, hydra.sweep.dir "
      "and hydra.sweep.subdir have one";
  CHECK(notes(kValues, {"hydra.verbose=True"}) ==
        std::vector<std::string>{"hydra.verbose (override 1) has" + of_hydra});
  CHECK(notes(kValues, {"hydra/run={dir: z}"}).size() == 1);  // a group's choice, whatever it is
  CHECK(notes(kValues, {"hydra/launcher=joblib", "~hydra.job"}) ==
        std::vector<std::string>{"hydra/launcher (override 1), hydra.job (override 2) have" +
                                 of_hydra});
  CHECK(compose_error(kValues, {"~hydra.searchpath", "~hydra.run", "hydra.sweep.dir="}) ==
        "the configuration has 3 problems:\n"
        "  1. ~hydra.searchpath (override 1): a key of Hydra cannot be deleted; "
        "hydra.searchpath=[] empties it\n"
        "  2. ~hydra.run (override 2): a key of Hydra cannot be deleted; leave this out\n"
        "  3. hydra.sweep.dir = '' (override 3): must name a folder");
  CHECK(notes({{"main.yaml",
                "defaults:\n  - _self_\n  - override hydra/job_logging: none\n"
                "  - override /hydra/launcher: none\nhydra: {job: {chdir: false}}\n"}},
              {}) == std::vector<std::string>{"hydra.job.chdir (conf/main.yaml:5), "
                                              "hydra/job_logging (conf/main.yaml:3), "
                                              "/hydra/launcher (conf/main.yaml:4) have" +
                                              of_hydra});
}

TEST_CASE("hydra: folders are handed on, overrides before the primary file") {
  const Files files = {
      {"main.yaml", "hydra: {run: {dir: a}, sweep: {dir: b, subdir: '${x}'}}\nx: 1\n"}};
  const auto hydra = [&](const std::vector<std::string>& overrides) {
    return to_inline(compose({{in_memory("conf", files)}, "main", overrides}).hydra);
  };
  CHECK(hydra({}) == "{run: {dir: a}, sweep: {dir: b, subdir: ${x}}}");
  CHECK(hydra({"hydra.sweep.dir=c", "x=2", "++hydra.run.dir=${now:%Y}"}) ==
        "{run: {dir: '${now:%Y}'}, sweep: {dir: c, subdir: ${x}}}");
  CHECK(tree_text(files) == "{x: 1}");
  const auto refused = [&](const std::string& text) { return compose_error(files, {text}); };
  CHECK(refused("hydra.sweep.dir=''") == "hydra.sweep.dir = '' (override 1): must name a folder");
  CHECK(refused("hydra.run.dir=[a]") == "hydra.run.dir = [a] (override 1): must name a folder");
  CHECK(
      refused("hydra.sweep.dir=a,b") ==
      "hydra.sweep.dir=a,b (override 1): is a sweep, and a key under hydra takes one value (the "
      "folders of -m come from hydra.sweep.dir and hydra.sweep.subdir); a name with a comma stands "
      "in quotes that the shell leaves there: \"hydra.sweep.dir='x,y'\"");
}

TEST_CASE("hydra: a block of a file that is listed counts, below the outer ones") {
  const auto hydra = [](const Files& files, const std::vector<std::string>& overrides) {
    return to_inline(compose({{in_memory("conf", files)}, "main", overrides}).hydra);
  };
  Files files = {{"main.yaml", "defaults: [inner, _self_]\n"},
                 {"inner.yaml", "hydra: {sweep: {dir: a, subdir: b}}\nx: 1\n"}};
  CHECK(hydra(files, {}) == "{sweep: {dir: a, subdir: b}}");
  CHECK(tree_text(files) == "{x: 1}");
  files["main.yaml"] += "hydra: {sweep: {dir: c}}\n";
  CHECK(hydra(files, {"hydra.sweep.subdir=d"}) == "{sweep: {dir: c, subdir: d}}");
  // Under the package of a group it is a key like any other.
  files = {{"main.yaml", "defaults: [g: a]\n"}, {"g/a.yaml", "hydra: {run: {dir: a}}\n"}};
  CHECK(hydra(files, {}) == "{}");
  CHECK(tree_text(files) == "{g: {hydra: {run: {dir: a}}}}");
  files["g/a.yaml"] = "# @package _global_\n" + files["g/a.yaml"];
  CHECK(hydra(files, {}) == "{run: {dir: a}}");
  files["g/a.yaml"] += "x: 1\n";
  files["main.yaml"] = "defaults: [g: a]\nhydra: {searchpath: []}\n";
  CHECK(tree_text(files) == "{x: 1}");
  files["g/a.yaml"] = "# @package _global_\nhydra: {searchpath: []}\n";
  CHECK(
      compose_error(files) ==
      "hydra.searchpath = [] (conf/g/a.yaml:2): only the primary file, main.yaml, and the command "
      "line can set it");
}

TEST_CASE("hydra: maps set the folders that they name") {
  const Files files = {{"main.yaml", "hydra: {run: {dir: a}, sweep: {dir: b}}\n"}};
  const auto hydra = [&](const std::vector<std::string>& overrides) {
    return to_inline(compose({{in_memory("conf", files)}, "main", overrides}).hydra);
  };
  CHECK(hydra({"hydra.run={dir: x}"}) == "{run: {dir: x}, sweep: {dir: b}}");
  CHECK(hydra({"++hydra.sweep={subdir: x}"}) == "{run: {dir: a}, sweep: {dir: b, subdir: x}}");
  CHECK(hydra({"hydra={run: {dir: x}}"}) == "{run: {dir: x}, sweep: {dir: b}}");
  CHECK(hydra({"hydra.run={}"}) == "{run: {dir: a}, sweep: {dir: b}}");
  const auto refused = [&](const std::string& text) { return compose_error(files, {text}); };
  CHECK(refused("hydra.run={dir: [x]}") == "hydra.run.dir = [x] (override 1): must name a folder");
  CHECK(refused("hydra.run=x") ==
        "hydra.run = 'x' (override 1): must be a map, as in hydra.run={dir: FOLDER}");
  CHECK(contains(
      compose({{in_memory("conf", files)}, "main", {"hydra.run={dir: x, more: 1}"}}).notes.at(0),
      "hydra.run.more (override 1) has no effect"));
}

TEST_CASE("hydra: names that are empty or hold dots") {
  const auto of = [](const std::string& block) {
    return compose({{in_memory("conf", {{"main.yaml", block}})}, "main", {}});
  };
  CHECK(compose_error({{"main.yaml", "hydra: {run.dir: x}\n"}}) ==
        "hydra: run.dir = 'x' (conf/main.yaml:1): is read as one name with dots in it; a.b is "
        "written a: "
        "{b: "
        "VALUE}");
  CHECK(of("hydra: {a.b: 1, '': 2, job: {env: {c.d: 3, '': {}}}, run: {a.b: 4}}\n")
            .notes.at(0)
            .starts_with(
                "hydra.a.b (conf/main.yaml:1), hydra.'' (conf/main.yaml:1), hydra.job.env.c.d "
                "(conf/main.yaml:1), hydra.job.env.'' (conf/main.yaml:1), hydra.run.a.b "));
  const Composed sweep = of("hydra: {sweeper: {params: {a.b: '1,2', c: '3,4'}}}\n");
  CHECK(to_inline(sweep.hydra) == "{sweeper: {params: {a.b: '1,2', c: '3,4'}}}");
  CHECK(sweep.notes.empty());
  CHECK(to_inline(compose({{in_memory("conf", {{"main.yaml",
                                                "hydra: {sweeper: {params: {a.b: x, c: "
                                                "y}}}\n"}})},
                           "main",
                           {"++hydra.sweeper.params={a.b: z}"}})
                      .hydra) == "{sweeper: {params: {c: y, a.b: z}}}");
}
