"""Does TOOL_NAME do what it says? Run: python3 .haft/tools/_test_TOOL_NAME.py"""

import asyncio
import importlib.util
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("TOOL_NAME", Path(__file__).with_name("TOOL_NAME.py"))
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def run(**params):
    return asyncio.run(tool.execute(params))


class Test(unittest.TestCase):
    def test_counts_words(self):
        self.assertEqual(run(text="one two\nthree"), "3 words")
        self.assertEqual(run(text="one"), "1 word")

    def test_says_what_is_missing(self):
        with self.assertRaisesRegex(ValueError, "no words"):
            run(text=" ")


if __name__ == "__main__":
    unittest.main()
