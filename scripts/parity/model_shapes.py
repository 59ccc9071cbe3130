"""The models that transformers_reference.py makes: every family that is read, biases, tied and untied
heads, head dims that are not hidden / heads, one kv head for all and one for each, every scaling of
rotary angles."""
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)


def qwen2(**sizes):
    return Qwen2ForCausalLM, Qwen2Config(**{"tie_word_embeddings": True} | sizes)


def qwen3(**sizes):
    return Qwen3ForCausalLM, Qwen3Config(tie_word_embeddings=True, attention_bias=False, **sizes)


def llama(**sizes):
    return LlamaForCausalLM, LlamaConfig(**{"tie_word_embeddings": False} | sizes)


def mistral(**sizes):
    return MistralForCausalLM, MistralConfig(tie_word_embeddings=False, **sizes)


def rope(theta, kind="default", **scaling):
    return {"rope_type": kind, "rope_theta": theta, **scaling}


def sizes(layers, hidden, heads, kv_heads, ffn, vocab=151936, **more):
    return dict(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                num_key_value_heads=kv_heads, intermediate_size=ffn, vocab_size=vocab,
                use_cache=False, bos_token_id=None, eos_token_id=0) | {
                    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
                    "rope_parameters": rope(1e6)} | more


# What is no number of layers or neurons. Scaled angles belong to contexts so short that the documents
# go beyond them, and their frequencies are partly kept, partly scaled and partly between.
LLAMA2 = dict(max_position_embeddings=4096, rms_norm_eps=1e-5, rope_parameters=rope(1e4))
LLAMA3 = dict(rms_norm_eps=1e-5, rope_parameters=rope(
    5e5, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=64))
LINEAR = dict(rms_norm_eps=1e-5, rope_parameters=rope(1e4, "linear", factor=4.0))
MISTRAL = dict(rms_norm_eps=1e-5, rope_parameters=rope(1e6), head_dim=128, sliding_window=None)
WINDOW = MISTRAL | dict(rope_parameters=rope(1e4), head_dim=64, sliding_window=4096)
SMOLLM2 = dict(max_position_embeddings=8192, rms_norm_eps=1e-5, rope_parameters=rope(1e5),
               head_dim=64, tie_word_embeddings=True)
YARN = dict(max_position_embeddings=512, tie_word_embeddings=False, rope_parameters=rope(
    1e4, "yarn", factor=4.0, original_max_position_embeddings=128))

SHAPES = {  # seeds go by the place in this list
    "qwen2.5-0.5B": (qwen2, sizes(24, 896, 14, 2, 4864)),
    "qwen2.5-1.5B": (qwen2, sizes(28, 1536, 12, 2, 8960)),
    "qwen3-0.6B": (qwen3, sizes(28, 1024, 16, 8, 3072, head_dim=128)),
    "smollm2-135M": (llama, sizes(30, 576, 9, 3, 1536, vocab=49152, **SMOLLM2)),
    "llama2": (llama, sizes(4, 512, 4, 4, 1376, vocab=32000, **LLAMA2)),
    "llama3": (llama, sizes(4, 512, 8, 2, 1792, vocab=32000, **LLAMA3)),
    "llama-linear": (llama, sizes(4, 512, 8, 8, 1376, vocab=32000, **LINEAR)),
    "mistral": (mistral, sizes(4, 640, 8, 2, 1792, vocab=32000, **MISTRAL)),
    "mistral-window": (mistral, sizes(4, 512, 8, 2, 1792, vocab=32000, **WINDOW)),
    "qwen2.5-yarn": (qwen2, sizes(4, 512, 8, 2, 2432, vocab=32000, **YARN)),
}
# The same kinds of model (head dims, ratios of heads, biases, norms), small enough for a CPU.
TINY = {
    "qwen2.5-0.5B": (qwen2, sizes(3, 448, 7, 1, 300, vocab=1013)),
    "qwen2.5-1.5B": (qwen2, sizes(2, 256, 2, 1, 200, vocab=1013)),
    "qwen3-0.6B": (qwen3, sizes(2, 96, 4, 2, 150, vocab=1013, head_dim=128)),
    "smollm2-135M": (llama, sizes(4, 192, 3, 1, 250, vocab=1013, **SMOLLM2)),
    "llama2": (llama, sizes(2, 256, 2, 2, 200, vocab=1013, **LLAMA2)),
    "llama3": (llama, sizes(2, 256, 4, 1, 200, vocab=1013, **LLAMA3)),
    "llama-linear": (llama, sizes(2, 256, 4, 4, 200, vocab=1013, **LINEAR)),
    "mistral": (mistral, sizes(2, 160, 4, 1, 200, vocab=1013, **MISTRAL)),
    "mistral-window": (mistral, sizes(2, 256, 4, 1, 200, vocab=1013, **WINDOW)),
    "qwen2.5-yarn": (qwen2, sizes(2, 256, 4, 1, 200, vocab=1013, **YARN)),
}
