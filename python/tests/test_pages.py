"""Python in the pages of the book runs as it stands there."""

import contextlib
import glob
import io
import os
import re
import shutil
import tempfile
import unittest

from common import CONTIGUOUS, ROOT, VIEWS, needs

PAGES = os.path.join(ROOT, "docs", "src", "guide", "open.md")


class Pages(unittest.TestCase):
    @needs("pyarrow", "polars", "pandas", "duckdb")
    def test_every_block_runs(self):
        with open(PAGES, encoding="utf-8") as file:
            blocks = re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S)
        self.assertGreater(len(blocks), 4)
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            for name in ("train", "before"):
                shutil.copy(VIEWS, os.path.join(folder, f"{name}.stallmap"))
            shutil.copy(CONTIGUOUS, os.path.join(folder, "after.stallmap"))
            os.chdir(folder)
            try:
                for block in blocks:
                    with self.subTest(block), contextlib.redirect_stdout(io.StringIO()):
                        exec(compile(block, "open.md", "exec"), {})
            finally:
                os.chdir(before)
            self.assertEqual(len(glob.glob(os.path.join(folder, "*"))), 3)


if __name__ == "__main__":
    unittest.main()
