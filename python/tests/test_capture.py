"""Captures: opened, queried, compared, closed."""

import glob
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

from common import CONTIGUOUS, PARTS, ROOT, VIEWS, needs

import stallmap
from stallmap import _capture, _program

# It runs for hours.
SLOW = "SELECT count(*) FROM range(3000000) a, range(3000000) b WHERE (a.value + b.value) % 7 = 1"


class Queries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.capture = stallmap.open(VIEWS)

    @classmethod
    def tearDownClass(cls):
        cls.capture.close()

    @needs("pyarrow")
    def test_a_statement_returns_its_rows(self):
        rows = self.capture.sql("SELECT kernel_id FROM launch ORDER BY kernel_id")
        self.assertEqual(rows.arrow().to_pydict(), {"kernel_id": [0, 1, 2]})
        self.assertEqual(len(rows), 3)
        self.assertEqual(rows.sql, "SELECT kernel_id FROM launch ORDER BY kernel_id")

    @needs("pyarrow")
    def test_parameters_are_literals_and_never_syntax(self):
        query = "SELECT $text AS text, $number AS number, $none AS missing, $flag AS flag, '$other' AS other"
        hostile = "it's' OR 1 = 1 --"
        rows = self.capture.sql(query, text=hostile, number=2**53 + 1, none=None, flag=True).arrow().to_pylist()
        expected = {"text": hostile, "number": 2**53 + 1, "missing": None, "flag": True, "other": "$other"}
        self.assertEqual(rows, [expected])
        with self.assertRaisesRegex(stallmap.Error, r"no parameter \$top"):
            self.capture.sql("SELECT 1", top=5)

    @needs("pyarrow")
    def test_rows_equal_those_of_the_program(self):
        query = "SELECT * FROM kernel_cost ORDER BY function_id"
        printed = _program.output(["sql", VIEWS, "-c", query, "--format", "json"])
        expected = json.loads(printed)
        rows = self.capture.sql(query).arrow().to_pylist()
        self.assertGreater(len(rows), 1)
        for row, other in zip(rows, expected):
            # JSON has hashes as text in hexadecimal.
            self.assertEqual(f"{row.pop('function_id'):#x}", other.pop("function_id"))
            self.assertEqual(row, other)

    @needs("pyarrow")
    def test_every_section_of_the_report_is_there(self):
        sections = {"findings", "tensors", "why", "kernels", "lines", "ops", "ranks", "counters", "replays", "losses"}
        for name in [*sections, "coverage"]:
            result = self.capture.report(name, top=3)
            self.assertEqual(len(result), result.arrow().num_rows, name)
            self.assertEqual(result.arrow().to_pylist(), self.capture.sql(result.sql).arrow().to_pylist(), name)
        self.assertEqual(self.capture.tensors.arrow(), self.capture.report("tensors").arrow())
        self.assertEqual(len(self.capture.losses), 0)

    def test_errors_carry_text_place_hint_and_code(self):
        with self.assertRaises(stallmap.Error) as raised:
            self.capture.sql("SELECT nam FROM tensor")
        error = raised.exception
        self.assertEqual((error.code, error.hint), (4, "did you mean `name`?"))
        self.assertIn("nam", error.error)
        self.assertIn("^^^", error.excerpt)
        self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))
        with self.assertRaises(stallmap.Error) as raised:
            self.capture.report("tensor")
        self.assertEqual((raised.exception.code, raised.exception.hint), (2, "did you mean `tensors`?"))
        # The process serves on.
        self.assertEqual(len(self.capture.sql("SELECT 1")), 1)

    def test_an_empty_result_says_what_the_capture_lacks(self):
        result = self.capture.sql("SELECT * FROM replay")
        self.assertEqual(len(result), 0)
        self.assertIn("--replay", result.absence)
        self.assertIn("--replay", repr(result))

    def test_threads_share_a_capture(self):
        def ask(number):
            counts[number] = len(self.capture.sql(f"SELECT * FROM range({number})"))

        counts = {}
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(counts, {number: number for number in range(1, 9)})


class Opening(unittest.TestCase):
    def test_a_missing_file_is_an_error_with_a_hint(self):
        with self.assertRaises(stallmap.Error) as raised:
            stallmap.open("gone.stallmap")
        self.assertEqual(raised.exception.code, 3)
        self.assertIn("gone.stallmap", str(raised.exception))
        self.assertTrue(raised.exception.hint)

    def test_what_steers_a_terminal_stays_out_of_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a\x1b[2J.stallmap")
            with open(path, "w") as file:
                file.write("no capture")
            with self.assertRaises(stallmap.Error) as raised:
                stallmap.open(path)
        self.assertNotIn("\x1b", str(raised.exception))

    def test_arguments_are_one_capture_or_names(self):
        for call in (lambda: stallmap.open(), lambda: stallmap.open(VIEWS, b=VIEWS)):
            self.assertRaises(stallmap.Error, call)

    @needs("pyarrow")
    def test_captures_with_names_are_schemas(self):
        with stallmap.open(a=VIEWS, b=CONTIGUOUS) as both:
            query = "SELECT (SELECT count(*) FROM a.launch) AS a, (SELECT count(*) FROM b.launch) AS b"
            self.assertEqual(both.sql(query).arrow().to_pylist(), [{"a": 3, "b": 3}])

    def test_losses_are_one_warning(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            stallmap.open(VIEWS).close()
            self.assertEqual(caught, [])
            lossy = stallmap.open(PARTS)
            count = len(lossy.losses)
            lossy.close()
        self.assertGreater(count, 0)
        self.assertEqual([warning.category for warning in caught], [stallmap.LossWarning])
        self.assertEqual(caught[0].filename, __file__)

    @unittest.skipIf(os.name == "nt", "signals")
    def test_a_process_that_was_killed_is_an_error_and_starts_again(self):
        capture = stallmap.open(VIEWS)
        os.kill(capture._child._process.pid, signal.SIGKILL)
        capture._child._process.wait()
        self.assertEqual(len(capture.sql("SELECT 1")), 1)
        process = capture._child._process
        threading.Timer(0.2, process.kill).start()
        with self.assertRaisesRegex(stallmap.Error, "signal 9"):
            capture.sql(SLOW)
        self.assertEqual(len(capture.sql("SELECT 1")), 1)
        capture.close()

    @unittest.skipIf(os.name == "nt", "signals")
    def test_ctrl_c_is_an_exception_and_the_capture_stays_usable(self):
        # A shell starts a program in the background with this signal ignored.
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, handler)
        capture = stallmap.open(VIEWS)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            capture.sql(SLOW)
        self.assertEqual(len(capture.sql("SELECT 1")), 1)
        capture.close()

    def test_the_process_ends_with_python_and_with_the_capture(self):
        program = "import stallmap, sys\nc = stallmap.open(sys.argv[1])\nprint(c._child._process.pid)"
        environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
        printed = subprocess.run(
            [sys.executable, "-c", program, VIEWS], env=environment, capture_output=True, text=True, check=True
        )
        self.assertEqual(printed.stderr, "")
        self.assertFalse(runs(int(printed.stdout)))
        capture = stallmap.open(VIEWS)
        process = capture._child._process.pid
        del capture
        self.assertFalse(runs(process))

    @unittest.skipIf(os.name == "nt", "fork")
    def test_a_forked_child_has_its_own_process(self):
        capture = stallmap.open(VIEWS)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if len(capture.sql("SELECT 1")) == 1 else 1
                capture.close()
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(len(capture.sql("SELECT 1")), 1)
        capture.close()

    def test_a_missing_program_is_an_error_with_a_hint(self):
        with mock.patch.dict(os.environ, {"STALLMAP_PROGRAM": "/nowhere/stallmap"}):
            with self.assertRaisesRegex(stallmap.Error, "failed to start `/nowhere/stallmap`"):
                stallmap.open(VIEWS)

    def test_a_program_of_another_release_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "stallmap")
            with open(path, "w") as file:
                file.write(
                    '#!/bin/sh\nprintf \'H\\100\\0\\0\\0{"protocol": 99, "version": "9.9.9"}                              \'\n'
                )
            os.chmod(path, 0o755)
            with mock.patch.dict(os.environ, {"STALLMAP_PROGRAM": path}):
                with self.assertRaisesRegex(stallmap.Error, "another release: 9.9.9"):
                    stallmap.open(VIEWS)

    def test_a_program_that_fails_at_once_is_an_error_with_its_text(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "stallmap")
            with open(path, "w") as file:
                file.write("#!/bin/sh\necho 'error: no room' >&2\necho 'hint: make room' >&2\nexit 5\n")
            os.chmod(path, 0o755)
            with mock.patch.dict(os.environ, {"STALLMAP_PROGRAM": path}):
                with self.assertRaises(stallmap.Error) as raised:
                    stallmap.open(VIEWS)
        error = raised.exception
        self.assertEqual((error.error, error.hint, error.code), ("no room", "make room", 5))


class Comparing(unittest.TestCase):
    @needs("pyarrow")
    def test_sections_are_those_of_the_program(self):
        with stallmap.open(VIEWS) as before, stallmap.open(CONTIGUOUS) as after:
            diff = before.diff(after, by=["kernels", "lines"], metric="time", top=2)
        self.assertEqual(list(diff), ["comparable", "totals", "kernels", "lines"])
        words = ["diff", VIEWS, CONTIGUOUS, "--by", "kernels,lines", "-m", "time", "-n", "2", "--format", "json"]
        printed = json.loads(_program.output(words))
        for section in printed["sections"]:
            rows = diff[section["name"]]
            self.assertEqual(rows.sql, section["sql"])
            self.assertEqual(len(rows), len(section["rows"]))
            if section["name"] != "comparable":
                self.assertEqual(rows.arrow().column("what").to_pylist(), [row["what"] for row in section["rows"]])
        self.assertIn("<h4>kernels</h4>", diff._repr_html_())

    def test_wrong_options_are_errors(self):
        with stallmap.open(VIEWS) as capture:
            with self.assertRaises(stallmap.Error) as raised:
                capture.diff(CONTIGUOUS, by="colors")
            self.assertEqual(raised.exception.code, 2)
            self.assertIn("colors", raised.exception.error)
            self.assertRaises(stallmap.Error, capture.diff, "gone.stallmap")

    def test_an_unknown_section_is_named(self):
        with self.assertRaisesRegex(stallmap.Error, "sections: totals"):
            _capture.Diff({"totals": None})["kernels"]


def runs(process):
    """True if a process of this number goes on. A child that ended needs a moment to leave."""
    for _ in range(50):
        if not glob.glob(f"/proc/{process}/stat") or "Z" in open(f"/proc/{process}/stat").read().split(")")[-1][:3]:
            return False
        time.sleep(0.02)
    return True


if __name__ == "__main__":
    unittest.main()
