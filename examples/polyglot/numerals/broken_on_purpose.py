"""Fails on purpose, to show a failure. Test discovery ignores its name."""

import unittest

from numerals import from_roman


class BrokenOnPurpose(unittest.TestCase):
    def test_clocks(self):
        self.assertEqual(from_roman("IIII"), 4, "clocks write it so, the table does not")
