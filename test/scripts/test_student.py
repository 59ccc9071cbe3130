#!/usr/bin/env python3
"""scripts/parity/student.py"""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts/parity"))
from student import two_sided_quantile


class Student(unittest.TestCase):
    def test_quantiles_of_the_tables(self):
        for outside, freedom, quantile, places in [(0.05, 16, 2.1199, 4), (0.01, 2, 9.925, 3),
                                                   (0.01 / 272, 16, 5.642, 3), (0.5, 2, 0.8165, 4),
                                                   (0.05, 1000, 1.9623, 4)]:
            self.assertAlmostEqual(two_sided_quantile(outside, freedom), quantile, places)

    def test_two_degrees_in_closed_form(self):
        for outside in (0.9, 0.1, 1e-3, 1e-6):
            inside = 1 - outside
            self.assertAlmostEqual(two_sided_quantile(outside, 2) /
                                   (inside * (2 / (1 - inside * inside)) ** 0.5), 1, 6)


if __name__ == "__main__":
    unittest.main()
