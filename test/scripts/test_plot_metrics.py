#!/usr/bin/env python3
"""scripts/plot_metrics.py"""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
import plot_metrics

ROWS = [{"step": step, "data": {"a": step / 4} | ({"b": 1 - step / 4} if step % 2 == 0 else {})}
        for step in range(5)]


def plot(*keys, text="\n".join(map(json.dumps, ROWS))):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "m.jsonl")
        path.write_text(text)
        out = io.StringIO()
        with mock.patch.object(sys, "argv", ["plot_metrics.py", str(path), *keys]):
            with contextlib.redirect_stdout(out):
                plot_metrics.main()
        return out.getvalue()


class PlotMetrics(unittest.TestCase):
    def test_a_line_through_the_rows_that_have_its_key(self):
        tree = xml.etree.ElementTree.fromstring(plot("a=one & only", "b"))
        lines = [[tuple(map(float, point.split(","))) for point in line.get("points").split()]
                 for line in tree.iter("{http://www.w3.org/2000/svg}polyline")]
        self.assertEqual([len(line) for line in lines], [5, 3])
        first, last = lines[0][0], lines[0][-1]
        self.assertEqual(first, (plot_metrics.LEFT, plot_metrics.HEIGHT - plot_metrics.BOTTOM))
        self.assertEqual(last, (plot_metrics.WIDTH - plot_metrics.RIGHT, plot_metrics.TOP))
        self.assertEqual([y for _, y in lines[1]], [y for _, y in lines[0][::-2]])
        texts = [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("one & only", texts)

    def test_round_numbers_on_the_axes(self):
        self.assertEqual(plot_metrics.ticks(0, 400), [0, 100, 200, 300, 400])
        self.assertEqual(plot_metrics.ticks(-3, 7), [-2, 0, 2, 4, 6])
        self.assertEqual([f"{t:.6g}" for t in plot_metrics.ticks(0, 0.72)],
                         ["0", "0.2", "0.4", "0.6"])

    def test_what_cannot_be_drawn_is_named(self):
        with self.assertRaisesRegex(SystemExit, "no row has c"):
            plot("c")
        with self.assertRaisesRegex(SystemExit, "m.jsonl:2: is no row of metrics"):
            plot("a", text=json.dumps(ROWS[0]) + "\n[]")


if __name__ == "__main__":
    unittest.main()
