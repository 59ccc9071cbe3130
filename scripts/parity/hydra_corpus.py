"""Random overrides, YAML texts and layered trees for hydra_check.py: pieces of the grammars, and
mutations of what they make."""

WORDS = ["a", "b1", "x-y", "_z", "adam", "true", "False", "TrUe", "null", "NULL", "inf", "nan", "-inf", "Inf", "NaN",
         "yes", "on", "e5", "infinity", "nullx", "int", "text"]
NUMBERS = ["0", "1", "-5", "+5", "10", "100_000", "1__0", "010", "0x10", "1e-6", "1E5", "1.5e+3", "1_0.5", "1e1_0", ".5",
           "1.", "-.5", "1._5", "1e", "1.5.2", "1-2", "9223372036854775807", "9223372036854775808", "-0", "00", "1_", "2.0",
           "-0.0", "1e16", "123456789.125", "1e-5", "0.0001", "1e400", "5e-324", "+.5e-3"]
CHARACTERS = list("/-\\+.$%*@?|:")
ESCAPES = ["\\\\", "\\(", "\\)", "\\[", "\\]", "\\{", "\\}", "\\:", "\\=", "\\,", "\\ ", "\\\t"]
SPACES = [" ", "  ", "\t", ""]
INTERPOLATIONS = ["${one}", "${ one }", "${group.a}", "${group[a]}", "${.one}", "${oc.env:VERLCPP_SET}", "${oc.env:VERLCPP_UNSET,3}",
                  "${oc.env:VERLCPP_UNSET, a b}", "${oc.select:missing,7}", "${oc.select:one,7}", "${oc.env:VERLCPP_UNSET,null}",
                  "${list[0]}", "${list.1}", "${missing}", "${oc.select:missing}", "${}", "${oc.decode:1e3}", "${word}",
                  "${nothing}", "${open}", "${oc.env:VERLCPP_UNSET}", "${unknown:x}", "${group}", "$", "${one"]
NESTED = ["${oc.select:missing,${one}}", "${oc.decode:${oc.env:VERLCPP_SET}}", "${oc.select:${word},x}", "${${word}}",
          "${oc.select:missing,[1,a, ${one}]}", "${oc.select:missing,{a:1,b: ${word}}}", "${oc.select:missing,,}", "${oc.select:}",
          "${oc.select:missing,x${one}y}", "${oc.select:missing,'it is ${one}'}", "${group[${name}]}", "${oc.select: missing , 5 }", "${oc.select:missing, a b }", "${oc.select:missing,[1] }", "${oc.decode: one }",
          "${oc.select:missing,\\,}", "${oc.select:missing,\\\\${one}}", "${oc.env:VERLCPP_UNSET,true}", "${oc.select:missing,\"q'q\"}",
          "${group.${name}}", "${a.b:1}", "${oc.select:missing,[1,,2]}", "${oc.select:group.zz,{}}", "${oc.select:missing,x:y}",
          "${oc.env:VERLCPP_UNSET,1.50}", "${oc.select:missing,'a\\'b'}", "${oc.select:missing,'\\${one}'}", "${oc.select:missing,'a\\\\'}",
          "${oc.create:{a:1,b: ${one}}}", "${oc.create:${group}}", "${oc.create:[x,${one}]}", "${oc.create:3}",
          "${oc.create:[x,${.one}]}", "${oc.select:missing,{a: ${.word}}}", "${oc.env:VERLCPP_UNSET,[${.list.1}]}",
          "${oc.dict.keys:group}", "${oc.dict.values:group}", "${oc.dict.keys:missing}", "${oc.dict.values:list}",
          "${oc.dict.keys:${word}}", "${oc.select:missing,'${one}'}", "${oc.decode:'${one}'}", "${oc.select:missing,['${one}']}",
          "${oc.env:VERLCPP_UNSET,'${nothing}'}", "${oc.select:missing,'${group}'}", "${oc.select:missing,'${open}'}"]
QUOTED_PIECES = ["a", " ", ",", "1", "\\\\", "\\", "\\'", '\\"', "${one}", "\\${one}", "[", "}", "=", ":", "'", '"', "#", "é", "\n"]
NEIGHBOURS = ("one: 1\nrate: 1e-6\nword: text\nname: a\nnothing: null\nopen: \"???\"\nlist: [5, x, {y: 6}]\n"
              "group: {a: 1, b: '${.a}', deep: {d: '${..a}', e: '${...one}'}}\n")


def quoted(rng):
    quote = rng.choice("'\"")
    return quote + "".join(rng.choice(QUOTED_PIECES) for _ in range(rng.randint(0, 4))) + quote


def primitive(rng):
    kind = rng.random()
    if kind < 0.25:
        return rng.choice(NUMBERS)
    if kind < 0.45:
        return rng.choice(WORDS)
    if kind < 0.6:
        return quoted(rng)
    if kind < 0.7:
        return rng.choice(INTERPOLATIONS)
    pools = [NUMBERS, WORDS, CHARACTERS, ESCAPES, SPACES, INTERPOLATIONS]
    return "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randint(1, 4)))


def space(rng):
    return rng.choice(SPACES) if rng.random() < 0.25 else ""


def joined(rng, items, opening, closing):
    return opening + space(rng) + ",".join(space(rng) + item + space(rng) for item in items) + space(rng) + closing


def dict_key(rng):
    if rng.random() < 0.8:
        return rng.choice(WORDS) + str(rng.randint(0, 9))
    return "".join(rng.choice(rng.choice([NUMBERS, WORDS, ESCAPES, CHARACTERS[:-1]])) for _ in range(rng.randint(1, 2)))


def call(rng, depth):
    name = rng.choice(["int", "float", "str", "bool", "sort", "int", "float", "str", "bool", "range", "choice", "nope"])
    arguments = [element(rng, depth - 1) if rng.random() < 0.6 else rng.choice(NUMBERS + WORDS)
                 for _ in range(rng.choice([1, 1, 1, 1, 2, 0]))]
    if rng.random() < 0.1:
        arguments = [rng.choice(["value=", "reverse=", "list=", "value ="]) + a for a in arguments]
    if name == "sort" and rng.random() < 0.6:
        pool = rng.choice([["3", "1", "-2", "1.0", "true"], ["b", "a", "'c'", "B"]])
        arguments = ["[" + ",".join(rng.choice(pool) for _ in range(3)) + "]"] + rng.choice([[], ["reverse=true"]])
    return name + space(rng) + joined(rng, arguments, "(", ")")


def element(rng, depth):
    kind = rng.random()
    if depth == 0 or kind < 0.5:
        return primitive(rng)
    if kind < 0.68:
        return joined(rng, [element(rng, depth - 1) for _ in range(rng.randint(0, 3))], "[", "]")
    if kind < 0.85:
        items = [dict_key(rng) + space(rng) + ":" + space(rng) + element(rng, depth - 1) for _ in range(rng.randint(0, 3))]
        return joined(rng, items, "{", "}")
    return call(rng, depth)


def mutated(rng, text, alphabet):
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(text))
        kind = rng.random()
        if kind < 0.4:
            text = text[:at] + rng.choice(alphabet) + text[at:]
        elif kind < 0.7:
            text = text[:at] + text[at + 1:]
        elif kind < 0.85:
            text = text[:at] + text[at:at + rng.randint(1, 4)] * 2 + text[at + 4:]
        else:
            text = text[:at] + rng.choice(alphabet) + text[at + 1:]
    return text


def override(rng):
    name = lambda: rng.choice(["a", "b_c", "x-y", "$v", "a1", "0", "12", "_", "a$b"])
    key = rng.choice([".", ".", ".", "/"]).join(name() for _ in range(rng.choice([1, 1, 2, 2, 3])))
    if rng.random() < 0.15:
        key += "@" + rng.choice(["", "p", "p.q", "_global_", "a/b", "p.0"])
    text = rng.choice(["", "", "", "+", "++", "~"]) + key
    if not (text[0] == "~" and rng.random() < 0.5):
        text += "=" + space(rng) + element(rng, 3) + (space(rng) if rng.random() < 0.3 else "")
    if rng.random() < 0.3:
        text = mutated(rng, text, "ab1_.+-~@=/:,'\"\\[]{}()$ \te0" + "#!é;<" * (rng.random() < 0.2))
    return text


def value(rng):
    if rng.random() < 0.35:
        text = rng.choice(NESTED)
        if rng.random() < 0.4:
            text = rng.choice(["x", "\\", "\\\\", " ", "a b"]) + text + rng.choice(["", "y", "${one}"])
        if rng.random() < 0.4:
            text = mutated(rng, text, "a1_.:,'\"\\[]{}$ ")
        return "'" + text.replace("\\'", "'").replace("'", "\\'") + "'"
    text = element(rng, 2)
    return mutated(rng, text, "a1_.:,'\"\\[]{}()$ ") if rng.random() < 0.15 else text


YAML_WORDS = WORDS + NUMBERS + ["1:30", "-1:30:15", "1:30.5", "0:5.", "1:99", "0b101", "-0x1f", "0o17", "017", "09", "0_7", "1_000_",
                                "~", "Null", "nULL", "y", "n", "Y", "No", "OFF", "Off", "oN", ".inf", "-.INF", "+.inf", ".nan", ".NaN",
                                "-.nan", ".5e3", ".5e+3", "1.5e3", "-1.", "1_0.", "._5", "2024-01-02", "a b", "a:b", "a#b", "http://x.y/z",
                                "-", "- a", "=", "@x", "`x", "%x", "!x", "!!str 12", "!!int 0x1f", "!!int '5'", "!!int 1.5", "!!float 1", "!!float .inf", "!!bool on", "!!null x", "!'x'", "&a 1", "?x", "? x", "a: b", "a #b", "é", "???",
                                "${one}", "x/${one}", "\"a\\tb\\u00e9\"", "'it''s'", "\"\\x41\"", "''", "1e5", "12e03", "-12e+03", "+12e03",
                                ".", "..", "+", "-.", "1.e+5", "685_230.15", "0.", "0x", "<<", "|x", ">", "*x", "a,b", "[", "}", ","]


def flow(rng, depth):
    kind = rng.random()
    if depth == 0 or kind < 0.6:
        return rng.choice(YAML_WORDS)
    items = [flow(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    if kind < 0.8:
        return "[" + ", ".join(items) + "]"
    return "{" + ", ".join(f"{rng.choice(WORDS)}{i}: {item}" for i, item in enumerate(items)) + "}"


def block(rng, depth, indent):
    """Lines of a block map or list."""
    lines, is_list = [], rng.random() < 0.3
    for i in range(rng.randint(1, 4)):
        lead = "-" if is_list else rng.choice(["k%d", "k%d", "k%d", "%d", "'k%d'", "k-%d", "k.%d", "\"k %d\""]) % i + ":"
        kind = rng.random()
        if depth > 0 and kind < 0.3:
            deeper = indent + "  "
            lines += [indent + lead] + block(rng, depth - 1, deeper)
        elif kind < 0.36:
            lines += [indent + lead + " " + rng.choice(["|", ">", "|-", ">-", "|+"])]
            lines += [indent + "  " + rng.choice(["text", "more text", "a: b", "- c", "# no comment", ""]) for _ in range(2)]
        elif kind < 0.4:
            lines += [indent + lead + " two words", indent + "  on two lines"]
        else:
            comment = rng.choice(["", "", "", "  # a comment"])
            lines += [indent + lead + " " + flow(rng, 2) + comment]
    return lines


def yaml_text(rng):
    if rng.random() < 0.4:
        return f"k: {rng.choice(YAML_WORDS)}\n"
    text = "\n".join(block(rng, 2, "")) + "\n"
    return mutated(rng, text, "a1:-#'\"[]{},|> \n&*!%?") if rng.random() < 0.2 else text
