"""Random Jinja expressions for chat_templates_check.py: operators, methods, filters and tests on
values of every kind, most of which make sense and some of which must fail."""

VALUES = ["''", "'abc'", "'  x y  '", "'ß Σ É'", "'a,b,,c'", "'line1\\nline2\\n'", "'Hello World'", "'42'",
          "'3.7'", "'-1_0'", "0", "1", "-3", "7", "2.5", "-0.0", "1e20", "1.0", "true", "false", "none",
          "nowhere", "[]", "[3, 1, 2]", "['b', 'A', 'c']", "[1, 'x', none, true]", "(1, 2)", "(1,)",
          "{}", "{'a': 1, 'b': 'x'}", "{'z': [1], 'y': {'k': none}}", "[{'n': 2}, {'n': 1}, {}]",
          "range(4)|list", "range(5, 0, -2)|list", "'<a & b>'|safe", "'<i>'|e", "[[1, 2], [3]]", "{1: 'one', true: 2, none: 3}", "bos_token",
          "messages", "messages[0]", "'\\u200b\\x07é\\t'", "\"it's\"", "'He said \"x\" it\\'s'"]
BINARY = ["+", "-", "*", "/", "//", "%", "** 2 +", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and",
          "or"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "trim('x ')", "length", "count", "list",
           "first", "last", "reverse", "reverse|list", "string", "int", "int(5)", "int('7', 16)", "float",
           "float(1)", "abs", "round", "round(1)", "round(1, 'floor')", "round(0, 'ceil')", "sum", "min",
           "max", "sort", "sort(reverse=true)", "sort(case_sensitive=true)", "sort(attribute='n')",
           "unique|list", "join", "join('-')", "join(',', attribute='n')", "default('d')", "d('d', true)",
           "default", "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(sort_keys=true)",
           "tojson(separators=(',', ':'))", "tojson(indent=0)", "items|list", "dictsort",
           "dictsort(by='value')", "dictsort(reverse=true)", "map('upper')|list", "map('string')|join",
           "map(attribute='n')|list", "map(attribute='n', default=0)|sum", "select|list", "reject|list",
           "select('defined')|list", "select('number')|list", "reject('string')|list", "select('gt', 1)|list",
           "selectattr('n')|list", "selectattr('n', 'eq', 1)|list", "rejectattr('n', 'defined')|list",
           "replace('a', 'Z')", "replace('', '.')", "replace('l', 'L', 1)", "indent", "indent(2, true)",
           "indent('> ', blank=true)", "escape", "e", "safe", "center(12)", "format('x', 3)", "batch(2)|list",
           "batch(3, 'f')|list", "attr('upper')|string|length", "truncate(5)", "truncate(6, true, '..', 0)",
           "select", "map('nope')|list", "length|string", "first|default('none')"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping",
         "iterable", "sequence", "true", "false", "odd", "even", "divisibleby(3)", "divisibleby 2",
         "equalto 1", "eq('abc')", "ne 1", "lt 2", "gt(0)", "ge 1", "le 1", "in [1, 'abc']", "callable",
         "lower", "upper", "sameas true", "sameas none", "greaterthan 1"]
METHODS = ["upper()", "lower()", "strip()", "strip('a x')", "lstrip()", "rstrip('\\n')", "split()", "split(',')",
           "split(',', 1)", "rsplit(',', 1)", "rsplit()", "split(none, 1)", "splitlines()", "splitlines(true)",
           "startswith('a')", "startswith(('a', ' '))", "endswith('c')", "endswith('')", "replace('a', 'b')",
           "replace('l', '', 1)", "title()", "capitalize()", "swapcase()", "join(['x', 'y'])", "join([1])",
           "find('b')", "rfind('l')", "find('o', 5)", "index('zz')", "count('l')", "count('')", "format(1)",
           "isdigit()", "isalpha()", "isupper()", "isspace()", "removeprefix('a')", "removesuffix('c')",
           "zfill(6)", "center(9, '*')", "ljust(8)", "rjust(8, '.')", "partition(',')", "rpartition(' ')",
           "items()", "keys()", "values()", "items()|list", "keys()|list", "get('a')", "get('q', 5)", "get('q')",
           "copy()", "append(1)", "pop()", "update({})", "index(1)", "count(1)", "nope()", "nope", "a", "n", "items",
           "0", "1", "real_", "keys"]
SUBSCRIPTS = ["[0]", "[-1]", "[9]", "['a']", "['upper']", "[1:]", "[:2]", "[::-1]", "[-2:]", "[5:1:-2]", "[::0]",
              "['n']", "[none]", "[1:none]", "[true]", "[:-1]", "[100:]", "[::2]", "['a':]"]
FORMATS = ["'{}'.format({0})", "'{0}-{1!r}'.format({0}, {1})", "'{:>8}|'.format({0})", "'{:.2f}'.format({0})",
           "'{:05d}'.format({0})", "'{:,}'.format({0})", "'{x}'.format(x={0})", "'{:^9}|'.format({0})",
           "'%s' % {0}", "'%s %s' % ({0}, {1})", "'%d' % {0}", "'%5.1f|' % {0}", "'%r' % [{0}]", "'%x' % {0}",
           "'%(a)s' % {0}", "'%%' % ()", "'%-6s|' % {0}", "'%03d' % {0}", "'{0[a]} {0.b}'.format({0})",
           "'{{}}{:<5}'.format({0})", "'{:e}'.format({0})", "'{:%}'.format({0})", "'{:+}'.format({0})"]


# Values have names, since Jinja computes with literals when it compiles, by rules of its own.
PRELUDE = "".join("{% set v" + f"{i} = {value}" + " %}" for i, value in enumerate(VALUES))


def expression(r, depth):
    if depth == 0 or r.random() < 0.1:
        return f"v{r.randrange(len(VALUES))}"
    inner = lambda: expression(r, depth - 1)
    return r.choice([
        lambda: f"({inner()} {r.choice(BINARY)} {inner()})",
        lambda: f"{inner()}|{r.choice(FILTERS)}",
        lambda: f"({inner()}|{r.choice(FILTERS)})",
        lambda: f"({inner()}).{r.choice(METHODS)}",
        lambda: f"({inner()}){r.choice(SUBSCRIPTS)}",
        lambda: f"({inner()} is {r.choice(['', 'not '])}{r.choice(TESTS)})",
        lambda: f"({inner()} if {inner()} else {inner()})",
        lambda: f"({inner()} if {inner()})",
        lambda: f"not {inner()}",
        lambda: f"-{inner()}",
        lambda: f"[{inner()}, {inner()}]",
        lambda: "{'k': " + inner() + "}",
        lambda: r.choice(FORMATS).replace("{0})", "@@)").replace("{0}", inner()).replace("{1}", inner())
        .replace("@@)", inner() + ")"),
        lambda: f"({inner()} < {inner()} <= {inner()})",
    ])()


STATEMENTS = [
    "{{% for x in {0} %}}{{{{ loop.index }}}}/{{{{ loop.length }}}}:{{{{ x }}}} {{% else %}}none{{% endfor %}}",
    "{{% for x in {0} if x is defined and x %}}{{{{ x }}}}{{{{ ',' if not loop.last }}}}{{% endfor %}}",
    "{{% for a, b in {0} %}}{{{{ a }}}}={{{{ b }}}};{{% endfor %}}",
    "{{% set x = {0} %}}{{% if x %}}  yes {{{{ x }}}}\n  {{% elif {1} %}}\n maybe{{% else %}}no{{% endif %}}\n",
    "{{% set ns = namespace(v={0}) %}}{{% for i in [1, 2] %}}{{% set ns.v = ns.v ~ i %}}{{% endfor %}}{{{{ ns.v }}}}",
    "{{% macro m(a, b={0}) %}}<{{{{ a }}}}|{{{{ b }}}}>{{% endmacro %}}{{{{ m({1}) }}}}{{{{ m(1, b=2) }}}}",
    "{{% set a, b = {0}, {1} %}}{{{{ a }}}}{{{{ b }}}}",
    "{{% set t %}} {{{{ {0} }}}} {{% endset %}}[{{{{ t|trim }}}}]",
    "{{% filter upper %}}a{{{{ {0} }}}}{{% endfilter %}}",
    "{{# c #}}\n  {{%- if {0} -%}}  x  {{%- endif +%}}\n y",
    "{{% for x in {0} %}}{{% if loop.index > 2 %}}{{% break %}}{{% endif %}}{{{{ loop.previtem }}}}"
    "{{{{ loop.nextitem|default('-') }}}}{{% endfor %}}",
    "{{% with a = {0} %}}{{{{ a }}}}{{% endwith %}}{{{{ a is defined }}}}",
]


def expression_templates(r, count):
    for _ in range(count):
        if r.random() < 0.75:
            yield PRELUDE + "{{ " + expression(r, r.randrange(1, 4)) + " }}"
        else:
            yield PRELUDE + r.choice(STATEMENTS).format(expression(r, 2), expression(r, 1))
