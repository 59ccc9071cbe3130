#!/usr/bin/env python3
"""scripts/import_gguf.py on a GGUF file written here. The conversion of a whole file needs the packages
gguf and numpy; without them only what needs neither is tested."""
import contextlib
import io
import json
import pathlib
import struct
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / "scripts"), str(pathlib.Path(__file__).parent)]
import import_gguf
import tiny_gguf


class Value:
    def __init__(self, value):
        self.value = value

    def contents(self):
        return self.value


def metadata(**changes):
    """Of the tiny file, read; a change of None takes a key out. "__" stands for a dot."""
    values = {key: Value(value[-1]) for key, value in tiny_gguf.METADATA.items()}
    for key, value in changes.items():
        values[key.replace("__", ".")] = Value(value)
    return import_gguf.Metadata(mock.Mock(fields={k: v for k, v in values.items() if v.value is not None}))


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}"""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header, out = json.loads(data[8:8 + size]), {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            out[name] = (entry["dtype"], entry["shape"], data[8 + size + begin:8 + size + end])
    return out


class Parts(unittest.TestCase):
    def refusal(self, call):
        with self.assertRaises(SystemExit) as stop:
            call()
        return str(stop.exception)

    def test_config(self):
        config = import_gguf.make_config(metadata(), True, "float32")
        self.assertEqual(config["architectures"], ["LlamaForCausalLM"])
        self.assertEqual((config["vocab_size"], config["num_key_value_heads"], config["head_dim"]), (5, 1, 4))
        self.assertEqual((config["rms_norm_eps"], config["rope_theta"]), (1e-5, 1e5))
        self.assertTrue(config["tie_word_embeddings"])
        without = metadata(llama__attention__head_count_kv=None, llama__rope__dimension_count=None)
        config = import_gguf.make_config(without, False, "bfloat16")
        self.assertEqual((config["num_key_value_heads"], config["head_dim"]), (2, 4))

    def test_tokenizer(self):
        tokenizer = import_gguf.make_tokenizer(metadata())
        self.assertEqual(tokenizer["model"]["vocab"], {"a": 0, "b": 1, "ab": 2, "<s>": 3, "</s>": 4})
        self.assertEqual(tokenizer["model"]["merges"], ["a b"])
        self.assertEqual([(t["id"], t["content"], t["special"]) for t in tokenizer["added_tokens"]],
                         [(3, "<s>", True), (4, "</s>", True)])
        config = import_gguf.make_tokenizer_config(metadata())
        self.assertEqual((config["bos_token"], config["eos_token"]), ("<s>", "</s>"))
        self.assertEqual(config["chat_template"], "{{ messages[0].content }}")
        self.assertNotIn("pad_token", config)

    def test_what_is_not_converted_is_named(self):
        missing = metadata(llama__block_count=None)
        self.assertEqual(self.refusal(lambda: import_gguf.make_config(missing, True, "float32")),
                         "llama.block_count is missing")
        scaled = metadata(llama__rope__scaling__type="yarn")
        self.assertIn("llama.rope.scaling.type", self.refusal(
            lambda: import_gguf.make_config(scaled, True, "float32")))
        other = metadata(tokenizer__ggml__model="llama")
        self.assertEqual(self.refusal(lambda: import_gguf.make_tokenizer(other)),
                         "tokenizer.ggml.model is 'llama'; valid: gpt2")
        other = metadata(tokenizer__ggml__pre="qwen2")
        self.assertEqual(self.refusal(lambda: import_gguf.make_tokenizer(other)),
                         "tokenizer.ggml.pre is 'qwen2'; valid: smollm, gpt-2")
        self.assertEqual(self.refusal(lambda: import_gguf.hf_name("blk.0.ffn_gate_exps.weight")),
                         "blk.0.ffn_gate_exps.weight: a tensor that is not known")

    def test_sources_that_are_not_there(self):
        self.assertEqual(self.refusal(lambda: import_gguf.find_file("/nowhere/x.gguf")),
                         "/nowhere/x.gguf: no such file")
        self.assertEqual(self.refusal(lambda: import_gguf.find_file("no-such-package")),
                         "no-such-package: neither a .gguf file nor a Python package that is installed")


@unittest.skipIf(import_gguf.MISSING, f"the package {import_gguf.MISSING} is not installed")
class Whole(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def run_on(self, data, *more):
        (self.folder / "x.gguf").write_bytes(data)
        arguments = ["import_gguf.py", str(self.folder / "x.gguf"), str(self.folder / "out"), *more]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(io.StringIO()):
            import_gguf.main()
        return self.folder / "out"

    def test_weights(self):
        want = tiny_gguf.hf_weights()
        for dtype, name in (("float32", "F32"), ("bfloat16", "BF16")):
            out = self.run_on(tiny_gguf.gguf_bytes(), "--dtype", dtype)
            got = read_safetensors(out / "model.safetensors")
            self.assertEqual(set(got), set(want))
            for key, values in want.items():
                numbers = tiny_gguf.flat(values)
                data = struct.pack(f"<{len(numbers)}f", *numbers)
                if dtype == "bfloat16":  # the upper half of each float
                    data = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
                shape = [len(values), len(values[0])] if isinstance(values[0], list) else [len(values)]
                self.assertEqual(got[key], (name, shape, data), key)
        generation = json.loads((out / "generation_config.json").read_text())
        self.assertEqual(generation, {"bos_token_id": 3, "eos_token_id": 4, "pad_token_id": None})

    def test_bfloat16_rounds_to_nearest_even(self):
        values = import_gguf.np.array([1.00390625, 1.01171875, 1.0039064, -2.5], dtype="float32")
        self.assertEqual(import_gguf.stored(values, "bfloat16").hex(), "803f" "823f" "813f" "20c0")

    def test_an_output_matrix_unties(self):
        tensors = {**tiny_gguf.gguf_tensors(), "output.weight": tiny_gguf.matrix(5, 8, 41)}
        out = self.run_on(tiny_gguf.gguf_bytes(tensors=tensors))
        self.assertFalse(json.loads((out / "config.json").read_text())["tie_word_embeddings"])
        self.assertIn("lm_head.weight", read_safetensors(out / "model.safetensors"))

    def test_bad_files(self):
        whole = tiny_gguf.gguf_bytes()
        for data in (b"not a model", b"", whole[:200], whole[:-64]):
            with self.assertRaises(SystemExit) as stop:
                self.run_on(data)
            self.assertTrue(str(stop.exception).startswith(f"{self.folder}/x.gguf: no whole GGUF file: "))
        other = {**tiny_gguf.METADATA, "general.architecture": (tiny_gguf.STRING, "gemma")}
        with self.assertRaises(SystemExit) as stop:
            self.run_on(tiny_gguf.gguf_bytes(metadata=other))
        self.assertEqual(str(stop.exception), "general.architecture is 'gemma'; valid: llama")


if __name__ == "__main__":
    if import_gguf.MISSING:
        print(f"whole files: skipped, the package {import_gguf.MISSING} is not installed")
    unittest.main()
