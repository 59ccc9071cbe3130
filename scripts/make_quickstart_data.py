#!/usr/bin/env python3
"""Writes scripts/quickstart/: the prompts and the model folder of the quickstart.

The task (data_source verlcpp/cycle): the prompt is a run of one size symbol, closed by a letter; the
answer walks on from that letter round the cycle a b c d a ..., for a length that the symbol asks
for. The score is the share of right steps (lib/rollout/reward.h), so random answers earn a little
and every better step earns more. The model folder holds a configuration and a tokenizer of eight tokens
but no weights: training starts from random ones.

Python 3 alone; the same output every time.
"""

import json
import math
import pathlib
import random

ROOT = pathlib.Path(__file__).resolve().parent / "quickstart"
LETTERS = "abcd"
# Size symbol: shortest and longest answer that earn full marks. No length serves all three.
SIZES = {".": (2, 8), ":": (6, 24), "#": (16, 64)}
EOS = "<eos>"
ROWS = 192
LONGEST_PROMPT = 96
SEED = 20


def prompt_row(index, size, length, letter):
    low, high = SIZES[size]
    return {
        "data_source": "verlcpp/cycle",
        "prompt": [{"role": "user", "content": size * (length - 1) + letter}],
        "ability": "cycle",
        "reward_model": {"style": "rule", "ground_truth": f"{letter} {low} {high}"},
        "extra_info": {"split": "train", "index": index},
    }


def prompt_rows():
    """Sizes evenly; lengths log-uniform from 2 to LONGEST_PROMPT tokens, most of them short."""
    rng = random.Random(SEED)
    shortest, longest = math.log(2), math.log(LONGEST_PROMPT)
    lengths = [round(math.exp(shortest + (longest - shortest) * i / (ROWS - 1))) for i in range(ROWS)]
    rng.shuffle(lengths)
    symbols = list(SIZES)
    return [
        prompt_row(i, symbols[i % len(symbols)], lengths[i], rng.choice(LETTERS))
        for i in range(ROWS)
    ]


def tokenizer_json():
    vocabulary = [EOS, *LETTERS, *SIZES]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": 0,
                "content": EOS,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(vocabulary)},
            "merges": [],
        },
    }


TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": EOS,
    "pad_token": EOS,
    "model_max_length": 512,
    "clean_up_tokenization_spaces": False,
}

MODEL_CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": 1 + len(LETTERS) + len(SIZES),
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "initializer_range": 0.02,
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "eos_token_id": 0,
    "pad_token_id": 0,
    "dtype": "float32",
}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def main():
    model = ROOT / "model"
    model.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, separators=(",", ":")) for row in prompt_rows()]
    (ROOT / "train.jsonl").write_text("\n".join(lines) + "\n")
    write_json(model / "config.json", MODEL_CONFIG)
    write_json(model / "tokenizer.json", tokenizer_json())
    write_json(model / "tokenizer_config.json", TOKENIZER_CONFIG)


if __name__ == "__main__":
    main()
