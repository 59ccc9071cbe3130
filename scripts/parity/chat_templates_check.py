#!/usr/bin/env python3
"""Our rendering of chat templates beside transformers' own apply_chat_template.

Renders generated conversations (roles, tools, unicode, empty contents, missing keys) with templates
in the style of each family, with every *.jinja in the folders named, and generated expressions, by
transformers and by build/test/jinja/render_chats: the same text, or an error in both. Python's name of
an object itself ('<built-in method upper of str object at 0x7f01...>'), which render_chats refuses to
print, is nothing to compare. Exits 1 on a difference.

  scripts/parity/chat_templates_check.py [--conversations N] [--expressions N] [--seed S]
                                         [--program FILE] [FOLDER...]
"""
import argparse
import collections.abc
import functools
import json
import pathlib
import random
import re
import signal
import subprocess
import sys
import unittest.mock

from chat_template_styles import STYLES
from jinja_expressions import expression_templates

try:
    import jinja2.sandbox
    import tokenizers
    import transformers
except ImportError as missing:
    print(f"skipped: no {missing.name} for Python here")
    sys.exit(0)

TEXTS = ["", "hi", " spaced \n", "Größe ß Straße ΣΑΣ", "数学 1+1=?", "🙂👩‍👩‍👧 z\u200bw", "it's \"quoted\"\\",
         "<think>\nfirst\n</think>\n\nthen", "</think>", "<think>only", "a\tb\r\nc", "{{ 7*7 }}{% x %}",
         "<tool_response>\nr\n</tool_response>", "line\n\nline\u2028end", "x" * 300, "\x1c\x85 \xa0pad\u3000"]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def pick_text(r):
    return r.choice(TEXTS) if r.random() < 0.8 else r.choice(TEXTS) + r.choice(TEXTS)


def pick_value(r, depth=0):
    kinds = ["text", "int", "float", "bool", "none"] + (["list", "dict"] * 2 if depth < 2 else [])
    kind = r.choice(kinds)
    if kind == "list":
        return [pick_value(r, depth + 1) for _ in range(r.randrange(4))]
    if kind == "dict":
        return {r.choice("zyxab") + str(i): pick_value(r, depth + 1) for i in range(r.randrange(4))}
    return {"text": lambda: pick_text(r), "int": lambda: r.randrange(-999, 10**9),
            "float": lambda: r.choice([0.5, 1e-7, 1e22, -2.0, 3.14159, 1 / 3, 1e16, 123456.789]),
            "bool": lambda: r.random() < 0.5, "none": lambda: None}[kind]()


def pick_call(r):
    arguments = {f"k{i}": pick_value(r) for i in range(r.randrange(3))}
    function = {"name": r.choice(["search", "größe"]),
                "arguments": json.dumps(arguments) if r.random() < 0.3 else arguments}
    call = {"type": "function", "function": function} if r.random() < 0.9 else function
    if r.random() < 0.7:
        call["id"] = r.choice(["abcdef123", "x1"])
    return call


def pick_message(r, role):
    message = {"role": role, "content": pick_text(r)}
    chance = r.random()
    if role == "assistant":
        if r.random() < 0.25:
            message["tool_calls"] = [pick_call(r) for _ in range(r.choice([1, 1, 1, 2, 0]))]
            message["content"] = r.choice(["", None, pick_text(r)])
        if r.random() < 0.2:
            message[r.choice(["reasoning_content", "reasoning", "thinking"])] = \
                r.choice([pick_text(r), None])
    if role == "tool":
        message.update(name="search", tool_call_id="abcdef123")
        if r.random() < 0.3:
            message["content"] = pick_value(r)
    if chance < 0.05:
        message["content"] = [{"type": "text", "text": pick_text(r)} for _ in range(r.randrange(3))]
    elif chance < 0.07:
        del message["content"]
    elif chance < 0.09:
        message[r.choice(["name", "weight", "prefix"])] = pick_value(r)
    return message


def pick_roles(r):
    if r.random() < 0.25:
        return [r.choice(["user", "assistant", "system", "tool", "stop"])
                for _ in range(r.randrange(1, 7))]
    roles = ["system"] if r.random() < 0.4 else []
    for _ in range(r.randrange(1, 4)):
        roles += ["user", "assistant"] + (["tool", "assistant"] if r.random() < 0.2 else [])
    return roles if r.random() < 0.3 else roles[:-1]


def pick_tools(r):
    if r.random() < 0.6:
        return None
    properties = {name: {"type": "string", "description": pick_text(r)} for name in ("q", "größe")}
    tool = {"type": "function", "function": {
        "name": "search", "description": pick_text(r),
        "parameters": {"type": "object", "properties": properties, "required": ["q"]}}}
    return [tool] * r.randrange(3)


def pick_variables(r):
    variables = dict(SPECIAL)
    for name, values in {"enable_thinking": [True, False], "date_string": ["1 Jan 2030"],
                         "builtin_tools": [["code", "web"]], "custom_tools": [[{"name": "t"}]],
                         "reasoning_effort": ["low"], "thinking": [True, False]}.items():
        if r.random() < 0.15:
            variables[name] = r.choice(values)
    return variables


def pick_chat(r, template):
    return {"template": template, "messages": [pick_message(r, role) for role in pick_roles(r)],
            "tools": pick_tools(r), "add_generation_prompt": r.random() < 0.5,
            "variables": pick_variables(r)}


def make_tokenizer():
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, **SPECIAL)


def reference(tokenizer, chat):
    """(text, None) or (None, error)."""
    signal.alarm(5)  # an expression that Python computes for ever
    more = {k: v for k, v in chat["variables"].items() if k not in SPECIAL}
    try:
        return tokenizer.apply_chat_template(
            chat["messages"], chat_template=chat["template"], tools=chat["tools"], tokenize=False,
            add_generation_prompt=chat["add_generation_prompt"], **more), None
    except Exception as error:  # whatever a template makes Python raise
        return None, f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)


class ObjectText(Exception):
    """An object itself becomes text."""


class Nameless:
    """A method or an iterator that can be called or gone through, but has no text."""

    def __init__(self, inner):
        self.inner = inner

    def __call__(self, *args, **kwargs):
        return self.inner(*args, **kwargs)

    def __iter__(self):
        return iter(self.inner)

    def __next__(self):
        return next(self.inner)

    def __repr__(self):
        raise ObjectText


def nameless(function, kind):
    """`function`, whose results of a kind have no text."""
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        out = function(*args, **kwargs)
        return Nameless(out) if kind(out) else out
    return wrapped


def names_object(tokenizer, chat, answer):
    """Whether we refuse to print a method or an iterator of which transformers does make a text, whatever
    the template does with that text."""
    if not re.search(r": prints (the function '\w+'; call |a \w+ object; put )", answer):
        return False
    sandbox, filters = jinja2.sandbox.SandboxedEnvironment, jinja2.defaults.DEFAULT_FILTERS
    lookups = {name: nameless(getattr(sandbox, name), lambda out: hasattr(out, "__name__"))
               for name in ("getattr", "getitem")}
    iterators = {name: nameless(one, lambda out: isinstance(out, collections.abc.Iterator))
                 for name, one in filters.items()}
    compiled = transformers.utils.chat_template_utils._compile_jinja_template
    compiled.cache_clear()  # has the filters in it
    with unittest.mock.patch.multiple(sandbox, **lookups), unittest.mock.patch.dict(filters, iterators):
        error = reference(tokenizer, chat)[1]
    compiled.cache_clear()
    return error is not None and error.startswith(ObjectText.__name__ + ":")


def ours(program, chats):
    lines = "".join(json.dumps(chat) + "\n" for chat in chats)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def compare(name, tokenizer, program, chats, shown):
    expected = [reference(tokenizer, chat) for chat in chats]
    answers = ours(program, chats)
    assert len(answers) == len(chats), f"{name}: {len(answers)} answers to {len(chats)} chats"
    same, errors, differences, names = 0, 0, 0, 0
    for chat, (text, error), answer in zip(chats, expected, answers):
        if text is None and "error" in answer:
            errors += 1
        elif text is not None and answer.get("text") == text:
            same += 1
        elif text is not None and "error" in answer and names_object(tokenizer, chat, answer["error"]):
            names += 1
        else:
            differences += 1
            if differences <= shown:
                print(f"--- {name}\n chat: {json.dumps(chat, ensure_ascii=False)[-1500:]}\n"
                      f" transformers: {text!r} {error}\n ours:         {answer}")
    print(f"{name}: {len(chats)} chats, {same} texts equal, {errors} errors in both, "
          f"{differences} differences" + (f" ({names} print Python's name of an object)" if names else ""),
          flush=True)
    return same, errors, differences


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--conversations", type=int, default=500)
    parser.add_argument("--expressions", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shown", type=int, default=2)
    parser.add_argument("--program", default="build/test/jinja/render_chats")
    arguments = parser.parse_args()
    templates = dict(STYLES)
    for folder in arguments.folders:
        templates.update({str(p): p.read_text() for p in sorted(folder.glob("*.jinja"))})
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("5 seconds")))
    r = random.Random(arguments.seed)
    tokenizer = make_tokenizer()
    print(f"transformers {transformers.__version__}, jinja2 {jinja2.__version__}, "
          f"{len(templates)} templates")
    batches = {name: [pick_chat(r, template) for _ in range(arguments.conversations)]
               for name, template in templates.items()}
    if arguments.expressions > 0:
        message = [{"role": "user", "content": "hi"}]
        batches["expressions"] = [
            {"template": template, "messages": message, "tools": None,
             "add_generation_prompt": False, "variables": dict(SPECIAL)}
            for template in expression_templates(r, arguments.expressions)]
    total = [0, 0, 0]
    for name, chats in batches.items():
        for i, n in enumerate(compare(name, tokenizer, arguments.program, chats, arguments.shown)):
            total[i] += n
    print(f"all: {sum(total)} chats, {total[0]} texts equal, {total[1]} errors in both, "
          f"{total[2]} differences")
    sys.exit(1 if total[2] else 0)


main()
