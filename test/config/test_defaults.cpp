#include "config/compose.h"
#include "helpers.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::config;

TEST_CASE("defaults: packages are relative, _global_, _here_, _group_ or from the header") {
  const Files files = {
      {"main.yaml",
       "defaults: [g/sub@p: file, g@_global_: here, g: named, h: head, h@own: head, /g/sub: "
       "file]\n"},
      {"g/sub/file.yaml", "v: 1\n"},
      {"g/here.yaml", "w: 1\n"},
      {"g/named.yaml", "defaults: [sub@_here_: file, sub@_group_: file, sub@q: file]\nu: 1\n"},
      {"h/head.yaml", "# @package at.head\nt: 1\n"},
  };
  CHECK(compose_error(files) ==
        "conf/g/named.yaml:1: the group g/sub is already in the defaults list "
        "(conf/main.yaml:1); write `override g/sub: file` in a file, or "
        "g/sub=file on the command line, to change it");
  Files fixed = files;
  fixed["g/named.yaml"] = "defaults: [sub@_here_: file, sub@q: file]\nu: 1\n";
  CHECK(tree_text(fixed) ==
        "{p: {v: 1}, w: 1, g: {v: 1, q: {v: 1}, u: 1, sub: {v: 1}}, at: {head: {t: 1}}, own: {t: "
        "1}}");
}

TEST_CASE("defaults: a group may have several choices") {
  Files files = {{"main.yaml", "defaults: [g: [a, b], _self_]\n"},
                 {"g/a.yaml", "x: a\ny: a\n"},
                 {"g/b.yaml", "# @package g\ny: b\n"},
                 {"g/c.yaml", "z: c\n"}};
  CHECK(tree_text(files) == "{g: {x: a, y: b}}");
  CHECK(tree_text(files, {"g=[b,a]"}) == "{g: {y: a, x: a}}");
  CHECK(tree_text(files, {"g=c"}) == "{g: {z: c}}");
  CHECK(tree_text(files, {"+g@p=[c,a]"}) == "{g: {x: a, y: b}, p: {z: c, x: a, y: a}}");
  CHECK(contains(compose_error(files, {"g=[a,d]"}), "there is no g/d.yaml"));
  CHECK(contains(compose_error(files, {"~g"}),
                 "~g (override 1): the group g is not in the defaults"));
  files["main.yaml"] = "defaults: [g: c, override g: [a, b]]\n";
  CHECK(tree_text(files) == "{g: {x: a, y: b}}");
}

TEST_CASE("defaults: lists are expanded from the last entry to the first") {
  // h/a overrides what stands in front of it, not what comes after it.
  Files files = {{"main.yaml", "defaults: [g: a, h: a, _self_]\n"},
                 {"g/a.yaml", "x: a\n"},
                 {"g/b.yaml", "x: b\n"},
                 {"h/a.yaml", "defaults: [_self_, override /g@_global_.g: b]\n"}};
  CHECK(tree_text(files) == "{g: {x: b}, h: {}}");
  files["main.yaml"] = "defaults: [h: a, g: a, _self_]\n";
  CHECK(contains(compose_error(files), "override g (conf/h/a.yaml:1): the group g is not in"));
  // A choice by interpolation is made after the others, and its file cannot override.
  files["main.yaml"] = "defaults: [h: '${g}', g: a]\n";
  CHECK(contains(compose_error(files), "a file that an interpolation chooses cannot override /g"));
  files["h/a.yaml"] = "y: ${g.x}\n";
  CHECK(tree_text(files) == "{h: {y: ${g.x}}, g: {x: a}}");
  CHECK(contains(compose_error(files, {"~g"}), "${g} must name a group chosen by one name"));
  files["main.yaml"] = "defaults: [override g: b, g: a]\n";
  CHECK(contains(compose_error(files), "override g must stand at the end of the defaults list"));
}

TEST_CASE("defaults: a file with a list of its own may come twice") {
  Files files = {{"main.yaml", "defaults: [g: a, g: a]\n"},
                 {"g/a.yaml", "defaults: [_self_]\nx: 1\n"}};
  CHECK(tree_text(files) == "{g: {x: 1}}");
  CHECK(tree_text(files, {"+g=a"}) == "{g: {x: 1}}");
  files["g/a.yaml"] = "x: 1\n";
  CHECK(contains(compose_error(files), "the group g is already in the defaults list"));
}

TEST_CASE("defaults: a group on the command line is written with its package as it is listed") {
  const Files files = {{"main.yaml", "defaults: [g@_global_: a, g@p: a]\n"},
                       {"g/a.yaml", "x: a\n"},
                       {"g/b.yaml", "x: b\n"}};
  CHECK(tree_text(files, {"g@_global_=b"}) == "{x: b, p: {x: a}}");
  CHECK(contains(compose_error(files, {"g@=b"}),
                 "g@ is not in the defaults list; did you mean g@_glo"));
  CHECK(contains(compose_error(files, {"~g@p=[a]"}), "~g@p=NAME does so where"));
}

TEST_CASE("defaults: choices that have to be made, deleted ones, and ones that are no file twice") {
  Files files = {{"main.yaml", "defaults:\n  - g: ?\?\?\n"}, {"g/a.yaml", "x: 1\n"}};
  CHECK(compose_error(files) ==
        "conf/main.yaml:2: g has to be chosen: write g=NAME; only a is available");
  CHECK(tree_text(files, {"g=a"}) == "{g: {x: 1}}");
  CHECK(tree_text(files, {"g=a", "~g=a"}) == "{}");
  CHECK(compose_error(files, {"g=a", "~h"}) ==
        "~h (override 2): there is no key h; --cfg job prints the keys there are");
  files["main.yaml"] = "defaults: [g@p: null, g@p: null]\n";
  CHECK(tree_text(files) == "{}");
  files["main.yaml"] = "defaults: [g: null, g: a]\n";
  CHECK(contains(compose_error(files), "conf/main.yaml:1: the group g is already in the defaults"));
}
