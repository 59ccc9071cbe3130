#!/usr/bin/env python3
"""Holds the Parquet reader against pyarrow: writes assorted files and compares every row with what
build/test/data/dump_rows makes of it.

    scripts/parity/parquet_check.py [BUILD_FOLDER]

Needs pyarrow and pandas; says so and ends with 0 where they are not. For maintainers.
"""
import datetime
import decimal
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    print(f"parquet_check: skipped, {error.name} is not installed")
    sys.exit(0)

CODECS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]
STRUCT = pa.struct([
    ("index", pa.int64()), ("split", pa.string()), ("scores", pa.list_(pa.float64())),
    ("nested", pa.struct([("deep", pa.list_(pa.struct([("k", pa.large_string()), ("v", pa.int32())])))])),
    ("when", pa.timestamp("us")), ("flag", pa.bool_()),
])
VERL = pa.schema([
    ("data_source", pa.string()),
    ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
    ("ability", pa.dictionary(pa.int32(), pa.string())),
    ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
    ("extra_info", STRUCT),
])


def maybe(rng, value):
    return None if rng.random() < 0.15 else value


def text(rng):
    return "".join(rng.choice("abc é\n\"\\\t漢😀") for _ in range(rng.randint(0, 30)))


def verl_row(rng):
    messages = [maybe(rng, {"role": maybe(rng, "user"), "content": maybe(rng, text(rng))})
                for _ in range(rng.randint(0, 3))]
    deep = [maybe(rng, {"k": maybe(rng, text(rng)), "v": maybe(rng, rng.randint(-9, 9))})
            for _ in range(rng.randint(0, 3))]
    info = {
        "index": maybe(rng, rng.randint(-2**62, 2**62)), "split": maybe(rng, "train"),
        "scores": maybe(rng, [maybe(rng, rng.random() * 10**rng.randint(-9, 9)) for _ in range(3)]),
        "nested": maybe(rng, {"deep": maybe(rng, deep)}),
        "when": maybe(rng, datetime.datetime(2024, 2, 29) + datetime.timedelta(
            seconds=rng.randint(-2**31, 2**31), microseconds=rng.choice([0, 5]))),
        "flag": maybe(rng, rng.random() < 0.5),
    }
    return {
        "data_source": maybe(rng, text(rng)), "prompt": maybe(rng, messages),
        "ability": maybe(rng, rng.choice(["math", "code"])),
        "reward_model": maybe(rng, {"style": "rule", "ground_truth": maybe(rng, text(rng))}),
        "extra_info": maybe(rng, info),
    }


def plain(value):
    """What pyarrow's to_pylist gave, as parquet.h says it is to be in JSON."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.decode()
    if value is pd.NaT:
        return None
    if isinstance(value, (datetime.date, datetime.time, decimal.Decimal)):
        return str(value)
    return value


def compare(program, path, name):
    wanted = [plain(row) for row in pq.read_table(path).to_pylist()]
    result = subprocess.run([program, path], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{name}: {result.stderr.strip()}")
    lines = result.stdout.split("\n")[:-1]
    if len(lines) != len(wanted):
        sys.exit(f"{name}: {len(lines)} rows, pyarrow has {len(wanted)}")
    for number, (line, row) in enumerate(zip(lines, wanted), 1):
        ours = None if line.startswith("! ") else json.loads(line)
        if ours != row:
            sys.exit(f"{name}: row {number}\n  here    {line}\n  pyarrow {row!r}")
    return len(wanted)


def typed_columns():
    day, rng = datetime.date(2024, 2, 29), random.Random(5)
    columns = {
        "strings": pa.array(["a", None, "é"]), "large": pa.array(["a", None, "b"], pa.large_string()),
        "views": pa.array(["a", None, "long enough not to be inline"], pa.string_view()),
        "bytes": pa.array([b"a", None, b"c"]), "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
        "decimals": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-0.07")]),
        "decimal256": pa.array([decimal.Decimal(10**45), None, decimal.Decimal(-3)], pa.decimal256(50, 1)),
        "half": pa.array([1.5, None, -0.25], pa.float16()), "float": pa.array([0.1, None, float("nan")], pa.float32()),
        "double": pa.array([1e300, None, float("-inf")]), "unsigned": pa.array([2**64 - 1, None, 0], pa.uint64()),
        "date32": pa.array([day, None, datetime.date(1, 1, 1)]), "date64": pa.array([day, None, datetime.date(1969, 12, 31)], pa.date64()),
        "time32": pa.array([datetime.time(3, 4, 5), None, datetime.time(23, 59, 59)], pa.time32("s")),
        "time64": pa.array([datetime.time(3, 4, 5, 6), None, datetime.time(0)], pa.time64("us")),
        "nulls": pa.nulls(3), "maps": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "fixed_list": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int8(), 2)),
        "large_list": pa.array([["x"], None, []], pa.large_list(pa.string())),
        "categories": pa.array(["u", None, "v"]).dictionary_encode(),
        "list_of_categories": pa.array([["u", None], None, []], pa.list_(pa.string())),
        "bool": pa.array([True, None, False]),
    }
    for unit in ("s", "ms", "us", "ns"):
        moments = [pd.Timestamp("2024-02-29 03:04:05"), None, pd.Timestamp("1969-12-31 23:59:59.123456")]
        columns[f"timestamp_{unit}"] = pa.array(moments, pa.timestamp("ns")).cast(pa.timestamp(unit), safe=False)
        columns[f"utc_{unit}"] = columns[f"timestamp_{unit}"].cast(pa.timestamp(unit, "UTC"))
    columns["nanoseconds"] = pa.array([1, None, rng.randint(0, 2**62)], pa.timestamp("ns"))
    for bits in (8, 16, 32, 64):
        columns[f"int{bits}"] = pa.array([-2**(bits - 1), None, 2**(bits - 1) - 1], f"int{bits}")
    return pa.table(columns)


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    program = str(build / "test/data/dump_rows")
    rng = random.Random(1)
    table = pa.Table.from_pylist([verl_row(rng) for _ in range(3000)], schema=VERL)
    rows = files = 0
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/x.parquet"

        def check(name, **options):
            nonlocal rows, files
            rows += compare(program, path, name)
            files += 1

        for codec in CODECS:
            for group in (1, 700, 100000):
                few = table.slice(0, 40) if group == 1 else table
                pq.write_table(few, path, compression=codec, row_group_size=group)
                check(f"{codec}, row groups of {group}")
        for options in ({"use_dictionary": False}, {"data_page_size": 200}, {"version": "1.0"},
                        {"data_page_version": "2.0"}, {"store_schema": False}, {"use_byte_stream_split": False,
                         "column_encoding": {"data_source": "DELTA_BYTE_ARRAY"}, "use_dictionary": False}):
            pq.write_table(table, path, **options)
            check(str(options))
        pq.write_table(typed_columns(), path)
        check("typed columns")
        pq.write_table(table.slice(0, 0), path)
        check("no rows")
        pq.write_table(pa.concat_tables([table.slice(0, 5), table.slice(9, 1), table.slice(100, 2000)]), path)
        check("chunked columns")
        frame = pd.DataFrame({"prompt": [[{"role": "user", "content": "a"}], []], "n": [1, None],
                              "when": pd.to_datetime(["2024-01-02", None]),
                              "kind": pd.Categorical(["x", "y"])}, index=[7, 9])
        frame.to_parquet(path)
        check("pandas with an index")
    print(f"parquet_check: {rows} rows of {files} files equal pyarrow's")


main()
