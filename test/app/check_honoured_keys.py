#!/usr/bin/env python3
"""Changes every honoured key and looks for a difference.

  check_honoured_keys.py VERLCPP_TRAIN KEY_KINDS.tsv QUICKSTART_FOLDER [KEY...]

A row of ROWS names two values of a key and a run in which the key matters. Both runs get the key at the
same place of the command line, so that nothing but its value differs. What is compared is what the row's
kind of run shows: `dry` is the text of --dry-run without its warnings, `train` are exit code, rows of metrics without times,
the files that are left, the texts of dumped generations, and the log lines without the steps' and without
times. A key without a row fails, as does a row of a key that is not honoured.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

A = "actor_rollout_ref."
ACTOR, REF, ROLLOUT, MODEL = A + "actor.", A + "ref.", A + "rollout.", A + "model."
MEGATRON, OPTIM, VAL = ACTOR + "megatron.", ACTOR + "optim.", ROLLOUT + "val_kwargs."

# Honoured keys that no healthy run shows: the test that does, or why there is none.
UNSEEN = {
    A + "nccl_timeout": "ends a run that hangs (test_hung_rank, test_watchdog)",
    "data.val_batch_size": "bounds the memory of a validation; its numbers are the same (test_validation)",
}

# Keys whose other value is refused, or ends the run: that is what they do.
REFUSING = [MODEL + "random_init", "reward.custom_reward_function.on_failure", "algorithm.adv_estimator",
            REF + "megatron.dtype"]

# What runs are made of. {tmp} is a folder with the files that `prepare` makes.
STATIC = [MEGATRON + "dynamic_context_parallel=False", ACTOR + "use_dynamic_bsz=False",
          ACTOR + "ppo_micro_batch_size_per_gpu=1", ROLLOUT + "log_prob_micro_batch_size_per_gpu=1",
          REF + "log_prob_micro_batch_size_per_gpu=1", MEGATRON + "context_parallel_size=1"]
FOUR = ["trainer.n_gpus_per_node=4"]
LONG = [MEGATRON + "max_seqlen_per_dp_cp_rank=128"]
PACKED = [MEGATRON + "dynamic_context_parallel=False"]
BALANCED = [MEGATRON + "dynamic_cp_scheduler=balanced", MEGATRON + "dynamic_cp_cost_model={tmp}/a.json"]
KL = [ACTOR + "use_kl_loss=True"]
FULL = [MEGATRON + "override_transformer_config.recompute_granularity=full",
        MEGATRON + "override_transformer_config.recompute_method=block",
        MEGATRON + "override_transformer_config.recompute_num_layers=1"]
TEMPLATE = [MODEL + "custom_chat_template=\"{% for m in messages %}{{ m.content }}{% endfor %}"
            "{% if tools %}aaaa{% endif %}{% if extra %}bb{% endif %}\""]
BIG_STEPS = [OPTIM + "lr=0.02", OPTIM + "lr_decay_style=constant"]
CLIPS = BIG_STEPS + [ACTOR + "clip_ratio_low=null", ACTOR + "clip_ratio_high=null"]
KL_REWARD = BIG_STEPS + ["algorithm.use_kl_in_reward=True", "algorithm.kl_ctrl.kl_coef=0.3"]
ADAPTIVE = KL_REWARD + ["algorithm.kl_ctrl.type=adaptive", "algorithm.kl_ctrl.horizon=100"]
WARM = [OPTIM + "lr_warmup_steps=2", OPTIM + "total_training_steps=8"]
VALIDATE = ["data.val_files={tmp}/few.jsonl", "trainer.val_only=True"]
SAMPLED = VALIDATE + [VAL + "do_sample=True", VAL + "temperature=1.0"]
PYTHON = ["reward.custom_reward_function.path={tmp}/score.py"]
SLOW = PYTHON + ["reward.custom_reward_function.name=slow", "trainer.total_training_steps=1",
                 "data.train_batch_size=1", ACTOR + "ppo_mini_batch_size=1", ROLLOUT + "n=2"]
OVERLONG = "{overlong_buffer_cfg: {enable: true, len: 8, penalty_factor: %s, log: false}, max_resp_len: 24}"
SAVES = ["trainer.save_freq=1"]

# key: (kind of run, one value, another, overrides of both)
ROWS = {
    OPTIM + "lr": ("train", "3e-3", "1e-3", []),
    OPTIM + "min_lr": ("train", "0", "2e-3", [OPTIM + "total_training_steps=3"]),
    OPTIM + "betas": ("train", "[0.9,0.999]", "[0.5,0.9]", []),
    OPTIM + "weight_decay": ("train", "0.01", "0.5", []),
    OPTIM + "clip_grad": ("train", "1.0", "1e-9", []),
    OPTIM + "total_training_steps": ("train", "3", "9", []),
    OPTIM + "lr_warmup_steps": ("train", "0", "2", WARM[1:]),
    OPTIM + "lr_warmup_steps_ratio": ("train", "0.0", "0.5", [OPTIM + "total_training_steps=8"]),
    OPTIM + "lr_warmup_init": ("train", "0.0", "1e-3", WARM),
    OPTIM + "lr_decay_steps": ("train", "3", "9", []),
    OPTIM + "lr_decay_style": ("train", "cosine", "linear", [OPTIM + "total_training_steps=3"]),
    MEGATRON + "tensor_model_parallel_size": ("dry", 1, 2, FOUR),
    MEGATRON + "sequence_parallel": ("dry", True, False, FOUR + [MEGATRON + "tensor_model_parallel_size=2"]),
    MEGATRON + "use_distributed_optimizer": ("dry", True, False, []),
    MEGATRON + "context_parallel_size": ("dry", 1, 2, []),
    MEGATRON + "dynamic_context_parallel": ("dry", True, False, []),
    MEGATRON + "max_seqlen_per_dp_cp_rank": ("dry", 64, 128, []),
    MEGATRON + "dynamic_cp_scheduler": ("dry", "default", "balanced", []),
    MEGATRON + "dynamic_cp_cost_model": ("dry", "{tmp}/a.json", "{tmp}/b.json", BALANCED[:1]),
    MEGATRON + "seed": ("train", 42, 43, []),
    MEGATRON + "dtype": ("dry", "float32", "float64", []),
    MEGATRON + "override_transformer_config.recompute_granularity": ("dry", "null", "selective", []),
    MEGATRON + "override_transformer_config.recompute_method": ("dry", "uniform", "block", FULL),
    MEGATRON + "override_transformer_config.recompute_num_layers": ("dry", 1, 2, FULL),
    ACTOR + "ppo_mini_batch_size": ("dry", 2, 4, []),
    ACTOR + "ppo_micro_batch_size_per_gpu": ("dry", 1, 2, STATIC),
    ACTOR + "use_dynamic_bsz": ("dry", True, False, STATIC),
    ACTOR + "ppo_max_token_len_per_gpu": ("dry", 128, 256, PACKED),
    ACTOR + "ppo_epochs": ("dry", 1, 2, []),
    ACTOR + "shuffle": ("dry", False, True, []),
    ACTOR + "data_loader_seed": ("dry", 1, 2, [ACTOR + "shuffle=True"]),
    ACTOR + "clip_ratio": ("train", 0.2, 1e-4, CLIPS),
    ACTOR + "clip_ratio_low": ("train", 0.2, 1e-4, BIG_STEPS),
    ACTOR + "clip_ratio_high": ("train", 0.2, 1e-4, BIG_STEPS),
    ACTOR + "clip_ratio_c": ("train", 3.0, 1.0001, BIG_STEPS + [ACTOR + "clip_ratio_high=0.00001"]),
    ACTOR + "loss_agg_mode": ("train", "token-mean", "seq-mean-token-sum", []),
    ACTOR + "loss_scale_factor": ("train", "null", 7, [ACTOR + "loss_agg_mode=seq-mean-token-sum-norm"]),
    ACTOR + "entropy_coeff": ("train", 0, 0.1, []),
    ACTOR + "calculate_entropy": ("train", False, True, []),
    ACTOR + "use_kl_loss": ("dry", False, True, []),
    ACTOR + "kl_loss_coef": ("train", 0.001, 0.5, KL),
    ACTOR + "kl_loss_type": ("train", "low_var_kl", "abs", KL),
    ACTOR + "checkpoint.save_contents": ("train", "[model,optimizer,extra]", "[model]",
                                         SAVES + [ACTOR + "checkpoint.load_contents=[model]"]),
    ACTOR + "checkpoint.load_contents": ("resume", "[model,optimizer,extra]", "[model]", SAVES),
    REF + "log_prob_micro_batch_size_per_gpu": ("dry", 1, 2, STATIC + KL),
    REF + "log_prob_use_dynamic_bsz": ("dry", False, True, STATIC + KL),
    REF + "log_prob_max_token_len_per_gpu": ("dry", 128, 256, PACKED + KL),
    REF + "megatron.max_seqlen_per_dp_cp_rank": ("dry", 64, 128, KL),
    REF + "megatron.dynamic_cp_scheduler": ("dry", "default", "balanced", KL),
    REF + "megatron.dynamic_cp_cost_model": ("dry", "{tmp}/a.json", "{tmp}/b.json",
                                             KL + [REF + "megatron.dynamic_cp_scheduler=balanced"]),
    REF + "megatron.dtype": ("dry", "float32", "float64", KL),
    REF + "megatron.override_transformer_config": (
        "dry", "{min_dynamic_context_parallel_size: 1}", "{min_dynamic_context_parallel_size: 2}", KL),
    ROLLOUT + "name": ("dry", "native", "replay", [ROLLOUT + "replay_path={tmp}/a.replay"]),
    ROLLOUT + "temperature": ("train", 1.0, 0.5, []),
    ROLLOUT + "top_k": ("train", -1, 2, []),
    ROLLOUT + "top_p": ("train", 1, 0.5, []),
    ROLLOUT + "do_sample": ("train", True, False, []),
    ROLLOUT + "n": ("dry", 4, 8, []),
    ROLLOUT + "seed": ("train", 42, 43, []),
    ROLLOUT + "ignore_eos": ("train", False, True, []),
    ROLLOUT + "prompt_length": ("dry", 100, 120, LONG),
    ROLLOUT + "response_length": ("train", 24, 12, []),
    ROLLOUT + "max_num_seqs": ("dry", 256, 2, []),
    ROLLOUT + "full_determinism": ("dry", False, True, [
        "trainer.device=cuda", MEGATRON + "dtype=bfloat16", "data.max_response_length=400",
        MEGATRON + "max_seqlen_per_dp_cp_rank=1024", ROLLOUT + "max_num_seqs=1"]),
    ROLLOUT + "record_path": ("train", "null", "{out}/record.jsonl", []),
    ROLLOUT + "replay_path": ("dry", "{tmp}/a.replay", "{tmp}/b.replay", [ROLLOUT + "name=replay"]),
    VAL + "temperature": ("train", 1.0, 0.3, SAMPLED),
    VAL + "top_k": ("train", -1, 1, SAMPLED),
    VAL + "top_p": ("train", 1.0, 0.2, SAMPLED),
    VAL + "n": ("train", 1, 2, SAMPLED),
    VAL + "do_sample": ("train", False, True, VALIDATE + [VAL + "temperature=1.0"]),
    ROLLOUT + "log_prob_micro_batch_size_per_gpu": ("dry", 1, 2, STATIC),
    ROLLOUT + "log_prob_max_token_len_per_gpu": ("dry", 128, 256, PACKED),
    ROLLOUT + "multi_turn.tool_config_path": ("dry", "null", "{tmp}/tools.yaml", TEMPLATE),
    MODEL + "path": ("dry", "{quickstart}/model", "{tmp}/smaller", []),
    MODEL + "random_init": ("dry", True, False, []),
    MODEL + "override_config": ("dry", "{num_hidden_layers: 2}", "{num_hidden_layers: 1}", []),
    MODEL + "custom_chat_template": ("dry", "null", "\"{{ messages[0].content }}aaa\"", []),
    MODEL + "use_fused_kernels": ("dry", False, True, [MEGATRON + "max_seqlen_per_dp_cp_rank=4096",
                                                       "++" + MODEL + "override_config={vocab_size: 2000000}"]),
    "data.train_files": ("dry", "{quickstart}/train.jsonl", "{tmp}/few.jsonl", []),
    "data.val_files": ("dry", "{quickstart}/train.jsonl", "{tmp}/few.jsonl", ["trainer.val_only=True"]),
    "data.train_max_samples": ("dry", -1, 20, []),
    "data.val_max_samples": ("dry", -1, 2, VALIDATE),
    "data.prompt_key": ("dry", "prompt", "longer", ["data.train_files={tmp}/few.jsonl"]),
    "data.reward_fn_key": ("train", "data_source", "other_source", ["data.train_files={tmp}/digits.jsonl",
                                                                     MODEL + "path={tmp}/digits",
                                                                     "data.max_response_length=1"]),
    "data.apply_chat_template_kwargs": ("dry", "{extra: false}", "{extra: true}", TEMPLATE),
    "data.tool_config_path": ("dry", "null", "{tmp}/tools.yaml", TEMPLATE),
    "data.max_prompt_length": ("dry", 100, 120, LONG),
    "data.max_response_length": ("dry", 24, 30, LONG),
    "data.truncation": ("train", "left", "right", ["data.max_prompt_length=2"]),
    "data.filter_overlong_prompts": ("dry", False, True, ["data.max_prompt_length=40", "data.truncation=left"]),
    "data.train_batch_size": ("dry", 4, 8, []),
    "data.shuffle": ("dry", True, False, []),
    "data.seed": ("dry", 1, 2, []),
    "data.max_token_len_per_gpu": ("dry", 128, 256, PACKED),
    "reward.custom_reward_function.path": ("train", "null", "{tmp}/score.py", []),
    "reward.custom_reward_function.name": ("train", "compute_score", "twice", PYTHON),
    "reward.custom_reward_function.reward_kwargs": ("train", "{scale: 1}", "{scale: 3}", PYTHON),
    "reward.custom_reward_function.timeout_s": ("train", 20, 0.2, SLOW +
                                                ["reward.custom_reward_function.on_failure=zero"]),
    "reward.custom_reward_function.on_failure": ("train", "zero", "stop", PYTHON + [
        "reward.custom_reward_function.name=fails_once"]),
    "reward.reward_manager.name": ("train", "naive", "dapo", ["++reward.reward_kwargs=" + OVERLONG % 1]),
    "reward.reward_kwargs": ("train", OVERLONG % 0.5, OVERLONG % 1, ["reward.reward_manager.name=dapo"]),
    "reward.gsm8k_method": ("train", "strict", "flexible", ["data.train_files={tmp}/digits.jsonl",
                                                            MODEL + "path={tmp}/digits",
                                                            "data.max_response_length=1"]),
    "algorithm.adv_estimator": ("dry", "grpo", "gae", []),
    "algorithm.norm_adv_by_std_in_grpo": ("train", True, False, []),
    "algorithm.use_kl_in_reward": ("dry", False, True, []),
    "algorithm.kl_penalty": ("train", "kl", "mse", KL_REWARD),
    "algorithm.kl_ctrl.type": ("train", "fixed", "adaptive", KL_REWARD + ["algorithm.kl_ctrl.horizon=100"]),
    "algorithm.kl_ctrl.kl_coef": ("train", 0.001, 0.5, KL_REWARD),
    "algorithm.kl_ctrl.horizon": ("train", 100, 1000, ADAPTIVE),
    "algorithm.kl_ctrl.target_kl": ("train", 1e-6, 1.0, ADAPTIVE + ["trainer.total_training_steps=3"]),
    "trainer.total_epochs": ("dry", 1, 2, ["trainer.total_training_steps=null"]),
    "trainer.total_training_steps": ("dry", 2, 3, []),
    "trainer.project_name": ("train", "{out}/logs", "{out}/other", []),
    "trainer.experiment_name": ("train", "run", "other", []),
    "trainer.logger": ("train", "[console]", "[console,file]", []),
    "trainer.nnodes": ("dry", 1, 2, []),
    "trainer.n_gpus_per_node": ("dry", 2, 4, []),
    "trainer.ranks_per_gpu": ("dry", 1, 2, []),
    "trainer.save_freq": ("train", -1, 1, []),
    "trainer.test_freq": ("train", -1, 1, ["data.val_files={tmp}/few.jsonl"]),
    "trainer.val_before_train": ("train", False, True, ["data.val_files={tmp}/few.jsonl"]),
    "trainer.val_only": ("train", False, True, ["data.val_files={tmp}/few.jsonl"]),
    "trainer.rollout_data_dir": ("train", "null", "{out}/dumps", []),
    "trainer.validation_data_dir": ("train", "null", "{out}/dumps", VALIDATE),
    "trainer.resume_mode": ("resume", "auto", "disable", SAVES),
    "trainer.resume_from_path": ("resume", "{out}/ckpt/global_step_1", "{out}/ckpt/global_step_2",
                                 SAVES + ["trainer.resume_mode=resume_path"]),
    "trainer.default_local_dir": ("train", "{out}/ckpt", "{out}/other", SAVES),
    "trainer.max_actor_ckpt_to_keep": ("train", "null", 1, SAVES),
    "trainer.device": ("dry", "cpu", "cuda", []),
}

SCORE = """import os, time
def compute_score(data_source, solution_str, ground_truth, extra_info=None, scale=1):
    return scale * len(solution_str)
def twice(**arguments):
    return 2 * compute_score(**arguments)
def slow(**arguments):
    time.sleep(0.5)
    return compute_score(**arguments)
def fails_once(**arguments):
    if len(arguments["solution_str"]) > 3:
        raise ValueError("too long")
    return compute_score(**arguments)
"""
TOOLS = """tools:
  - class_name: mine.Tool
    config: {type: native}
    tool_schema:
      type: function
      function: {name: f, description: d, parameters: {type: object, properties: {}, required: []}}
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def prepare(tmp, quickstart):
    """Files that rows name."""
    rows = [json.loads(line) for line in (quickstart / "train.jsonl").read_text().splitlines()[:8]]
    for row in rows:
        row["longer"] = [{"role": "user", "content": row["prompt"][0]["content"] + "abab"}]
    write(tmp / "few.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    digits = [{"data_source": "openai/gsm8k", "other_source": "math_dapo",
               "prompt": [{"role": "user", "content": "12"}],
               "reward_model": {"style": "rule", "ground_truth": str(i % 4 + 1)}} for i in range(8)]
    write(tmp / "digits.jsonl", "".join(json.dumps(row) + "\n" for row in digits))
    for name in ("digits", "smaller"):
        shutil.copytree(quickstart / "model", tmp / name)
    tokenizer = (tmp / "digits/tokenizer.json").read_text()
    for letter, digit in zip("abcd", "1234"):
        tokenizer = tokenizer.replace(f'"{letter}"', f'"{digit}"')
    write(tmp / "digits/tokenizer.json", tokenizer)
    config = json.loads((tmp / "smaller/config.json").read_text())
    config["num_hidden_layers"] = 1
    write(tmp / "smaller/config.json", json.dumps(config))
    terms = ["micro_batch", "document", "linear", "quadratic", "exchange", "exchanged"]
    for name, costs in (("a", [0, 0, 1, 0, 0, 0]), ("b", [100, 0, 1, 1, 50, 10])):
        seconds = {p: dict(zip(terms, costs)) for p in ("update", "log_prob")}
        write(tmp / f"{name}.json", json.dumps({"version": 1, "subject": name, "device": "cpu", "seconds": {
            **seconds, "mini_batch": 0.5}}))
    for name, length in (("a", 3), ("b", 20)):
        lines = [json.dumps({"uid": f"u{i // 4}", "prompt_ids": [1, 2], "response_ids": [1] * length,
                             "reward": 0.5}) for i in range(32)]
        write(tmp / f"{name}.replay", "\n".join(lines) + "\n")
    write(tmp / "score.py", SCORE)
    write(tmp / "tools.yaml", TOOLS)


class Checker:
    def __init__(self, binary, quickstart, tmp):
        self.binary, self.quickstart, self.tmp = binary, quickstart, tmp

    def arguments(self, out, overrides):
        base = ["--config-name", "quickstart", "data.train_files={quickstart}/train.jsonl",
                MODEL + "path={quickstart}/model", "data.train_batch_size=4", "data.seed=1",
                ACTOR + "ppo_mini_batch_size=2", ROLLOUT + "n=4", "data.max_response_length=24",
                "data.max_token_len_per_gpu=128", MEGATRON + "max_seqlen_per_dp_cp_rank=64",
                "trainer.n_gpus_per_node=2", MEGATRON + "context_parallel_size=1",
                "trainer.total_training_steps=2", "trainer.save_freq=-1", "trainer.logger=[console,file]",
                "trainer.default_local_dir={out}/ckpt", "trainer.project_name={out}/logs",
                "trainer.experiment_name=run", "trainer.resume_mode=auto"]
        places = {"{tmp}": self.tmp, "{out}": out, "{quickstart}": self.quickstart}
        result = []
        for argument in base + overrides:
            for name, folder in places.items():
                argument = argument.replace(name, str(folder))
            result.append(argument)
        return result

    def run(self, out, overrides, *flags):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run([self.binary, *flags, *self.arguments(out, overrides)], capture_output=True,
                              text=True, cwd=self.tmp, env=environment, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def observe(self, kind, overrides):
        """What a run shows, and whether it went well."""
        out = pathlib.Path(tempfile.mkdtemp(dir=self.tmp))
        if kind == "dry":
            code, text, errors = self.run(out, overrides, "--dry-run")
            return code, text if code == 0 else errors  # warnings name values, which proves nothing
        if kind == "resume":
            # The first run knows nothing of the key, which comes last.
            code, _, errors = self.run(out, SAVES)
            if code != 0:
                return code, errors
            overrides = ["trainer.total_training_steps=3"] + overrides
        code, text, errors = self.run(out, overrides)
        seen = [re.sub(r"[0-9.]+ s\b", "", line) for line in (text + errors).splitlines()
                if not line.startswith(("step:", "changed since"))]
        for path in sorted(p for p in out.rglob("*") if p.is_file()):
            name = str(path.relative_to(out))
            seen.append(name)
            if name.endswith(".jsonl"):
                seen += [self.without_times(line) for line in path.read_text().splitlines()]
        result = "\n".join(seen).replace(str(out), "")
        shutil.rmtree(out)
        return code, result

    @staticmethod
    def without_times(line):
        row = json.loads(line)
        if isinstance(row.get("data"), dict):
            row["data"] = {k: v for k, v in row["data"].items() if "timing_" not in k and "perf/" not in k}
        return json.dumps(row)

    def check(self, key, row):
        """What is wrong with the row; "" when the key changes something."""
        kind, one, other, overrides = row
        seen = [self.observe(kind, overrides + [f"++{key}={value}"]) for value in (one, other)]
        if seen[0][0] != 0:
            return f"{key}={one} fails: {seen[0][1][-400:]}"
        if seen[1][0] != 0 and key not in REFUSING:
            return f"{key}={other} fails: {seen[1][1][-400:]}"
        if seen[0] == seen[1]:
            return f"{key}: {one} and {other} show the same ({kind})"
        return ""


def self_test(checker):
    """A key without effect shows nothing, or the comparison means nothing."""
    for kind in ("dry", "train", "resume"):
        row = (kind, 1, 2, SAVES if kind == "resume" else [])
        if not checker.check("data.dataloader_num_workers", row).endswith(f"show the same ({kind})"):
            return [f"a key without effect seems to have one ({kind})"]
    return []


def main():
    binary, kinds, quickstart = sys.argv[1:4]
    only = sys.argv[4:]
    rows = [line.split("\t") for line in pathlib.Path(kinds).read_text().splitlines()]
    honoured = {row[0] for row in rows if row[1] == "honoured"}
    problems = [f"{key} is honoured and has no row" for key in sorted(honoured - set(ROWS) - set(UNSEEN))]
    problems += [f"{key} has a row and is not honoured" for key in sorted((set(ROWS) | set(UNSEEN)) - honoured)]
    with tempfile.TemporaryDirectory() as folder:
        tmp = pathlib.Path(folder)
        prepare(tmp, pathlib.Path(quickstart).resolve())
        checker = Checker(str(pathlib.Path(binary).resolve()), pathlib.Path(quickstart).resolve(), tmp)
        if not only:
            problems += self_test(checker)
        chosen = {key: row for key, row in ROWS.items() if not only or key in only}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            problems += [p for p in pool.map(lambda item: checker.check(*item), chosen.items()) if p]
    print("\n".join(problems + [f"{len(chosen)} keys changed, {len(UNSEEN)} without an observable, "
                                f"{len(problems)} problems"]))
    sys.exit(1 if problems else 0)


main()
