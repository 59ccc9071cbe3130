#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "run_binary.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using verlcpp::test::Outcome;
using verlcpp::test::run_binary;
using verlcpp::test::TemporaryFolder;

namespace {

/// Exit code 2, nothing on stdout, one message on stderr that holds `text`.
void check_refused(const std::vector<std::string>& arguments, const std::string& text) {
  INFO(arguments.back());
  const Outcome outcome = run_binary(arguments);
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, StartsWith("error: ") && ContainsSubstring(text));
  const std::string prefix = "error: ";
  CHECK(outcome.err.find(prefix, prefix.size()) == std::string::npos);
}

}  // namespace

TEST_CASE("--version names the scheduler's origin") {
  const Outcome outcome = run_binary({"--version"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK_THAT(outcome.out, StartsWith("verlcpp-train 0.") &&
                              ContainsSubstring("Megatron-Core #5154") &&
                              ContainsSubstring("d2e7ec5b"));
}

TEST_CASE("--help lists every flag and the override grammar") {
  const Outcome outcome = run_binary({"--help"});
  CHECK(outcome.code == 0);
  for (const char* flag : {"--config-dir", "--config-path", "--config-name", "--cfg", "--resolve",
                           "--dry-run", "--plan", "--format", "--compare-dcp", "--compare-steps",
                           "--compare-warmup", "--compare-json", "--calibrate", "--calibrate-check",
                           "--multirun", "--stop-on-failure", "--explain-keys", "--version"}) {
    CHECK_THAT(outcome.out, ContainsSubstring(flag));
  }
  CHECK_THAT(outcome.out, ContainsSubstring("++a.b=value") && ContainsSubstring("~a.b"));
}

TEST_CASE("what an editor or the shell puts into an override is named") {
  check_refused({"data.seed=1", "data.train_batch_size=4\r"},
                "argument 2, data.train_batch_size=4, ends in a carriage return");
  check_refused({"data.seed=1", " "},
                "override 2, column 1: a key is missing, here is only a space");
  check_refused({"--dry-run\r"}, "argument 1, --dry-run, ends in a carriage return");
  check_refused({"\u2013-dry-run"}, "override 1 begins with '\u2013', which is not the hyphen");
}

TEST_CASE("a file to check against is one value: what follows is an override") {
  const std::vector<std::string> twice = {"--calibrate", "cost.json", "--calibrate-check",
                                          "a.json",      "no.key=1",  "--calibrate-check",
                                          "b.json",      "no.other=2"};
  check_refused(twice, "no.key");
  check_refused({"--calibrate", "cost.json", "--calibrate-check=a.json", "no.key=1"}, "no.key");
}

TEST_CASE("--explain-keys says of each key what becomes of it") {
  const Outcome outcome = run_binary({"--explain-keys"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK_THAT(outcome.out,
             StartsWith("key\tdefault\tkind\treason\n") &&
                 ContainsSubstring("\ndata.train_batch_size\t1024\thonoured\t\n") &&
                 ContainsSubstring("\nray_kwargs.timeline_json_file\tnull\twithout effect\t"
                                   "there is no Ray\n") &&
                 ContainsSubstring("\ntrainer.critic_warmup\t0\trefused when changed\t"));
  for (const char* other : {"--dry-run", "--multirun", "--compare-dcp", "--selftest-layout",
                            "data.seed=1", "--config-name=quickstart"}) {
    check_refused({"--explain-keys", other}, "--explain-keys");
  }
}

TEST_CASE("keys without effect are named in one line, and the run goes on") {
  const Outcome outcome = run_binary(
      {"--dry-run", "--config-path=" VERLCPP_CONF, "--config-name=quickstart",
       "data.train_files=" VERLCPP_QUICKSTART "/train.jsonl",
       "actor_rollout_ref.model.path=" VERLCPP_QUICKSTART "/model",
       "actor_rollout_ref.rollout.name=vllm",
       "actor_rollout_ref.rollout.tensor_model_parallel_size=2",
       "actor_rollout_ref.actor.megatron.param_offload=True", "trainer.balance_batch=True",
       "ray_kwargs.ray_init.runtime_env.py_executable=null"});
  CHECK(outcome.code == 0);
  CHECK(outcome.err ==
        "warning: these keys have no effect here (--explain-keys says why): "
        "actor_rollout_ref.actor.megatron.param_offload (override 5), "
        "actor_rollout_ref.rollout.tensor_model_parallel_size (override 4), "
        "trainer.balance_batch (override 6), "
        "ray_kwargs.ray_init.runtime_env.py_executable (override 7)\n");
}

TEST_CASE("unknown and misused flags") {
  check_refused({"--dry-rum"}, "unknown flag --dry-rum; did you mean --dry-run?");
  check_refused({"--plam=x.json"}, "unknown flag --plam; did you mean --plan?");
  check_refused({"--cfg", "hydra"}, "--cfg");
  check_refused({"--resolve"}, "--cfg");
  check_refused({"--format", "json"}, "--plan");
  check_refused({"--plan", "a.json", "--dry-run"}, "--plan");
  for (const auto& other : std::vector<std::vector<std::string>>{
           {"--plan", "a.json"}, {"--dry-run"}, {"--cfg", "job"}, {"--multirun"}}) {
    std::vector<std::string> arguments{"--compare-dcp"};
    arguments.insert(arguments.end(), other.begin(), other.end());
    check_refused(arguments, "--compare-dcp");
  }
  for (const auto& other : std::vector<std::vector<std::string>>{{"--plan", "a.json"},
                                                                 {"--dry-run"},
                                                                 {"--cfg", "job"},
                                                                 {"--multirun"},
                                                                 {"--compare-dcp"},
                                                                 {"--selftest-layout"}}) {
    std::vector<std::string> arguments{"--calibrate", "cost.json"};
    arguments.insert(arguments.end(), other.begin(), other.end());
    check_refused(arguments, "--calibrate");
  }
  check_refused({"--calibrate-check", "a.json"}, "--calibrate");
  check_refused({"--calibrate"}, "--calibrate");
  for (const std::string flag : {"--calibrate", "--plan"}) {
    check_refused({flag, ""}, flag + " lacks its value");
    check_refused({flag + "=", "--dry-run"}, flag + " lacks its value");
  }
  check_refused({"--calibrate", "cost.json", "--format", "json"}, "--plan");
  check_refused({"--compare-steps", "3"}, "--compare-dcp");
  check_refused({"--compare-dcp", "--compare-steps", "0"}, "--compare-steps");
  check_refused({"--compare-json", "x.json"}, "--compare-dcp");
  check_refused({"--multirun", "data.seed=1,"}, "override 1, column 13: a value is missing");
  check_refused({"-m", "data.seed=interval(1,2)"}, "interval(): has no list of values to run");
  check_refused({"-m", "--plan", "a.json"}, "--plan");
  check_refused({"--stop-on-failure"}, "--multirun");
}

TEST_CASE("--cfg job prints YAML that composes back to itself") {
  const std::vector<std::string> overrides = {
      "data.train_batch_size=64", "trainer.logger=[\"console\",\"file\"]",
      "+actor_rollout_ref.actor.megatron.override_transformer_config.fp8=null",
      "actor_rollout_ref.actor.optim.lr=1e-6", "trainer.project_name='n'"};
  for (const bool resolve : {false, true}) {
    INFO(resolve);
    std::vector<std::string> arguments = {"--cfg", "job"};
    if (resolve) arguments.emplace_back("--resolve");
    std::vector<std::string> first = arguments;
    first.insert(first.end(), overrides.begin(), overrides.end());
    const Outcome printed = run_binary(first);
    REQUIRE(printed.code == 0);
    CHECK(printed.err.empty());
    CHECK_THAT(printed.out, ContainsSubstring("train_batch_size: 64"));
    CHECK((printed.out.find("${") == std::string::npos) == resolve);

    const TemporaryFolder folder;
    folder.write("printed.yaml", printed.out);
    for (const char* name : {"printed", "printed.yaml"}) {
      for (const char* flag : {"--config-dir=", "--config-path="}) {
        std::vector<std::string> again = arguments;
        again.push_back(flag + folder.path());
        again.push_back("--config-name=" + std::string(name));
        const Outcome back = run_binary(again);
        CHECK(back.err.empty());
        CHECK(back.out == printed.out);
      }
    }
  }
}

TEST_CASE("--cfg job with a token budget composes back to the same run") {
  const std::vector<std::vector<std::string>> sets = {
      {}, {"actor_rollout_ref.actor.ppo_max_token_len_per_gpu=77"}};
  for (const std::vector<std::string>& set : sets) {
    std::vector<std::string> overrides = {"--cfg", "job", "data.max_token_len_per_gpu=4097"};
    overrides.insert(overrides.end(), set.begin(), set.end());
    const Outcome dump = run_binary(overrides);
    REQUIRE(dump.code == 0);
    overrides.emplace_back("--resolve");
    const TemporaryFolder folder;
    folder.write("dump.yaml", dump.out);
    const Outcome again = run_binary(
        {"--config-dir=" + folder.path(), "--config-name=dump", "--cfg", "job", "--resolve"});
    CHECK(again.out == run_binary(overrides).out);
  }
}

TEST_CASE("--cfg job with a key of older releases composes back to the same run") {
  const Outcome dump = run_binary({"--cfg", "job", "reward_model.reward_manager=dapo"});
  const TemporaryFolder folder;
  folder.write("dump.yaml", dump.out);
  const Outcome again = run_binary(
      {"--config-dir=" + folder.path(), "--config-name=dump", "--cfg", "job", "--resolve"});
  CHECK(again.out ==
        run_binary({"--cfg", "job", "--resolve", "reward_model.reward_manager=dapo"}).out);
  CHECK_THAT(again.out, ContainsSubstring("name: dapo"));
}

TEST_CASE("--cfg job prints an interpolation that leads nowhere") {
  const Outcome outcome = run_binary(
      {"--cfg", "job", "data.max_token_len_per_gpu=4097", "trainer.project_name=${nowhere}"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("project_name: ${nowhere}"));
}

TEST_CASE("what the machine refuses exits 3 with one message") {
  const Outcome outcome = run_binary({"--config-dir=" + std::string(5000, 'a')});
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.err, StartsWith("error: the machine: "));
}

TEST_CASE("a standard output that takes nothing exits 3") {
  const TemporaryFolder folder;
  const std::string lengths = folder.write("lengths.json", "[1, 2]");
  for (const std::string& arguments :
       {std::string("--version"), std::string("--cfg job"),
        std::string("--dry-run --config-path='" VERLCPP_CONF "' --config-name=quickstart "
                    "data.train_files='" VERLCPP_QUICKSTART "/train.jsonl' "
                    "actor_rollout_ref.model.path='" VERLCPP_QUICKSTART "/model'"),
        "--plan " + lengths + " actor_rollout_ref.actor.use_dynamic_bsz=True"}) {
    INFO(arguments);
    const std::string err = folder.path() + "/err";
    const std::string command = "'" VERLCPP_TRAIN "' " + arguments + " >/dev/full 2>'" + err + "'";
    const int status = std::system(command.c_str());
    CHECK(WEXITSTATUS(status) == 3);
    std::ifstream in(err);
    const std::string message{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    CHECK_THAT(message, StartsWith("error: the machine: standard output cannot be written"));
  }
}

TEST_CASE("--cfg job --resolve shows the budgets that data.max_token_len_per_gpu feeds") {
  const Outcome outcome =
      run_binary({"--cfg", "job", "--resolve", "data.max_token_len_per_gpu=4097"});
  CHECK(outcome.code == 0);
  size_t shown = 0;
  for (size_t at = 0; (at = outcome.out.find("per_gpu: 4097", at)) != std::string::npos; ++at) {
    ++shown;
  }
  CHECK(shown == 4);  // the key itself, actor, ref, rollout
}

TEST_CASE("where the configuration comes from") {
  const TemporaryFolder folder;
  folder.write("mine.yaml",
               "defaults:\n  - ppo_trainer\n  - _self_\ndata:\n  train_batch_size: 48\n");
  SECTION("a folder before the embedded tree, and instead of it") {
    for (const char* flag : {"--config-dir", "--config-path"}) {
      const Outcome outcome =
          run_binary({flag, folder.path(), "--config-name", "mine", "--cfg", "job"});
      CHECK(outcome.err.empty());
      CHECK_THAT(outcome.out, ContainsSubstring("train_batch_size: 48"));
    }
  }
  SECTION("verl's own folder name means the embedded tree") {
    const Outcome plain = run_binary({"--cfg", "job"});
    CHECK(plain.code == 0);
    for (const char* path : {"config", "./config"}) {
      const Outcome outcome = run_binary(
          {std::string("--config-path=") + path, "--config-name=ppo_trainer.yaml", "--cfg", "job"});
      CHECK(outcome.out == plain.out);
    }
  }
  SECTION("folders and files that are not there") {
    check_refused({"--config-dir=/none", "--cfg", "job"}, "--config-dir /none: no such folder");
    check_refused({"--config-path=/none", "--cfg", "job"}, "--config-path /none: no such folder");
    check_refused({"--config-name=ppo_trainr", "--cfg", "job"}, "ppo_trainr");
  }
}

TEST_CASE("the project's own conf/ on disk is no different from the embedded tree") {
  const std::vector<std::string> arguments = {"--cfg", "job", "--resolve",
                                              "data.max_token_len_per_gpu=4097"};
  std::vector<std::string> on_disk = arguments;
  on_disk.emplace_back("--config-path=" VERLCPP_CONF);
  const Outcome outcome = run_binary(on_disk);
  CHECK(outcome.err.empty());
  CHECK(outcome.out == run_binary(arguments).out);
}

TEST_CASE("a budget in a user's file counts as set") {
  const TemporaryFolder folder;
  folder.write("mine.yaml",
               "defaults:\n  - ppo_trainer\n  - _self_\nactor_rollout_ref:\n  ref:\n"
               "    log_prob_max_token_len_per_gpu: 16384\n");
  const Outcome outcome =
      run_binary({"--config-dir=" + folder.path(), "--config-name=mine", "--cfg", "job",
                  "--resolve", "data.max_token_len_per_gpu=4097"});
  CHECK(outcome.err.empty());
  CHECK_THAT(outcome.out, ContainsSubstring("log_prob_max_token_len_per_gpu: 16384") &&
                              ContainsSubstring("ppo_max_token_len_per_gpu: 4097"));
}

TEST_CASE("bad overrides") {
  check_refused({"--cfg", "job", "data.train_batch_sise=3"}, "train_batch_size");
  check_refused({"--cfg", "job", "data.seed=1", "trainer.logger=[console"}, "override 2");
  check_refused({"--cfg", "job", "=3"}, "override 1");
}
