#!/usr/bin/env python3
"""Writes the PyTorch vectors that test/model and test/data compare against.

    python scripts/make_reference.py test/data/reference

Needs torch and transformers (which bring safetensors and tokenizers); nothing else in the
project does. For every architecture it makes

    <name>/                   a tiny random model as transformers saves it, with a tokenizer
    <name>/reference.safetensors
                              numbers of that model in float64 (see `vectors` below)

and in bpe/ a small byte-level BPE tokenizer with merges. The folders' tokenizer_cases.json hold
texts and what the tokenizers library makes of them.

transformers computes norms and rotary angles in float32 whatever the model's dtype is, so those
two modules are replaced by their float64 formulas; `check_against_float32` holds the replacement
against the untouched model.
"""

import json
import math
import pathlib
import sys

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content']"
    " + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TEXTS = [
    "",
    "12+30=42",
    "line one\nline two  with   spaces",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|><|im_star t|><|endoftext|>x<|im_end|",
    "the theory of the thing: then there, the other",
]
UNICODE_TEXTS = ["naïve café — 日本 🙂", "\ttab\u00a0and\x7f\x00control"]
CHAT = [
    {"role": "system", "content": "Add."},
    {"role": "user", "content": "1+1?\n"},
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "2+2?"},
]

LENGTHS = [13, 8]
TEMPERATURE = 0.7
ADAM = dict(lr=3e-3, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.1)
CLIP = 1.0
STEPS = 10


def common(**more):
    return dict(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=0,
        bos_token_id=None,
        pad_token_id=0,
        dtype="float32",
        **more,
    )


def build_models():
    """Between them: tied and untied, biases, QK norm, a head_dim that is not hidden / heads, odd
    ffn sizes, another rotary base, one kv head, a sliding window longer than the documents, and every
    rotary scaling, with contexts so short that the documents go beyond them."""
    qwen2 = Qwen2Config(
        **common(intermediate_size=29, tie_word_embeddings=True),
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    )
    qwen3 = Qwen3Config(
        **common(intermediate_size=27, head_dim=10, tie_word_embeddings=False),
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    llama = LlamaConfig(
        **{**common(intermediate_size=31, tie_word_embeddings=False), "num_key_value_heads": 1},
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
    )
    llama.eos_token_id = [0, 98]
    mistral = MistralConfig(
        **common(intermediate_size=23, head_dim=12, tie_word_embeddings=False),
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        sliding_window=64,
    )
    llama3 = LlamaConfig(
        **common(intermediate_size=21, head_dim=16, tie_word_embeddings=True),
        rms_norm_eps=1e-5,
        rope_parameters={
            "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
        },
    )
    linear = LlamaConfig(  # SmolLM2's kind: tied
        **common(intermediate_size=25, tie_word_embeddings=True),
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    )
    yarn = Qwen2Config(
        **common(intermediate_size=29, tie_word_embeddings=False),
        rms_norm_eps=1e-6,
        rope_parameters={
            "rope_type": "yarn", "rope_theta": 100.0, "factor": 16.0,
            "original_max_position_embeddings": 32,
        },
    )
    return {
        "qwen2": Qwen2ForCausalLM(qwen2),
        "qwen3": Qwen3ForCausalLM(qwen3),
        "llama": LlamaForCausalLM(llama),
        "mistral": MistralForCausalLM(mistral),
        "llama3": LlamaForCausalLM(llama3),
        "linear": LlamaForCausalLM(linear),
        "yarn": Qwen2ForCausalLM(yarn),
    }


def randomize(model, generator):
    """Weights far from their initial values, so that no term of a gradient is negligible."""
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=generator)
            if name.endswith("bias"):
                p.copy_(0.2 * noise)
            elif p.dim() == 1:
                p.copy_(1 + 0.2 * noise)
            elif "embed_tokens" in name:
                p.copy_(0.5 * noise)
            else:
                p.copy_(noise / p.shape[1] ** 0.5)


def exact_norm(module):
    def forward(x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)
        return module.weight * (x * scale)

    return forward


def yarn_kept(rope, head_dim):
    """Of each frequency, how much of it YaRN leaves as it is."""
    turns = lambda n: head_dim * math.log(rope["original_max_position_embeddings"] / (n * 2 * math.pi))
    bounds = [turns(n) / (2 * math.log(rope["rope_theta"])) for n in (32, 1)]
    low, high = max(math.floor(bounds[0]), 0), min(math.ceil(bounds[1]), head_dim - 1)
    place = torch.arange(head_dim // 2, dtype=torch.float64)
    return 1 - ((place - low) / (high - low if high > low else 0.001)).clamp(0, 1)


def llama3_kept(rope, inv_freq):
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    turns = rope["original_max_position_embeddings"] * inv_freq / (2 * math.pi)
    return ((turns - low) / (high - low)).clamp(0, 1)


def exact_rotary(config):
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    exponent = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    rope = config.rope_parameters
    inv_freq = rope["rope_theta"] ** -exponent
    kind, factor, scale = rope["rope_type"], rope.get("factor", 1.0), 1.0
    if kind == "linear":
        inv_freq = inv_freq / factor
    elif kind != "default":
        kept = yarn_kept(rope, head_dim) if kind == "yarn" else llama3_kept(rope, inv_freq)
        inv_freq = inv_freq * (kept + (1 - kept) / factor)
        scale = 0.1 * math.log(factor) + 1 if kind == "yarn" else 1.0

    def forward(x, position_ids, *_args, **_kwargs):
        angle = position_ids[..., None].to(torch.float64) * inv_freq.to(position_ids.device)
        angle = torch.cat((angle, angle), dim=-1)
        return scale * angle.cos(), scale * angle.sin()

    return forward


def make_exact(model):
    """Norms and rotary angles of a float64 model in float64."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = exact_norm(module)
        elif type(module).__name__.endswith("RotaryEmbedding"):
            module.forward = exact_rotary(model.config)
        elif isinstance(module, torch.nn.Embedding):
            module.padding_idx = None  # as in Megatron, the pad token's row learns like any other


def float64_model(model):
    exact = type(model)(model.config)
    exact.load_state_dict(model.state_dict())
    exact = exact.double().eval()
    exact.set_attn_implementation("sdpa")  # the eager one takes its softmax in float32
    make_exact(exact)
    return exact


def check_against_float32(model, exact, documents):
    for ids in documents:
        a = model(ids[None]).logits.double()
        b = exact(ids[None]).logits
        worst = (a - b).abs().max().item()
        assert b.dtype == torch.float64 and worst < 2e-5, worst


def make_batch(generator):
    total = sum(LENGTHS)
    documents = [torch.randint(0, 100, (n,), generator=generator) for n in LENGTHS]
    documents[0][3] = 0  # the pad token inside a document
    documents[1][2] = documents[1][5]  # a token that occurs twice
    rows, labels, start = [], [], 0
    for ids in documents:
        for i in range(len(ids) - 1):
            if (start + i) % 5 != 1:  # rows of a prompt need no log-prob
                rows.append(start + i)
                labels.append(ids[i + 1].item())
        start += len(ids)
    # Small enough that some of the training steps are clipped and some are not.
    weights = [
        torch.randn(len(rows), generator=generator, dtype=torch.float64) / (2 * total)
        for _ in range(2)
    ]
    return dict(documents=documents, rows=rows, labels=labels, w_lp=weights[0], w_ent=weights[1])


def outputs(exact, batch):
    """Documents are independent, so a packed batch is the documents one after another."""
    logits = torch.cat([exact(ids[None], use_cache=False).logits[0] for ids in batch["documents"]])
    logp = torch.log_softmax(logits[batch["rows"]] / TEMPERATURE, dim=-1)
    log_prob = logp[torch.arange(len(batch["rows"])), torch.tensor(batch["labels"])]
    entropy = -(logp.exp() * logp).sum(-1)
    loss = (batch["w_lp"] * log_prob).sum() + (batch["w_ent"] * entropy).sum()
    return logits, log_prob, entropy, loss


def train(exact, batch):
    """Losses before each of STEPS AdamW steps and the gradient norms before clipping. Megatron's
    rule: no weight decay for one-dimensional tensors."""
    matrices = [p for p in exact.parameters() if p.dim() > 1]
    vectors_ = [p for p in exact.parameters() if p.dim() == 1]
    groups = [dict(params=matrices), dict(params=vectors_, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, **ADAM)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = outputs(exact, batch)[3]
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(exact.parameters(), CLIP).item())
        optimizer.step()
        losses.append(loss.item())
    losses.append(outputs(exact, batch)[3].item())
    return losses, norms


def vectors(model, generator):
    exact = float64_model(model)
    batch = make_batch(generator)
    check_against_float32(model, exact, batch["documents"])
    logits, log_prob, entropy, loss = outputs(exact, batch)
    loss.backward()
    out = {"grad." + name: p.grad.clone() for name, p in exact.named_parameters()}
    f64 = lambda values: torch.tensor(values, dtype=torch.float64)
    i32 = lambda values: torch.tensor(values, dtype=torch.int32)
    out |= {
        "lengths": i32(LENGTHS),
        "token_ids": torch.cat(batch["documents"]).to(torch.int32),
        "head_rows": i32(batch["rows"]),
        "labels": i32(batch["labels"]),
        "temperature": f64([TEMPERATURE]),
        "weight_log_prob": batch["w_lp"],
        "weight_entropy": batch["w_ent"],
        "logits": logits.detach(),
        "log_prob": log_prob.detach(),
        "entropy": entropy.detach(),
        "loss": loss.detach()[None],
    }
    losses, norms = train(exact, batch)
    out["adamw"] = f64([ADAM["lr"], *ADAM["betas"], ADAM["eps"], ADAM["weight_decay"], CLIP])
    out["train_losses"] = f64(losses)
    out["train_grad_norms"] = f64(norms)
    for name, p in exact.named_parameters():  # weights after training, as two numbers a tensor
        w = p.detach()
        out["trained." + name] = torch.stack([w.sum(), w.pow(2).sum()])
    print(f"  loss {losses[0]:.6f} -> {losses[-1]:.6f}, grad norms {min(norms):.3f}-{max(norms):.3f}")
    return {name: t.contiguous() for name, t in out.items()}


def byte_symbols():
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def byte_tokenizer():
    """No merges: newline and printable ASCII, one token a byte, after the special tokens."""
    symbols = [chr(c) for c in range(0x21, 0x7F)] + ["\u0120", "\u010a"]  # ByteLevel's ' ' and '\n'
    vocab = {token: i for i, token in enumerate(SPECIAL + symbols)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    return finish(tokenizer)


def finish(tokenizer):
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    return tokenizer


def bpe_tokenizer():
    tokenizer = finish(Tokenizer(models.BPE()))
    trainer = trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=byte_symbols(), special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS[1:] * 3 + ["the cat then sat on that hat"] * 2, trainer)
    return finish(tokenizer)


def save_tokenizer(tokenizer, folder, texts, chat_template):
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=SPECIAL[0], pad_token=SPECIAL[0]
    )
    fast.chat_template = chat_template
    fast.save_pretrained(folder)
    encoded = [fast(text, add_special_tokens=False)["input_ids"] for text in texts]
    generator = torch.Generator().manual_seed(7)  # bytes that are rarely UTF-8
    drawn = torch.randint(0, len(fast), (20, 12), generator=generator).tolist()
    decodes = [
        {
            "ids": ids,
            "text": fast.decode(ids, skip_special_tokens=True),
            "with_special": fast.decode(ids, skip_special_tokens=False),
        }
        for ids in encoded + drawn
    ]
    chats = [
        {"messages": CHAT, "add_generation_prompt": prompt, "text": fast.apply_chat_template(
            CHAT, add_generation_prompt=prompt, tokenize=False)}
        for prompt in (False, True) if chat_template
    ]
    cases = {
        "encodes": [{"text": text, "ids": ids} for text, ids in zip(texts, encoded)],
        "decodes": decodes,
        "chats": chats,
    }
    lines = [f' "{key}": [\n  ' + ",\n  ".join(map(json.dumps, rows)) + "\n ]" if rows else
             f' "{key}": []' for key, rows in cases.items()]
    (folder / "tokenizer_cases.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_reference.py FOLDER")
    target = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    templates = {"qwen2": CHATML, "qwen3": CHATML, "llama": None}
    for seed, (name, model) in enumerate(build_models().items()):
        print(name)
        folder = target / name
        generator = torch.Generator().manual_seed(1234 + seed)
        randomize(model, generator)
        model.eval().save_pretrained(folder)
        if name in templates:
            save_tokenizer(byte_tokenizer(), folder, TEXTS, templates[name])
        save_file(vectors(model, generator), folder / "reference.safetensors")
    folder = target / "bpe"
    folder.mkdir(parents=True, exist_ok=True)
    save_tokenizer(bpe_tokenizer(), folder, TEXTS + UNICODE_TEXTS, None)


if __name__ == "__main__":
    main()
