#include <algorithm>
#include <random>

#include "config/sweep.h"
#include "config/sweep_values.h"
#include "helpers.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::config;

namespace {

std::vector<std::string> options_of(const std::string& group) {
  if (group != "model/size") return {};
  return {"aa", "ab", "bb", "cd"};
}

/// "a=1 b=x | a=1 b=y": the jobs in order.
std::string jobs(const std::vector<std::string>& overrides) {
  std::string text;
  for (const SweepJob& job : sweep_of(overrides, options_of).jobs) {
    text += text.empty() ? "" : " | ";
    std::string one;
    for (const std::string& override_text : job.overrides) {
      one += (one.empty() ? "" : " ") + override_text;
    }
    text += one;
  }
  return text;
}

std::string error(const std::string& text) {
  return config_error([&] { jobs({"x=1", text}); });
}

struct SweepCase {
  std::string text, expected;
};

}  // namespace

// Order and values are those of Hydra 1.3's BasicSweeper, elements stay as typed.
TEST_CASE("sweep: every combination, the last override varying fastest") {
  CHECK(jobs({}) == "");
  CHECK(jobs({"a=1", "b=x"}) == "a=1 b=x");
  CHECK(jobs({"a=1,2", "b=x,y"}) == "a=1 b=x | a=1 b=y | a=2 b=x | a=2 b=y");
  CHECK(jobs({"a=1,2", "b=x", "c=3,4"}) == "a=1 b=x c=3 | a=1 b=x c=4 | a=2 b=x c=3 | a=2 b=x c=4");
  CHECK(jobs({"~a", "+b=1,2", "++c=5,6"}) ==
        "~a +b=1 ++c=5 | ~a +b=1 ++c=6 | ~a +b=2 ++c=5 | ~a +b=2 ++c=6");
  // A key that comes again: the later value at the earlier place.
  CHECK(jobs({"a=1,2", "b=3,4", "a=5"}) == "a=5 b=3 | a=5 b=4");
  CHECK(jobs({"a=1", "b=3,4", "a=5,6"}) == "a=5 b=3 | a=5 b=4 | a=6 b=3 | a=6 b=4");
  CHECK(jobs({"a=1,2", "+a=3"}) == "a=1 +a=3 | a=2 +a=3");
  CHECK(sweep_of({"a=1,2", "b=3", "a=5", "b=3", "+a=4"}, options_of).notes ==
        std::vector<std::string>{"a=1,2 (override 1) has no effect: a=5 (override 3) comes later"});
  const auto swept = sweep_of({"a=1,2", "b=x", "+c=3,4"}, options_of).jobs[1].swept;
  CHECK(swept == std::vector<std::pair<std::string, std::string>>{{"a", "1"}, {"+c", "4"}});
}

TEST_CASE("sweep: forms") {
  const std::vector<SweepCase> cases = {
      {"a=1, 2 , 3", "a=1 | a=2 | a=3"},
      {"a='x,y',z", "a='x,y' | a=z"},
      {R"(a="x,y","z")", R"(a="x,y" | a="z")"},
      {R"(a=x\,y,z)", R"(a=x\,y | a=z)"},
      {R"(a=x\ ,z)", R"(a=x\  | a=z)"},
      {R"(a='it\'s,',z)", R"(a='it\'s,' | a=z)"},
      {"a=[1,2],[3,4]", "a=[1,2] | a=[3,4]"},
      {"a={x:1,y:2},{x:3,y:4}", "a={x:1,y:2} | a={x:3,y:4}"},
      {"a=${b},${oc.select:c,1}", "a=${b} | a=${oc.select:c,1}"},
      {"a=null,True", "a=null | a=True"},
      {"a=1e-6,1e-5", "a=1e-6 | a=1e-5"},
      {"a/b@c=x,y", "a/b@c=x | a/b@c=y"},
      {"a=choice(1,b)", "a=1 | a=b"},
      {"a=choice( 1 , [2,3] )", "a=1 | a=[2,3]"},
      {"a=choice (1)", "a=1"},
      {"a=range(3)", "a=0 | a=1 | a=2"},
      {"a=range(1,4)", "a=1 | a=2 | a=3"},
      {"a=range(1,10,4)", "a=1 | a=5 | a=9"},
      {"a=range(1,9,4)", "a=1 | a=5"},
      {"a=range(10,1,-3)", "a=10 | a=7 | a=4"},
      {"a=range(start=1,stop=5,step=2)", "a=1 | a=3"},
      {"a=range(1,stop=3)", "a=1 | a=2"},
      {"a=range(9223372036854775805,9223372036854775807)",
       "a=9223372036854775805 | a=9223372036854775806"},
      {"a=range(1,2,0.25)", "a=1.0 | a=1.25 | a=1.5 | a=1.75"},
      {"a=range(1.0,3.0)", "a=1.0 | a=2.0"},
      {"a=range(-0.2,0.2,0.1)", "a=-0.2 | a=-0.1 | a=0.0 | a=0.1"},
      {"a=range(1.0,1.3,0.1)", "a=1.0 | a=1.1 | a=1.2"},
      {"a=range(0.6,0.9,0.1)", "a=0.6 | a=0.7 | a=0.8"},
      {"a=range(1e-6,3e-6,1e-6)", "a=1e-06 | a=2e-06"},
      {"model/size=glob(*)", "model/size=aa | model/size=ab | model/size=bb | model/size=cd"},
      {"+model/size@x.y=glob(a*)", "+model/size@x.y=aa | +model/size@x.y=ab"},
      {"model/size=glob([a*,b*],exclude=ab)", "model/size=aa | model/size=bb"},
      {"model/size=glob(include=*,exclude=[ab,'c?'])", "model/size=aa | model/size=bb"},
      {"model/size=glob('?b',a*)", "model/size=bb"},
      {"a=sort(3,10,1)", "a=1 | a=3 | a=10"},
      {"a=sort(choice(b,c,'a'))", "a='a' | a=b | a=c"},
      {"a=sort(2.5,1,true,reverse=True)", "a=2.5 | a=1 | a=true"},
      {"a=sort(range(10,1,-3))", "a=4 | a=7 | a=10"},
      {"a=sort(x)", "a=x"},
      {"a=tag(t,u,choice(a,b))", "a=a | a=b"},
      {"a=int(choice(2.0,4.0))", "a=2 | a=4"},
      {"a=int(1.5,2)", "a=1 | a=2"},
      {"a=int('3',4)", "a=3 | a=4"},
      {"a=float(range(1,3))", "a=1.0 | a=2.0"},
      {"a=bool(choice(0,1))", "a=False | a=True"},
      {"a=str(1,2)", "a=1 | a=2"},
      {"a=float(choice([1,2],3))", "a=[1.0, 2.0] | a=3.0"},
      {"a=int(float(choice(1,2)))", "a=1 | a=2"},
      {"a=sort(int(choice(3.5,1)))", "a=1 | a=3"},
      {"a=int(sort(3,1))", "a=1 | a=3"},
      {"a=tag(x,int(choice(1.5,2)))", "a=1 | a=2"},
      {"a=int(1.5),2", "a=int(1.5) | a=2"},
  };
  for (const SweepCase& item : cases) {
    INFO(item.text);
    CHECK(is_sweep(item.text));
    CHECK(jobs({item.text}) == item.expected);
  }
}

TEST_CASE("sweep: what is one value is no sweep") {
  for (const std::string text :
       {"a=1", "a=", "a", "~a", "a=[1,2]", "a={x:1,y:2}", "a='1,2'", R"(a=1\,2)", "a=${x:1,2}",
        "a='choice(1,2)'", "a=choice", "a=[choice(1,2)]", "a=int(1.5)",
        // Casts of one list.
        "a=sort([b,a])", "a=shuffle([1,2])", "a=sort(list=[2,1],reverse=true)", "a=xchoice(1,2)",
        // Malformed: left to whoever reads values.
        "a=[1,2", "a=1,2]", "a='x,y", "a=${x,y"}) {
    INFO(text);
    CHECK_FALSE(is_sweep(text));
    CHECK(jobs({text}) == text);
  }
}

TEST_CASE("sweep: shuffle() has the same values and the same order each time") {
  const auto numbers = sweep_of({"a=range(20)"}, options_of).jobs;
  const auto shuffled = sweep_of({"a=shuffle(range(20))"}, options_of).jobs;
  const auto texts = [](const std::vector<SweepJob>& all) {
    std::vector<std::string> out;
    for (const SweepJob& job : all) out.push_back(job.overrides[0]);
    return out;
  };
  CHECK(texts(shuffled) != texts(numbers));
  const auto again = sweep_of({"a=shuffle(range(20))"}, options_of).jobs;
  CHECK(texts(again) == texts(shuffled));
  std::vector<std::string> a = texts(shuffled), b = texts(numbers);
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  CHECK(a == b);
  CHECK(sweep_of({"a=shuffle(x,y,z)"}, options_of).jobs.size() == 3);
}

TEST_CASE("sweep: errors name number, column and text") {
  CHECK(contains(error("hydra.run.dir=a,b"),
                 "hydra.run.dir=a,b (override 2): is a sweep, and a key under hydra takes one"));
  CHECK(error("a=range(5,1)") == "override 2, column 3: range(): has no values\n  a=range(5,1)");
  CHECK(contains(error("a=range(1,5,0)"), "a step of 0 never ends"));
  CHECK(contains(error("a=range(a,5)"), "start is a; must be a finite number"));
  CHECK(contains(error("a=range(0,inf)"), "stop is inf; must be a finite number"));
  CHECK(contains(error("a=range()"), "needs the number at which it stops"));
  CHECK(contains(error("a=range(1,2,3,4)"), "too many arguments; it takes start, stop, step"));
  CHECK(contains(error("a=range(1,last=4)"), "has no argument last; it takes start, stop, step"));
  CHECK(contains(error("a=range(start=1,4)"), "a value without a name follows one with a name"));
  CHECK(contains(error("a=range(1,start=4)"), "the argument start comes twice"));
  CHECK(contains(error("a=range(0,100000000000)"), "has more than 10000 values"));
  CHECK(contains(error("a=int(choice(x,2))"), "column 3: "));
  CHECK(contains(error("a=str(range(1,3))"), "column 3: str(): cannot cast a range()"));
  CHECK(contains(error("a=choice()"), "column 3: choice(): needs at least one value"));
  CHECK(contains(error("a=choice(x=1)"), "choice(): has no argument x"));
  CHECK(contains(error("a=choice(1,,2)"), "column 12: a value is missing"));
  CHECK(contains(error("a=choice(1,2"), "column 9: nothing closes this ("));
  CHECK(contains(error("a=choice(1,2]"), "column 13: expected , or )"));
  CHECK(contains(error("a=choice(1,[2)"), "column 14: expected ]"));
  CHECK(contains(error("a=choice(1,[2"), "column 12: nothing closes this ["));
  CHECK(contains(error("a=choice(1,'2)"), "column 12: this quote is never closed"));
  CHECK(
      contains(error("a=choice(1,2)x"), "column 14: there is text after choice(...); a sweep is"));
  CHECK(contains(error("a=choice(1,2),3"), "column 14: there is text after choice(...)"));
  CHECK(contains(error("a=1,choice(2,3)"), "column 5: a sweep inside of a list of values"));
  CHECK(contains(error("a=choice(range(3))"), "column 10: a sweep inside of a list of values"));
  CHECK(contains(error("a=interval(0,1)"), "interval(): has no list of values to run; a sweep is"));
  CHECK(contains(error("a=1,"), "column 5: a value is missing"));
  CHECK(contains(error("a=,1"), "column 3: a value is missing"));
  CHECK(
      contains(error("a=glob(*)"), "chooses among the options of a config group; the key is none"));
  CHECK(contains(error("model/size=glob(z*)"), "matches no option; there are aa, ab, bb, cd"));
  CHECK(contains(error("model/size=glob()"), "needs a pattern"));
  CHECK(contains(error("model/size=glob(1)"), "1 is no pattern, nor a list of patterns"));
  CHECK(contains(error("a=sort(b,1)"), "only numbers can be sorted, or only texts"));
  CHECK(contains(error("a=sort(null,1)"), "only numbers can be sorted, or only texts"));
  CHECK(contains(error("a=sort(2,1,reverse=2)"), "reverse must be true or false"));
  CHECK(contains(error("a=sort()"), "needs at least one value"));
  CHECK(contains(error("a=shuffle()"), "needs at least one value"));
  CHECK(contains(error("a=tag(x,y)"), "its last argument must be a sweep"));
  // All of them together.
  const std::string both = config_error([] { jobs({"a=choice()", "b=1,2", "c=interval(0,1)"}); });
  CHECK(contains(both, "override 1, column 3: choice()"));
  CHECK(contains(both, "\noverride 3, column 3: interval()"));
  CHECK(config_error([] {
          jobs({"a=range(200)", "b=1,2", "c=range(100)"});
        }) == "the sweep has 200 x 2 x 100 jobs; at most 10000 are run");
}

TEST_CASE("sweep: any text has jobs or fails with a ConfigError that names a column") {
  const std::vector<std::string> pieces = {"a", "1",  ",",  "(", ")",      "[",     "]",
                                           "{", "}",  "'",  "=", "choice", "range", "sort",
                                           " ", "${", "\\", ".", "glob",   "*",     "-"};
  std::mt19937 random(5);
  int swept = 0, refused = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string text = "a=";
    for (size_t n = random() % 12; n > 0; --n) text += pieces[random() % pieces.size()];
    INFO(text);
    try {
      swept += sweep_of({text}, options_of).jobs.size() > 1 ? 1 : 0;
    } catch (const ConfigError& failed) {
      ++refused;
      REQUIRE(contains(failed.what(), "override 1, column "));
    }
  }
  CHECK(swept > 300);
  CHECK(refused > 1000);
}
