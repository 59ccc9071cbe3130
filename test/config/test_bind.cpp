#include "config/bind.h"
#include "helpers.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::config;

namespace {

struct Inner {
  int64_t ppo_epochs = 0;
  double lr = 0;
  std::optional<int64_t> limit;
  template <class V>
  void fields(V& v) {
    v("ppo_epochs", ppo_epochs);
    v("lr", lr);
    v("limit", limit);
  }
};

struct Nothing {
  template <class V>
  void fields(V&) {}
};

struct Outer {
  bool flag = false;
  std::string name;
  std::vector<std::string> files;
  std::vector<double> betas;
  Node free;
  Inner inner;
  template <class V>
  void fields(V& v) {
    v("flag", flag);
    v("name", name);
    v("files", files);
    v("betas", betas);
    v("free", free);
    v("inner", inner);
  }
};

struct Followed {
  double follower = 0, followed = 0;
  template <class V>
  void fields(V& v) {
    v("follower", follower);
    v("followed", followed);
  }
};

const std::map<std::string, std::string> kFiles = {
    {"main.yaml",
     "flag: true\nname: x\nfiles: a.jsonl\nbetas: [0.9, 1]\nfree: {}\n"
     "inner: {ppo_epochs: 1, lr: 2, limit: null}\n"}};

Outer bound(const std::vector<std::string>& overrides) {
  Outer outer;
  Binder binder;
  binder.bind(composed(kFiles, overrides), "", outer);
  binder.finish();
  return outer;
}

std::string error_of(const std::vector<std::string>& overrides) {
  return config_error([&] { bound(overrides); });
}

}  // namespace

TEST_CASE("bind: fills a struct, converting only what loses nothing") {
  const Outer plain = bound({});
  CHECK(plain.flag);
  CHECK(plain.files == std::vector<std::string>{"a.jsonl"});
  CHECK(plain.betas == std::vector<double>{0.9, 1.0});
  CHECK(plain.inner.lr == 2.0);
  CHECK_FALSE(plain.inner.limit.has_value());
  const Outer changed = bound({"inner.limit=5", "files=[a,b,3]", "name=123", "+free.x.y=1"});
  CHECK(changed.inner.limit == 5);
  CHECK(changed.files == std::vector<std::string>{"a", "b", "3"});
  CHECK(changed.name == "123");
  CHECK(to_inline(changed.free) == "{x: {y: 1}}");
  CHECK(bound({"name=True"}).name == "True");
}

TEST_CASE("bind: the keys of a struct, in order") {
  CHECK(key_list<Outer>() == std::vector<std::string>{"flag", "name", "files", "betas", "free",
                                                      "inner.ppo_epochs", "inner.lr",
                                                      "inner.limit"});
}

TEST_CASE("bind: a wrong type names key, value, origin and what is wanted") {
  CHECK(error_of({"flag=1"}) == "flag=1 (override 1): must be True or False");
  CHECK(error_of({"flag=True", "flag='True'"}) ==
        "flag='True' (override 2): must be True or False");
  CHECK(error_of({"inner.ppo_epochs=two"}) ==
        "inner.ppo_epochs='two' (override 1): must be an integer");
  CHECK(error_of({"inner.ppo_epochs=2.0"}) ==
        "inner.ppo_epochs=2.0 (override 1): must be an integer");
  CHECK(error_of({"inner.ppo_epochs=null"}) ==
        "inner.ppo_epochs=null (override 1): must be an integer");
  CHECK(error_of({"inner.ppo_epochs=True"}) ==
        "inner.ppo_epochs=True (override 1): must be an integer");
  CHECK(error_of({"inner.limit=[1]"}) ==
        "inner.limit=[1] (override 1): must be an integer; null is valid too");
  CHECK(error_of({"inner.limit=None"}) ==
        "inner.limit='None' (override 1): None is a text here; write null for no value");
  CHECK(error_of({"inner.ppo_epochs="}) ==
        "inner.ppo_epochs='' (override 1): must be an integer, got nothing (an unset variable of "
        "the shell?)");
  CHECK(error_of({"inner.lr=fast"}) == "inner.lr='fast' (override 1): must be a number");
  CHECK(error_of({"name=null"}) == "name=null (override 1): must be a string");
  CHECK(error_of({"name=[a]"}) == "name=[a] (override 1): must be a string");
  CHECK(error_of({"betas=0.9"}) == "betas=0.9 (override 1): must be a list of numbers");
  CHECK(error_of({"betas=[0.9,x]"}) == "betas[1]='x' (override 1): must be a number");
  CHECK(error_of({"files=3"}) == "files=3 (override 1): must be a string or a list of strings");
  CHECK(error_of({"files=[[a]]"}) == "files[0]=[a] (override 1): must be a string");
  CHECK(error_of({"inner.limit='7'"}) ==
        "inner.limit='7' (override 1): must be an integer, got the text '7': without quotes it is "
        "a number; an environment variable, which is a text too, is read by "
        "'inner.limit=\"${oc.decode:${oc.env:NAME}}\"'; null is "
        "valid too");
  CHECK(error_of({"betas=[0.9,'1']"}) ==
        "betas[1]='1' (override 1): must be a number, got the text '1': without quotes it is a "
        "number; an environment variable, which is a text too, is read by "
        "\"${oc.decode:${oc.env:NAME}}\", with the quotes");
  CHECK(error_of({"inner=3"}) == "inner (override 1) must be a group of keys, got 3");
  CHECK(error_of({"inner.lr=???"}) == "inner.lr (override 1) has no default: give it a value");
}

TEST_CASE("bind: unknown and missing keys are all reported together") {
  CHECK(error_of({"name=a", "+inner.ppo_epoch=2"}) ==
        "inner.ppo_epoch (override 2) is not a known key; did you mean inner.ppo_epochs?");
  CHECK(error_of({"+other.deep.key=2", "~name", "inner.lr=x"}) ==
        "the configuration has 3 problems:\n"
        "  1. name is missing: no file sets it; ++name=VALUE does\n"
        "  2. inner.lr='x' (override 3): must be a number\n"
        "  3. other (override 1) is not a known key; --cfg job prints the keys there are");
}

TEST_CASE("bind: a wrong value that other keys follow is said once, of the key that has it") {
  const auto problems = [](const std::vector<std::string>& overrides) {
    KnownKeys known;
    known.follows = [](const std::string& key) { return key == "follower"; };
    Binder binder(known);
    Followed out;
    const Node tree = composed({{"main.yaml", "follower: ${followed}\nfollowed: 1\n"}}, overrides);
    binder.bind(resolve(tree), "", out);
    return binder.problems();
  };
  CHECK(problems({"followed=x"}) ==
        std::vector<std::string>{"followed='x' (override 1): must be a number"});
  CHECK(problems({"follower=x"}) ==
        std::vector<std::string>{"follower='x' (override 1): must be a number"});
  CHECK(problems({"followed=x", "follower=x"}).size() == 2);
}

TEST_CASE("bind: users may have keys of their own at the root where that is allowed") {
  const auto problems = [](const std::string& yaml, const std::vector<std::string>& overrides) {
    const Node known = parse_yaml("trainer: {x: 1}\n", "conf/known.yaml");
    KnownKeys keys;
    keys.own_roots = true;
    keys.tree = &known;
    keys.old_keys = {{"ray_init", "of older releases is now ray_kwargs.ray_init"}};
    Binder binder(keys);
    Nothing nothing;
    binder.bind(composed({{"main.yaml", yaml}}, overrides), "", nothing);
    return binder.problems();
  };
  CHECK(problems("{}", {"+mine.x=1", "+other=2", "+trainr.y=3"}).empty());
  CHECK(problems("{mine: {x: 1}, trainr: {y: 1}, trainers: 2}", {}).empty());
  CHECK(problems("{}", {"+trainr.x=3"}).size() == 1);
  CHECK(problems("trainr: {x: 1}", {}) ==
        std::vector<std::string>{
            "trainr (conf/main.yaml:1) is not a known key; did you mean trainer?"});
  CHECK(problems("{}", {"+ray_init.x=1"}) ==
        std::vector<std::string>{"ray_init (override 1) is not a known key; ray_init of older "
                                 "releases is now ray_kwargs.ray_init"});
  // A shipped group that was put there is nobody's own.
  const SearchPath shipped =
      in_memory("conf", {{"main.yaml", "{}"}, {"g/a.yaml", "x: 1"}}, Origin::Source::kShipped);
  KnownKeys keys;
  keys.own_roots = true;
  Binder binder(keys);
  Nothing nothing;
  binder.bind(compose({{shipped}, "main", {"+g=a"}}).tree, "", nothing);
  CHECK(binder.problems().size() == 1);
}

TEST_CASE("problems: the keys that a message names") {
  CHECK(dotted_keys("a.b=1 (override 2): see c.d_e, or f. g") ==
        std::vector<std::string>{"a.b", "c.d_e"});
  CHECK(names_key("a.path = 3 (override 1): bad", "a.path"));
  CHECK(names_key("must equal a.path (missing).", "a.path"));
  CHECK(names_key("set a.path.", "a.path"));
  CHECK(names_key("a.path.x = 1: bad", "a.path"));
  CHECK(!names_key("b.a.path = 3", "a.path"));
  CHECK(!names_key("a.paths = 3, a.path-x", "a.path"));
  CHECK(!names_key("the path = 3", "a.path"));
  CHECK(names_key("data.seed = 3: bad", "data"));
  CHECK(names_key("data (override 1) must be", "data"));
  CHECK(!names_key("a file of data, too. No data.", "data"));
}
