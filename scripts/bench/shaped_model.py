#!/usr/bin/env python3
"""Writes a Hugging Face folder of Qwen2.5-0.5B's shape with the quickstart's tokenizer.

The weights are random, but such that only the tokenizer's eight tokens are ever drawn, so that the
quickstart's task gives rewards and gradients: the embedding (tied to the head) has one direction that
those tokens share and the others oppose, and the layers add little to it.

  scripts/bench/shaped_model.py OUTPUT_FOLDER        # needs torch and transformers
"""

import pathlib
import shutil
import sys

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

TOKENIZER = pathlib.Path(__file__).resolve().parent.parent / "quickstart" / "model"
SPOKEN = 8  # tokens of that tokenizer


def shaped_model():
    torch.manual_seed(3)
    config = Qwen2Config(
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        vocab_size=151936,
        tie_word_embeddings=True,
        rope_theta=1e6,
        rms_norm_eps=1e-6,
        max_position_embeddings=32768,
        eos_token_id=0,
        pad_token_id=0,
        bos_token_id=0,
    )
    model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    with torch.no_grad():
        embedding = model.model.embed_tokens.weight
        shared = torch.randn(config.hidden_size).sign().to(torch.bfloat16) * 0.02
        embedding[:SPOKEN] = 0.3 * embedding[:SPOKEN] + shared
        embedding[SPOKEN:] -= shared
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight *= 0.02
            layer.mlp.down_proj.weight *= 0.02
    return model


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    output = pathlib.Path(sys.argv[1])
    shaped_model().save_pretrained(output)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, output / name)


if __name__ == "__main__":
    main()
