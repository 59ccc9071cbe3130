#include <cmath>

#include "config/scalar.h"
#include "config/tree.h"
#include "helpers.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::config;

TEST_CASE("tree: find, set and erase by dotted path") {
  Node tree;
  tree.set("a.b", Node(int64_t{1}, Origin{"override 1", Origin::Source::kOverride}));
  tree.set("a.c", Node::list({Node("x"), Node("y")}));
  CHECK(to_inline(tree) == "{a: {b: 1, c: [x, y]}}");
  CHECK(tree.find("a")->origin().text == "override 1");
  CHECK(to_inline(*tree.find("a.c.1")) == "'y'");
  CHECK(tree.find("a.c.2") == nullptr);
  CHECK(tree.find("a.c.-1") == nullptr);
  CHECK(tree.find("a.b.c") == nullptr);
  CHECK(tree.find("")->is_map());
  tree.set("a.c.0", Node(2.5));
  CHECK(tree.erase("a.c.1"));
  CHECK(tree.erase("a.b"));
  CHECK_FALSE(tree.erase("a.b"));
  CHECK_FALSE(tree.erase("n.b"));
  CHECK(to_inline(tree) == "{a: {c: [2.5]}}");
  CHECK_THROWS_AS(tree.set("a.c.0.x", Node(1.0)), std::logic_error);
  CHECK_THROWS_AS(tree.set("a.c.7", Node(1.0)), std::logic_error);
  CHECK_THROWS_AS(tree.find("a.c")->items(), std::logic_error);
  CHECK_THROWS_AS(tree.elements(), std::logic_error);
}

TEST_CASE("tree: the nearest name is near") {
  const std::vector<std::string> names = {"ppo_epochs", "shuffle", "n", "n_gpus_per_node"};
  CHECK(nearest_name("ppo_epoch", names) == "ppo_epochs");
  CHECK(nearest_name("ppo_ecophs", names) == "ppo_epochs");
  CHECK(nearest_name("n_gpu", names) == "n_gpus_per_node");
  CHECK(nearest_name("temperature", names).empty());
  CHECK(nearest_name("x", {}).empty());
}

TEST_CASE("tree: the nearest key prefers its own group, then its own name") {
  const std::vector<std::string> keys = {"a.optim.lr", "a.epochs", "b.lr", "b.epochs", "trainer.n"};
  CHECK(nearest_key("b.epoch", keys) == "b.epochs");
  CHECK(nearest_key("a.lr", keys) == "a.optim.lr");
  CHECK(nearest_key("optim.lr", keys) == "a.optim.lr");
  CHECK(nearest_key("trainr.m", keys) == "trainer.n");
  CHECK(nearest_key("nothing.like.it", keys).empty());
}

TEST_CASE("tree: a float prints its shortest digits as Python does") {
  CHECK(format_float(1e-6) == "1e-06");
  CHECK(format_float(0.0001) == "0.0001");
  CHECK(format_float(0.00012345) == "0.00012345");
  CHECK(format_float(1e5) == "100000.0");
  CHECK(format_float(1e15) == "1000000000000000.0");
  CHECK(format_float(1e16) == "1e+16");
  CHECK(format_float(-0.1) == "-0.1");
  CHECK(format_float(1.0 / 3) == "0.3333333333333333");
  CHECK(format_float(5e-324) == "5e-324");
  CHECK(format_float(-INFINITY) == "-inf");
  CHECK(format_float(NAN) == "nan");
}

TEST_CASE("tree: same values, and the keys of leaves") {
  const Node a = parse_yaml("x: .nan\ny: [1, {z: a}]\ne: {}\n", "a.yaml");
  CHECK(same_values(a, parse_yaml("x: .nan\ny: [1, {z: a}]\ne: {}\n", "b.yaml")));
  CHECK_FALSE(same_values(a, parse_yaml("x: .nan\ny: [1, {z: b}]\ne: {}\n", "b.yaml")));
  CHECK_FALSE(same_values(Node(int64_t{1}), Node(1.0)));
  CHECK_FALSE(same_values(Node(), Node(std::string())));
  CHECK(leaf_keys(a) == std::vector<std::string>{"x", "y", "e"});
  CHECK(leaf_keys(parse_yaml("a: {b: {c: 1}, d: 2}", "a.yaml")) ==
        std::vector<std::string>{"a.b.c", "a.d"});
}

TEST_CASE("tree: leaves come with their values, whatever their names are") {
  const Node tree = parse_yaml("a.b: 1\na: {b: 2, c.d: {e: 3}}\n'': 4\nf: {'': {g: 5}}\n", "a");
  std::string text;
  for (const Leaf& leaf : leaves(tree)) {
    CHECK(tree.at(leaf.path) == leaf.value);
    text += leaf.key() + "=" + to_inline(*leaf.value) + " ";
  }
  CHECK(text == "a.b=1 a.b=2 a.c.d.e=3 ''=4 f.''.g=5 ");
  CHECK(tree.at({"a", "c", "d"}) == nullptr);
  CHECK(tree.at({}) == &tree);
  // Only what `find` finds by its key.
  CHECK(leaf_keys(tree) == std::vector<std::string>{"a.b"});
  CHECK(to_inline(*tree.find("a.b")) == "2");
}
