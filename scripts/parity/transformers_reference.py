#!/usr/bin/env python3
"""Writes model folders and what Hugging Face transformers makes of them, for
test/train/test_transformers.cpp (CPU) and test/cuda/test_transformers.cpp (GPU), which read FOLDER
from VERLCPP_PARITY_DIR.

    scripts/parity/transformers_reference.py FOLDER [--device cuda] [--shapes NAME...]
        [--layers N] [--steps N] [--tiny]
    scripts/parity/transformers_reference.py FOLDER --checkpoint NAME=MODEL_FOLDER... [...]

Needs torch and transformers (5). For every shape it makes FOLDER/NAME with random weights as
save_pretrained writes it (bfloat16 numbers, so that every dtype starts from the same weights), for
every checkpoint FOLDER/NAME of links to the files of MODEL_FOLDER, and in it reference.safetensors:
log-probs and entropies of packed documents (random tokens; English text for a checkpoint), the
gradient of the mean -log p over all positions that have a target, losses, gradient norms and weight
changes of AdamW steps. The judge is the model in float64 (with the exact norms and rotary angles of
make_reference.py); how far transformers itself is from it in float32 (TF32 off) and in bfloat16
(float32 master weights) stands beside: the noise that another implementation is measured against.
Of one tensor's gradient norm in bfloat16 a single run says little (in some norm weights one channel
carries the error), so it is drawn DRAWS times: the same function from later positions (rotary angles
are relative) and with a scaled loss.

Gradients and weight changes are stored for rows sampled evenly from every matrix (`sampled_rows`),
for vectors whole.
"""
import argparse
import contextlib
import gc
import math
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
try:
    import torch
    from safetensors.torch import save_file
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from make_reference import make_exact
    from model_shapes import SHAPES, TINY
    from student import two_sided_quantile
except ImportError as missing:
    print(f"skipped: no {missing.name} for Python here")
    sys.exit(0)

# Two packed batches, about 700 tokens: single tokens (no target), odd and prime lengths, none a
# multiple of a tile.
DOCUMENTS = [[1, 2, 3, 7, 130, 257], [64, 33, 199, 1, 5]]
# The same for a checkpoint.
TEXTS = [
    [
        "The ferry to the island leaves at seven in the morning and comes back after dark. In winter "
        "it carries the post, a few crates of oranges and the doctor, who visits on Tuesdays; in "
        "summer there are so many bicycles on deck that nobody can find a place to sit down.",
        "Water boils at a lower temperature on a mountain than it does at the sea, because the air "
        "above it presses less.",
        "Yes.",
    ],
    [
        "A carpenter measures twice and cuts once. Her apprentice measured once, cut four times and "
        "then asked whether the shelf really had to be straight.",
        "To bake the bread, mix 500 grams of flour with 350 grams of water, a little yeast and two "
        "spoons of salt. Let the dough rest overnight, fold it in the morning, and put it into a very "
        "hot oven for about forty minutes. When you knock on the bottom, it should sound hollow.",
        "Q: What is the capital of France?\nA: The capital of France is Paris.",
    ],
]
ADAM = dict(lr=1e-5, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
CLIP = 1.0
SAMPLED = 64
DRAWS = 16
STARTS = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987]  # of positions
# In this order in the file's "error.<dtype>" (relative L2; the largest of the steps).
ERRORS = ["log_prob", "entropy", "gradient", "losses", "grad_norms", "changes", "worst_norm"]


def sampled_rows(count):
    """Also in transformers_run.cpp."""
    wanted = min(SAMPLED, count)
    return [i * count // wanted for i in range(wanted)]


def sample(tensor):
    """A copy, in float64."""
    rows = tensor if tensor.dim() == 1 else tensor[sampled_rows(len(tensor))]
    return rows.to("cpu", torch.float64, copy=True)


def randomize(model, generator):
    """Hugging Face's scale, but norms and biases that cannot be mistaken for ones and zeros."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator, device=p.device)
            if name.endswith("norm.weight"):
                p.copy_(1 + 0.1 * noise)
            else:
                p.copy_((0.1 if p.dim() == 1 else 0.02) * noise)


def draw_tokens(vocab, generator):
    """Half of the tokens are among the sampled rows of the embedding."""
    rows = torch.tensor(sampled_rows(vocab))
    batches = []
    for lengths in DOCUMENTS:
        batch = []
        for n in lengths:
            anywhere = torch.randint(0, vocab, (n,), generator=generator)
            sampled = rows[torch.randint(0, len(rows), (n,), generator=generator)]
            batch.append(torch.where(torch.rand(n, generator=generator) < 0.5, sampled, anywhere))
        batches.append(batch)
    return batches


def build(kind, config, dtype, device, state):
    with torch.device(device):
        model = kind(config)
    model.load_state_dict(state, strict=False)  # a tied head is not in it
    model.tie_weights()
    for p in model.parameters():  # not the buffers: rotary frequencies stay float32
        p.data = p.data.to(dtype)
    model.eval()
    if dtype == torch.float64:
        make_exact(model)
    model.set_attn_implementation("sdpa")
    return model


def token_values(model, ids, start=0):
    """Log-probs of the next tokens and entropies; the softmax in float64."""
    positions = torch.arange(start, start + len(ids), device=ids.device)
    logits = model(ids[None], position_ids=positions[None], use_cache=False).logits[0, :-1]
    logp = torch.log_softmax(logits.double(), dim=-1)
    return logp.gather(1, ids[1:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def gradient(model, documents, start=0, scale=1.0):
    """Leaves the gradient of the mean -log p, times `scale`, in the parameters; documents are
    independent, so a packed batch is the documents one after another."""
    targets = sum(len(ids) - 1 for ids in documents)
    log_probs, entropies = [], []
    for ids in documents:
        if len(ids) == 1:
            continue
        log_prob, entropy = token_values(model, ids, start)
        (-log_prob.sum() / targets * scale).backward()
        log_probs.append(log_prob.detach())
        entropies.append(entropy.detach())
    return torch.cat(log_probs).cpu(), torch.cat(entropies).cpu()


def exact_norm(tensors):
    """torch's own adds one square after the other on a CPU: four digits less for 28 million."""
    return torch.stack([t.pow(2).sum() for t in tensors]).sum().sqrt()


def clip(masters, exact):
    """Clips the gradients; their norm before."""
    if not exact:
        return torch.nn.utils.clip_grad_norm_(masters, CLIP, foreach=True)
    norm = exact_norm([m.grad for m in masters])
    torch.nn.utils.clip_grads_with_norm_(masters, CLIP, norm, foreach=True)
    return norm


def run(model, documents, steps):
    """One gradient, then `steps` AdamW steps. In bfloat16 the optimizer holds float32 weights."""
    named = dict(model.named_parameters())
    wide = torch.float64 if next(iter(named.values())).dtype == torch.float64 else torch.float32
    masters = {name: p if p.dtype == wide else torch.nn.Parameter(p.detach().to(wide))
               for name, p in named.items()}
    groups = [dict(params=[m for m in masters.values() if m.dim() > 1]),
              dict(params=[m for m in masters.values() if m.dim() == 1], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, foreach=True, **ADAM)
    start = {name: sample(m.detach()) for name, m in masters.items()}
    out = dict(losses=[], grad_norms=[])
    for step in range(steps):
        for p in named.values():
            p.grad = None
        log_prob, entropy = gradient(model, documents)
        for name, m in masters.items():
            m.grad = named[name].grad.to(wide)
        if step == 0:
            out["log_prob"], out["entropy"] = log_prob, entropy
            out["gradient"] = {name: sample(m.grad) for name, m in masters.items()}
            out["norms"] = {name: exact_norm([m.grad]).item() for name, m in masters.items()}
        out["losses"].append(-log_prob.mean().item())
        norm = clip(list(masters.values()), exact=wide == torch.float64)
        out["grad_norms"].append(norm.item())
        optimizer.step()
        with torch.no_grad():
            for name, m in masters.items():
                if named[name] is not m:
                    named[name].copy_(m)
    out["changes"] = {name: sample(m.detach()) - start[name] for name, m in masters.items()}
    return out


def relative(a, b):
    a, b = torch.as_tensor(a, dtype=torch.float64), torch.as_tensor(b, dtype=torch.float64)
    return ((a - b).norm() / b.norm()).item()


def flat(tensors):
    return torch.cat([tensors[name].flatten() for name in sorted(tensors)])


def worst_norm(got, exact):
    """Of one tensor's gradient, relative to its own norm or a hundredth of the whole gradient's."""
    floor = 1e-2 * exact["grad_norms"][0]
    return max(abs(got["norms"][name] - norm) / max(norm, floor)
               for name, norm in exact["norms"].items())


def errors(got, exact):
    largest = lambda key: max(abs(g - e) / abs(e) for g, e in zip(got[key], exact[key]))
    return [relative(got["log_prob"], exact["log_prob"]), relative(got["entropy"], exact["entropy"]),
            relative(flat(got["gradient"]), flat(exact["gradient"])), largest("losses"),
            largest("grad_norms"), relative(flat(got["changes"]), flat(exact["changes"])),
            worst_norm(got, exact)]


def norm_noise(model, documents, exact_norms):
    """By how much a run of transformers in bfloat16 may miss the norm of each tensor's gradient:
    the root mean square of DRAWS runs times Student's quantile, at which one run in a hundred has
    any tensor outside."""
    named = dict(model.named_parameters())
    squares = dict.fromkeys(named, 0.0)
    for draw, start in enumerate(STARTS):
        scale = 1 + draw / DRAWS
        for p in named.values():
            p.grad = None
        gradient(model, documents, start, scale)
        for name, p in named.items():
            norm = exact_norm([p.grad.double()]).item() / scale
            squares[name] += (norm - exact_norms[name]) ** 2 / DRAWS
    quantile = two_sided_quantile(0.01 / len(named), DRAWS)
    return {name: quantile * math.sqrt(square) for name, square in squares.items()}


def results(kind, config, state, documents, device, steps):
    """Of float64, float32 and bfloat16, one after the other: each takes the device for itself."""
    by_dtype = {}
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        exact_attention = (contextlib.nullcontext() if dtype == torch.bfloat16
                           else sdpa_kernel(SDPBackend.MATH))
        with exact_attention:
            by_dtype[dtype] = run(build(kind, config, dtype, device, state), documents, steps)
        gc.collect()
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
    return by_dtype


def reference(kind, config, state, batches, device, steps):
    documents = [ids.to(device) for batch in batches for ids in batch]
    by_dtype = results(kind, config, state, documents, device, steps)
    exact = by_dtype[torch.float64]
    noise = norm_noise(build(kind, config, torch.bfloat16, device, state), documents,
                       exact["norms"])
    f64 = lambda values: torch.tensor(values, dtype=torch.float64)
    i32 = lambda values: torch.tensor(values, dtype=torch.int32)
    out = {
        "documents_per_batch": i32([len(batch) for batch in batches]),
        "lengths": i32([len(ids) for ids in documents]),
        "token_ids": torch.cat(documents).to(torch.int32).cpu(),
        "log_prob": exact["log_prob"],
        "entropy": exact["entropy"],
        "adamw": f64([ADAM["lr"], *ADAM["betas"], ADAM["eps"], ADAM["weight_decay"], CLIP]),
        "losses": f64(exact["losses"]),
        "grad_norms": f64(exact["grad_norms"]),
    }
    for name, value in exact["norms"].items():
        out["norm." + name] = f64([value])
        out["norm_noise.bfloat16." + name] = f64([noise[name]])
        out["grad." + name] = exact["gradient"][name]
        out["change." + name] = exact["changes"][name]
    for dtype in (torch.float32, torch.bfloat16):
        found = errors(by_dtype[dtype], exact)
        for values in ("losses", "grad_norms"):
            out[f"{values}.{str(dtype).split('.')[1]}"] = f64(by_dtype[dtype][values])
        out["error." + str(dtype).split(".")[1]] = f64(found)
        print(f"  transformers in {dtype}:",
              ", ".join(f"{name} {e:.1e}" for name, e in zip(ERRORS, found)), flush=True)
    print(f"  loss {exact['losses'][0]:.6f} -> {exact['losses'][-1]:.6f}, "
          f"grad norm {exact['grad_norms'][0]:.4f}", flush=True)
    return {name: t.contiguous() for name, t in out.items()}


def random_model(name, args, folder):
    """Kind, config, weights and batches; the folder is written."""
    seed = list(SHAPES).index(name)
    make, numbers = (TINY if args.tiny else SHAPES)[name]
    kind, config = make(**(numbers | ({"num_hidden_layers": args.layers} if args.layers else {})))
    with torch.device(args.device):
        model = kind(config)
    randomize(model, torch.Generator(args.device).manual_seed(100 + seed))
    model = model.to(torch.bfloat16)
    model.save_pretrained(folder)
    state = {key: p.detach().cpu() for key, p in model.named_parameters()}
    return kind, config, state, draw_tokens(config.vocab_size,
                                            torch.Generator().manual_seed(200 + seed))


def checkpoint(source, folder):
    """The same of a model that is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.iterdir()):
        link = folder / file.name
        link.unlink(missing_ok=True)
        link.symlink_to(file.resolve())
    model, info = AutoModelForCausalLM.from_pretrained(source, dtype="auto",
                                                       output_loading_info=True)
    problems = {key: value for key, value in info.items() if value}
    if problems:
        sys.exit(f"loading {source}: {problems}")
    state = {key: p.detach() for key, p in model.named_parameters()}
    tokenizer = AutoTokenizer.from_pretrained(source)
    batches = [[torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"])
                for text in batch] for batch in TEXTS]
    return type(model), model.config, state, batches


def named_folder(text):
    name, _, path = text.partition("=")
    if not name or not pathlib.Path(path, "config.json").is_file():
        raise argparse.ArgumentTypeError(f"{text!r}: wanted NAME=MODEL_FOLDER, with a config.json")
    return name, pathlib.Path(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES,
                        help="default: all; none beside --checkpoint")
    parser.add_argument("--checkpoint", nargs="+", type=named_folder, default=[],
                        metavar="NAME=MODEL_FOLDER", help="models that are there, on English text")
    parser.add_argument("--layers", type=int, help="instead of the shape's own number")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--tiny", action="store_true", help="small models of the same kinds")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    shapes = args.shapes or ([] if args.checkpoint else list(SHAPES))
    for name, source in [(name, None) for name in shapes] + args.checkpoint:
        began = time.time()
        print(name, flush=True)
        folder = args.folder / name
        model = checkpoint(source, folder) if source else random_model(name, args, folder)
        values = reference(*model, args.device, args.steps)
        (folder / "reference.safetensors").unlink(missing_ok=True)
        save_file(values, folder / "reference.safetensors")
        print(f"  {len(values['token_ids'])} tokens, {time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
