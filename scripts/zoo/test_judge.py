"""Tests of the rules for struck runs: python3 -m unittest discover -s scripts/zoo -t scripts"""

import dataclasses
import unittest

from zoo.capture import Side
from zoo.judge import Native, Seen, accounted, faults

OUT = b"20 launches: 4096 values right, sum 163840\nlast line\n"
NATIVE = Native(code=0, out=OUT, launches=20, dies=False)
WELL = Seen(
    fault="own end",
    is_struck=False,
    is_begun=True,
    code=0,
    out=OUT,
    err="stallmap-record: wrote `a.stallmap`, 9,000 bytes: 20 launches",
    is_hung=False,
    is_left=False,
    has_capture=True,
    has_folder=False,
    recovered=None,
    launches=20,
    missing=0,
)


def judged(native=NATIVE, **facts):
    return faults(dataclasses.replace(WELL, **facts), native)


class Judge(unittest.TestCase):
    def test_a_run_like_the_native_one_is_right(self):
        self.assertEqual(judged(), [])
        self.assertEqual(judged(fault="SIGKILL"), [])

    def test_a_signal_ends_the_program_and_nothing_else(self):
        killed = {"fault": "SIGKILL", "is_struck": True, "out": OUT[:20], "launches": 12}
        self.assertEqual(judged(**killed, code=137), [])
        self.assertEqual(judged(**killed, code=139), ["exit code 139, not [0, 137]"])
        self.assertEqual(judged(**{**killed, "out": b"else"}, code=137), ["other output"])
        self.assertEqual(judged(**{**killed, "launches": 21}, code=137), ["21 launches, 20 without a fault"])
        self.assertEqual(judged(**{**killed, "launches": None}, code=137), ["no capture"])
        early = {**killed, "launches": None, "err": "stallmap-record: warning: nothing was recorded"}
        self.assertEqual(judged(**early, code=137), [])

    def test_a_launch_needs_a_row_or_a_loss(self):
        self.assertEqual(judged(launches=19), ["1 of 20 launches have neither a row nor a loss"])
        self.assertEqual(judged(launches=19, native=dataclasses.replace(NATIVE, dies=True)), [])
        self.assertEqual(judged(launches=19, fault="reader ended", is_struck=True), judged(launches=19))
        self.assertEqual(judged(launches=321, stated=321), [])
        self.assertEqual(judged(launches=320, stated=321), ["320 launches, the program counted 321"])

    def test_a_refused_launch_is_counted_as_each_pass_counts_it(self):
        refused = Side(recorded=17)
        refused.losses["launch", "refused by the driver"] = 3
        self.assertEqual(accounted({"accesses": refused}), 20)
        # A pass that never sees such a launch is compared with itself.
        self.assertEqual(accounted({"timeline": Side(recorded=17)}), 17)
        # Another process samples the GPU: each launch is lost when it begins, and no other time where it is refused.
        sampled, busy = Side(recorded=17), Side()
        sampled.losses["launch", "refused by the driver"] = 3
        busy.losses["launch", "another process sampled the GPU"] = 20
        self.assertEqual(accounted({"pc_samples": busy}), accounted({"pc_samples": sampled}))
        unread = Side(recorded=15)
        unread.losses["launch", "its records could not be read"] = 2
        unread.losses["launch", "records were not read"] = 4
        unread.losses["sample", "the hardware buffer was full: estimated"] = 9
        self.assertEqual(accounted({"accesses": unread}), 19)

    def test_written_rows_are_never_missing(self):
        gone = {"fault": "recorder killed", "is_struck": True, "has_capture": False, "recovered": 0, "code": 137}
        self.assertEqual(judged(**gone, launches=15), [])
        self.assertEqual(judged(**gone, launches=15, missing=3), ["3 rows that were written are missing"])
        self.assertEqual(judged(**{**gone, "recovered": 1}, launches=None), ["not recovered"])
        self.assertEqual(judged(**gone, launches=None), [])
        self.assertEqual(judged(**gone, launches=None, is_begun=False), [])

    def test_a_hang_is_all_there_is_to_say(self):
        self.assertEqual(judged(is_hung=True, out=b"", launches=None), ["hang"])
        self.assertEqual(judged(is_left=True), ["hang"])
        self.assertEqual(judged(err="thread 'stallmap-writer' panicked at"), ["panic"])

    def test_without_memory_a_program_ends_in_its_own_words(self):
        short = {"fault": "host memory", "is_struck": True, "out": OUT[:20], "launches": None}
        own = "terminate called after throwing an instance of 'std::bad_alloc'"
        self.assertEqual(judged(**short, code=134, err=own), [])
        ours = "memory allocation of 4194304 bytes failed"
        self.assertEqual(judged(**short, code=134, err=ours), ["exit code 134, not [0]"])
        natively = dataclasses.replace(NATIVE, struck_codes=frozenset({139}))
        self.assertEqual(judged(**short, code=139, err="", native=natively), [])
        self.assertEqual(judged(**short, code=139, err=""), ["exit code 139, not [0]"])
        ended = {**short, "out": OUT, "launches": 3, "code": 0}
        self.assertEqual(judged(**ended, ended_early=True), [])
        self.assertEqual(judged(**ended), ["17 of 20 launches have neither a row nor a loss"])


if __name__ == "__main__":
    unittest.main()
