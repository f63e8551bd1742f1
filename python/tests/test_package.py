"""The package by itself: light, harmless, complete."""

import os
import subprocess
import sys
import unittest

from common import ROOT, VIEWS, needs

import stallmap
from stallmap import _notebook


def python(*words, **variables):
    environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), **variables}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)


class Package(unittest.TestCase):
    def test_importing_it_loads_nothing_that_costs(self):
        code = "import sys, stallmap\nprint(sorted({'subprocess', 'pyarrow', 'polars', 'tempfile'} & set(sys.modules)))"
        done = python("-c", code)
        self.assertEqual((done.stdout, done.stderr), ("[]\n", ""))

    def test_every_public_name_is_there(self):
        for name in stallmap.__all__:
            self.assertTrue(hasattr(stallmap, name), name)
            self.assertIn(name, dir(stallmap))
        self.assertRaises(AttributeError, lambda: stallmap.nothing)

    def test_regions_do_nothing_where_nothing_is_recorded(self):
        @stallmap.region("outer")
        def work(value):
            with stallmap.region("inner"):
                return value

        stallmap.start()
        stallmap.stop()
        self.assertEqual(work(7), 7)
        self.assertEqual(work.__name__, "work")
        with self.assertRaises(ZeroDivisionError), stallmap.region("fails"):
            1 / 0  # noqa: B018

    def test_python_m_stallmap_is_the_program(self):
        done = python("-m", "stallmap", "--version")
        self.assertEqual((done.returncode, done.stdout), (0, f"stallmap {stallmap.__version__}\n"))
        self.assertEqual(python("-m", "stallmap", "gone.stallmap").returncode, 3)
        done = python("-m", "stallmap", VIEWS, STALLMAP_PROGRAM="/nowhere/stallmap")
        self.assertIn("error: failed to start `/nowhere/stallmap`", done.stderr)


class Notebook(unittest.TestCase):
    @needs("IPython", "pyarrow")
    def test_the_magic_returns_rows(self):
        from IPython.core.interactiveshell import InteractiveShell

        shell = InteractiveShell.instance()
        shell.run_line_magic("load_ext", "stallmap")
        rows = shell.run_cell_magic("stallmap", VIEWS, "SELECT count(*) AS launches FROM launch")
        self.assertEqual(rows.arrow().to_pylist(), [{"launches": 3}])
        shell.user_ns["capture"] = stallmap.open(VIEWS)
        rows = shell.run_cell_magic("stallmap", "capture", "SELECT 1 AS one")
        self.assertEqual(rows.arrow().to_pylist(), [{"one": 1}])
        rows = shell.run_cell_magic("stallmap", f"a={VIEWS} b={VIEWS}", "SELECT count(*) AS n FROM every.launch")
        self.assertEqual(rows.arrow().to_pylist(), [{"n": 6}])
        shell.user_ns.pop("capture").close()
        self.close()

    @needs("pyarrow")
    def test_cells_of_one_capture_share_its_process(self):
        for number in (1, 2):
            rows = _notebook.cell_magic(VIEWS, f"SELECT {number} AS n", {})
            self.assertEqual(rows.arrow().to_pylist(), [{"n": number}])
        self.assertEqual(len(_notebook._opened), 1)
        self.assertRaises(stallmap.Error, _notebook.cell_magic, "", "SELECT 1", {})
        self.close()

    def close(self):
        for capture in _notebook._opened.values():
            capture.close()
        _notebook._opened.clear()


if __name__ == "__main__":
    unittest.main()
