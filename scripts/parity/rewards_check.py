#!/usr/bin/env python3
"""Compares our rule scorers with verl's own, for maintainers.

usage: rewards_check.py BUILD/test/reward/score_lines PATH/verl/utils/reward_score [COUNT] [SEED]

Makes COUNT (default 20000) responses and ground truths of awkward forms, seeded, scores each with
verl's Python files and with score_lines, and compares the score and, where verl gives them, acc and
pred. geometry3k needs the packages mathruler, sympy and pylatexenc, and is left out without them.
"""

import contextlib
import importlib.util
import io
import json
import pathlib
import random
import subprocess
import sys
import warnings

NUMBERS = ["7", "-7", "72", "1,234", "1234", "12,34", "$18", "18.0", "18.", ".5", "0.5", "-.5", "007",
           "1e5", "-", ".", ",", "3.14", "1/2", "-3/4", "03/4", "1 / 2", "2 1/2", "10%", "10\\%", "1,000,000",
           "½", "１２", "²", "1_000", "3 million", "6/8", "1.50", "2.0", "0"]
LATEX = ["\\frac{1}{2}", "\\frac12", "\\frac1{72}", "\\frac{72}1", "\\dfrac{1}{2}", "\\tfrac34", "\\frac", "\\frac1",
         "\\frac{\\sqrt{3}}{2}", "\\sqrt3", "\\sqrt{3}", "2\\sqrt{3}", "\\sqrt{12}", "\\sqrt", "\\sqrt[3]{8}", "\\pi",
         "36\\pi", "\\left(1,2\\right)", "(1,2)", "[1,2]", "(1, \\frac12)", "(1,0.5)", "x=5", "xyz=5", "k = 3", "a=b=c",
         "x^2+1", "x(x+1)", "x^2+x", "x^{10}", "90^\\circ", "90^{\\circ}", "\\$18", "18\\text{ cm}", "18\\text{cm}",
         "18\\mbox{ inches}", "\\text{yes}", "\\text{and}", "1\\text{ a}2\\text{ b}", "\\textbf{A}", "\\overline{AB}",
         "\\boxed{5}", "\\{1,2\\}", "1\\!000", "1,\\!000", "\\mathrm{th}", "5\\mathrm{th}", "a\\\\b", "{3}", "{{3}}", "}{",
         "{", "}", "\\infty", "\\frac{a}{b}", "\\frac{x+1}{2}", "\\text{m}", "\\text{}^2", "\\ldots", "\\cdot 2", "3\\cdot4",
         "2\\times3", "\\ ", "~", "\\;", "\\triangle ABC", "\\angle A", "\\theta", "-\\frac{1}{2}", "\\frac{-1}{2}"]
WORDS = ["the", "a", "an ", "mean 5", "yes", "Yes", "No", "square", "5 cm", "5 inches", "12 dollars", "3 hours", "degrees",
         "Paris", "The  City of\nLight", "paris.", "École", "éCOLE", "İstanbul", "naïve", "日本", "straße", "a b", "A-B",
         "\t", "\u00a0", "\u2003x", "\x1c", "\n", " ", "", "None", "[INVALID]", '"quoted"', "an apple", "x and y", "x or y"]
TRUTHS = NUMBERS + LATEX + WORDS
FILL = ["", " ", "x", "so ", "word " * 12, "é" * 40, "y" * 90, "z" * 280, "\n", "$", "{", "}", "日" * 150]


def answers(rng):
    kind = rng.random()
    value = rng.choice(TRUTHS)
    if kind < 0.6:
        return value
    if kind < 0.8:
        return rng.choice(["{}{}", "{} {}", "{},{}", "({},{})", "{}={}", "{}/{}", "{}+{}", "${}$ {}", "{{{}}}{}"]).format(
            value, rng.choice(TRUTHS))
    return rng.choice(["${}$", " {} ", "{}.", "\\text{{{}}}", "\\left({}\\right)", "\\boxed{{{}}}", "{}\\%", "{}^\\circ",
                       "\\frac{{{}}}{{2}}", "\\sqrt{{{}}}", "x={}", "{} units", "-{}"]).format(value)


def pieces(rng):
    value = answers(rng)
    return rng.choice([
        "#### {}", "####{}", "##### {}", "#### ${}", "{}", "\\boxed{{{}}}", "\\boxed {}", "\\boxed {}$ ", "$\\boxed{{{}}}$",
        "\\fbox{{{}}}", "\\boxed{}", "\\boxed{{{}", "Answer: {}", "answer :{}\n", "ANSWER:\n\n {}", "An\u017fwer: {}", "Answer {}",
        "Answer: ${}$.\n", "Answer: \\boxed{{{}}}", "<answer>{}</answer>", "<answer> {} ", "{}</answer>", "<think>{}</think>",
        "<think>a</think> \\boxed{{{}}}", "Answer:{}", "Answer: \n{}"]).format(value)


def response(rng, truth):
    parts = []
    for _ in range(rng.randint(1, 4)):
        parts.append(rng.choice(FILL))
        parts.append(pieces(rng) if rng.random() < 0.7 else str(truth))
    if rng.random() < 0.5:  # often right
        parts.append(rng.choice(["#### {}", "\\boxed{{{}}}", "\\boxed {}$", "Answer: {}", "<answer>{}</answer>",
                                 "<think>x</think>\\boxed{{{}}}"]).format(truth))
    if rng.random() < 0.3:
        parts.append(rng.choice(FILL))
    if rng.random() < 0.03:
        parts.append("<answer>x</answer>" * rng.randint(8, 12) + f"<answer>{truth}</answer>")
    if rng.random() < 0.1:
        parts.insert(0, "<think>")
    return "".join(parts)


def load(folder, name):
    path = folder / f"{name}.py"
    if not path.exists():
        print(f"rewards_check: skipped, there is no {path}")
        sys.exit(0)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compute_score


def scorers(folder):
    """(data_source, flexible, verl's function)."""
    gsm8k = load(folder, "gsm8k")
    all_of_them = [
        ("openai/gsm8k", False, gsm8k),
        ("openai/gsm8k", True, lambda text, truth: gsm8k(text, truth, method="flexible")),
        ("lighteval/MATH", False, load(folder, "math_reward")),
        ("aime24", False, load(folder, "math_dapo")),
        ("searchR1_nq", False, load(folder, "search_r1_like_qa_em")),
    ]
    try:
        all_of_them.append(("hiyouga/geometry3k", False, load(folder, "geo3k")))
    except ImportError as error:
        print(f"hiyouga/geometry3k: skipped, {error}")
    return all_of_them


def cases(source, count, rng):
    for _ in range(count):
        truth = rng.choice(NUMBERS) if source == "openai/gsm8k" else answers(rng)
        text = response(rng, truth)
        if source.startswith("searchR1"):
            truth = {"target": truth if rng.random() < 0.3 else [truth, answers(rng)]}
        yield text, truth


def verl_says(score, text, truth):
    """None: verl raises, which ends its run."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = score(text, truth)
    except Exception:
        return None
    return result if isinstance(result, dict) else {"score": float(result)}


def check(program, source, flexible, score, count, seed):
    asked = list(cases(source, count, random.Random(f"{source} {flexible} {seed}")))
    lines = "".join(json.dumps({"data_source": source, "response": text, "ground_truth": truth, "flexible": flexible}) + "\n"
                    for text, truth in asked)
    run = subprocess.run([program], input=lines, capture_output=True, encoding="utf-8", check=True)
    ours = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(ours) == len(asked)
    differ, raised, right = [], 0, 0
    for (text, truth), mine in zip(asked, ours):
        theirs = verl_says(score, text, truth)
        if theirs is None:
            raised += 1
            continue
        right += theirs["score"] > 0
        if any(mine[key] != value for key, value in theirs.items()):
            differ.append((text, truth, theirs, mine))
    name = source + (" (flexible)" if flexible else "")
    print(f"{name}: {len(asked)} cases, {right} with a positive score, {raised} where verl raises, {len(differ)} differ")
    for text, truth, theirs, mine in differ[:12]:
        print(f"  {text!r}\n    ground truth {truth!r}\n    verl {theirs}\n    ours {mine}")
    return len(differ)


def main():
    if len(sys.argv) < 3 or not pathlib.Path(sys.argv[2]).is_dir():
        print("rewards_check: skipped, no folder verl/utils/reward_score given")
        return
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 20000
    seed = sys.argv[4] if len(sys.argv) > 4 else "0"
    differ = sum(check(program, *scorer, count if "geo" not in scorer[0] else max(count // 20, 1), seed)
                 for scorer in scorers(folder))
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
