"""Tests the Python code against the shared table."""

import doctest
import unittest
from pathlib import Path

import numerals
from numerals import from_roman, to_roman

TABLE = Path(__file__).parent.parent / "numerals.tsv"


def load_tests(loader, tests, pattern):
    """Adds the examples of the package's documentation."""
    tests.addTests(doctest.DocTestSuite(numerals))
    return tests


class Table(unittest.TestCase):
    def test_python_agrees_with_the_table(self):
        for line in TABLE.read_text().splitlines():
            number, text = line.split("\t")
            with self.subTest(text):
                if number == "-":
                    self.assertIsNone(from_roman(text))
                else:
                    self.assertEqual(to_roman(int(number)), text)
                    self.assertEqual(from_roman(text), int(number))

    def test_every_number_survives_the_round_trip(self):
        for number in range(1, 4000):
            self.assertEqual(from_roman(to_roman(number)), number)

    def test_the_range_ends_where_letters_do(self):
        self.assertIsNone(to_roman(0))
        self.assertIsNone(to_roman(4000))
