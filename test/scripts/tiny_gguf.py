"""Writes a small GGUF file of the Llama kind: version 3, float32 tensors."""
import struct

UINT32, FLOAT32, INT32, STRING, ARRAY = 4, 6, 5, 8, 9
ALIGNMENT = 32
HEADS, KV_HEADS, HEAD_DIM, HIDDEN, FFN = 2, 1, 4, 8, 3
TOKENS = ["a", "b", "ab", "<s>", "</s>"]

METADATA = {
    "general.architecture": (STRING, "llama"),
    "general.name": (STRING, "tiny"),
    "llama.block_count": (UINT32, 1),
    "llama.context_length": (UINT32, 64),
    "llama.embedding_length": (UINT32, HIDDEN),
    "llama.feed_forward_length": (UINT32, FFN),
    "llama.attention.head_count": (UINT32, HEADS),
    "llama.attention.head_count_kv": (UINT32, KV_HEADS),
    "llama.attention.layer_norm_rms_epsilon": (FLOAT32, 1e-5),
    "llama.rope.freq_base": (FLOAT32, 100000.0),
    "llama.rope.dimension_count": (UINT32, HEAD_DIM),
    "tokenizer.ggml.model": (STRING, "gpt2"),
    "tokenizer.ggml.pre": (STRING, "smollm"),
    "tokenizer.ggml.tokens": (ARRAY, STRING, TOKENS),
    "tokenizer.ggml.token_type": (ARRAY, INT32, [1, 1, 1, 3, 3]),
    "tokenizer.ggml.merges": (ARRAY, STRING, ["a b"]),
    "tokenizer.ggml.bos_token_id": (UINT32, 3),
    "tokenizer.ggml.eos_token_id": (UINT32, 4),
    "tokenizer.chat_template": (STRING, "{{ messages[0].content }}"),
}


def matrix(rows, columns, start):
    """Different numbers that bfloat16 does not round."""
    return [[float((start + r * columns + c) % 128) for c in range(columns)] for r in range(rows)]


def interleaved(rows, heads):
    """q and k as llama.cpp stores them: rows 0, H/2, 1, H/2 + 1, ... of each head."""
    size, out = len(rows) // heads, []
    for head in range(heads):
        own = rows[head * size:(head + 1) * size]
        for i in range(size // 2):
            out += [own[i], own[size // 2 + i]]
    return out


def hf_weights():
    """The model under Hugging Face's names."""
    layer = "model.layers.0."
    return {
        "model.embed_tokens.weight": matrix(len(TOKENS), HIDDEN, 0),
        "model.norm.weight": matrix(1, HIDDEN, 7)[0],
        layer + "input_layernorm.weight": matrix(1, HIDDEN, 9)[0],
        layer + "post_attention_layernorm.weight": matrix(1, HIDDEN, 11)[0],
        layer + "self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, HIDDEN, 13),
        layer + "self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN, 17),
        layer + "self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN, 19),
        layer + "self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD_DIM, 23),
        layer + "mlp.gate_proj.weight": matrix(FFN, HIDDEN, 29),
        layer + "mlp.up_proj.weight": matrix(FFN, HIDDEN, 31),
        layer + "mlp.down_proj.weight": matrix(HIDDEN, FFN, 37),
    }


def gguf_tensors():
    """The same under GGUF's."""
    w = hf_weights()
    layer = "model.layers.0."
    return {
        "token_embd.weight": w["model.embed_tokens.weight"],
        "output_norm.weight": w["model.norm.weight"],
        "blk.0.attn_norm.weight": w[layer + "input_layernorm.weight"],
        "blk.0.ffn_norm.weight": w[layer + "post_attention_layernorm.weight"],
        "blk.0.attn_q.weight": interleaved(w[layer + "self_attn.q_proj.weight"], HEADS),
        "blk.0.attn_k.weight": interleaved(w[layer + "self_attn.k_proj.weight"], KV_HEADS),
        "blk.0.attn_v.weight": w[layer + "self_attn.v_proj.weight"],
        "blk.0.attn_output.weight": w[layer + "self_attn.o_proj.weight"],
        "blk.0.ffn_gate.weight": w[layer + "mlp.gate_proj.weight"],
        "blk.0.ffn_up.weight": w[layer + "mlp.up_proj.weight"],
        "blk.0.ffn_down.weight": w[layer + "mlp.down_proj.weight"],
    }


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def plain(kind, value):
    return string(value) if kind == STRING else struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f"}[kind], value)


def field(kind, *value):
    if kind != ARRAY:
        return struct.pack("<I", kind) + plain(kind, value[0])
    element, values = value
    return struct.pack("<IIQ", ARRAY, element, len(values)) + b"".join(plain(element, v) for v in values)


def flat(values):
    return [x for row in values for x in row] if isinstance(values[0], list) else values


def gguf_bytes(metadata=None, tensors=None):
    metadata = METADATA if metadata is None else metadata
    tensors = gguf_tensors() if tensors is None else tensors
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        out += string(key) + field(*value)
    data = b""
    for name, values in tensors.items():
        shape = [len(values[0]), len(values)] if isinstance(values[0], list) else [len(values)]
        out += string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        out += struct.pack("<IQ", 0, len(data))
        numbers = flat(values)
        data += struct.pack(f"<{len(numbers)}f", *numbers)
        data += b"\0" * (-len(data) % ALIGNMENT)
    return out + b"\0" * (-len(out) % ALIGNMENT) + data
