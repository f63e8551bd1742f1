#!/usr/bin/env python3
"""Strikes recorded programs of the zoo at random moments, and reports what it left.

    scripts/zoo/faults.py BIN [--tries 100] [--seed 1] [--jobs N] [--seconds S] [--out DIR]

BIN holds stallmap-record and libstallmap_inject.so. A seed gives the same programs, passes, faults and moments again.
A full disk is a small file system in memory, which needs the right to mount one.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from zoo import capture, process, programs, toolkit  # noqa: E402  # after the path is known
from zoo.run import NATIVE_LIMIT_S, made, say  # noqa: E402

# Short ones that end by themselves and launch the same kernels each time.
PROGRAMS = ("stream_graph", "api_graph", "threads_streams", "capture_thread_local", "cooperative", "dependent")
PROGRAMS += ("async_pool", "managed", "same_name", "late", "spin")
PASSES = ("accesses", "samples", "timeline")
SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGSEGV": signal.SIGSEGV, "abort": signal.SIGABRT}
FAULTS = (*SIGNALS, "recorder killed", "full disk")
# A recorded run may take so long, and so many times as long as alone.
LIMIT_S, LIMIT_TIMES = 60, 60
# Bytes of a disk that is soon full: from less than a header to more than most captures.
DISK_BYTES = (1 << 12, 1 << 22)


@dataclasses.dataclass(frozen=True)
class Try:
    """One fault."""

    number: int
    program: programs.Program
    side: str
    fault: str
    moment: float  # part of the time that the recorded run takes
    disk_bytes: int


@dataclasses.dataclass
class Known:
    """A program as it runs without a fault."""

    ended: process.Ended
    launches: int
    seconds: dict  # by pass


class Campaign:
    """One call."""

    def __init__(self, recorder, options):
        self.recorder, self.options = recorder, options
        self.environment = {name: value for name, value in os.environ.items() if name != "CUDA_INJECTION64_PATH"}
        self.sampling = threading.Lock()
        self.known = {}

    def command(self, program):
        return [word.format(bin=toolkit.BUILT) for word in program.command]

    def recorded(self, one, path):
        extra = one.program.serial if one.side == "samples" else ()
        return [str(self.recorder), "-o", str(path), "--only", one.side, *extra, "--", *self.command(one.program)]

    def run(self):
        """Runs all tries. Returns their faults found, as objects."""
        wanted = [program for program in programs.PROGRAMS if program.name in PROGRAMS]
        failed = toolkit.build({program.source for program in wanted})
        if failed:
            raise SystemExit(f"faults: {failed}")
        for program in wanted:
            self.known[program.name] = self.learn(program)
        chance = random.Random(self.options.seed)
        tries = [self.draw(chance, number, wanted) for number in range(self.options.tries)]
        end = time.monotonic() + self.options.seconds
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            work = lambda one: self.strike(one) if time.monotonic() < end else None
            return [result for result in pool.map(work, tries) if result]

    def learn(self, program):
        """Runs a program alone, then under each pass."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="faults-"))
        ended = process.run(self.command(program), made(folder / "alone"), self.environment, NATIVE_LIMIT_S)
        seconds, launches = {}, 0
        for side in PASSES:
            one = Try(0, program, side, "", 0, 0)
            path = made(folder / side) / "a.stallmap"
            run = process.run(self.recorded(one, path), folder / side, self.environment, NATIVE_LIMIT_S)
            seconds[side] = run.seconds
            if (run.code, run.out) != (ended.code, ended.out):
                raise SystemExit(f"faults: {program.name} differs under {side} without a fault:\n{run.err}")
            launches = max(launches, accounted(path))
        shutil.rmtree(folder)
        say(f"{program.name}: {launches:,} launches, seconds {seconds}")
        return Known(ended, launches, seconds)

    def draw(self, chance, number, wanted):
        disk_bytes = int(DISK_BYTES[0] * (DISK_BYTES[1] / DISK_BYTES[0]) ** chance.random())
        return Try(
            number, chance.choice(wanted), chance.choice(PASSES), chance.choice(FAULTS), chance.random(), disk_bytes
        )

    def strike(self, one):
        """One try. Returns its facts, with `found`: failures of the recorder."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="faults-"))
        disk = made(folder / "disk")
        facts = {"try": one.number, "program": one.program.name, "pass": one.side, "fault": one.fault, "found": []}
        is_mounted = one.fault == "full disk" and mount(disk, one.disk_bytes)
        if one.fault == "full disk" and not is_mounted:
            return {**facts, "skipped": "no right to mount"}
        try:
            with self.sampling if one.side == "samples" else contextlib.nullcontext():
                self.run_struck(one, folder, disk / "a.stallmap", facts)
            # Killed before it started the program, the recorder leaves nothing to judge.
            if one.fault == "recorder killed" and not facts.get("is_begun", True):
                facts["found"] = [fault for fault in facts["found"] if fault in ("hang", "panic")]
            elif "hang" not in facts["found"]:
                self.look(one, disk / "a.stallmap", folder, facts)
        except Exception as error:  # a fault of this script is found too
            facts["found"].append(f"the script failed: {type(error).__name__}: {error}")
        finally:
            if is_mounted:
                subprocess.run(["umount", "-l", disk], check=False)
            shutil.rmtree(folder, ignore_errors=True)
        if facts["found"]:
            say(f"try {one.number}: {json.dumps(facts)}")
        return facts

    def run_struck(self, one, folder, path, facts):
        known = self.known[one.program.name]
        facts["moment_s"] = round(one.moment * known.seconds[one.side], 3)
        strike = lambda child, mark: hit(one, child, mark, facts)
        limit = LIMIT_S + LIMIT_TIMES * known.ended.seconds
        is_orphan = one.fault == "recorder killed"
        run = process.run(
            self.recorded(one, path),
            folder,
            self.environment,
            limit,
            strike=None if one.fault == "full disk" else (facts["moment_s"], strike),
            aftermath=limit if is_orphan else process.AFTERMATH_S,
        )
        facts |= {"code": run.code, "seconds": round(run.seconds, 2), "err": run.err[-400:]}
        if run.hung or run.left:
            facts["found"].append("hang")
        is_struck = facts.get("is_struck", False)
        if one.fault in SIGNALS:
            allowed = {known.ended.code} | ({128 + SIGNALS[one.fault]} if is_struck else set())
            if run.code not in allowed:
                facts["found"].append(f"exit code {run.code}, not {sorted(allowed)}")
            if not known.ended.out.startswith(run.out):
                facts["found"].append("other output")
        elif run.out != known.ended.out:
            facts["found"].append("other output")
        if "panicked" in run.err:
            facts["found"].append("panic")

    def look(self, one, path, folder, facts):
        """Reads what is left."""
        partial = path.with_name(path.name + ".partial")
        facts["left"] = "capture" if path.exists() else "folder" if partial.exists() else "nothing"
        is_whole = path.exists()
        if one.fault == "full disk" and not is_whole and partial.exists():
            moved = folder / partial.name
            shutil.copytree(partial, moved)
            partial, path = moved, folder / path.name
        if not is_whole and partial.exists():
            done = subprocess.run([self.recorder, "recover", partial], capture_output=True, text=True, timeout=LIMIT_S)
            facts["recovered"] = done.returncode
            if done.returncode:
                facts["found"].append(f"not recovered: {done.stderr[-300:]}")
        if not path.exists():
            says_so = "nothing was recorded" in facts["err"]
            if one.fault in SIGNALS and not says_so:
                facts["found"].append("no capture")
            return
        launches = facts["launches"] = accounted(path)
        known = self.known[one.program.name].launches
        if launches > known:
            facts["found"].append(f"{launches} launches, {known} without a fault")
        # The program ended as it does alone: each launch must have a row or a loss.
        ended_alone = one.fault == "full disk" or (one.fault in SIGNALS and not facts.get("is_struck"))
        if is_whole and ended_alone and launches < known:
            facts["found"].append(f"{known - launches} of {known} launches have neither a row nor a loss")


def accounted(path):
    """Launches that a capture has, recorded or counted as lost."""
    return sum(side.recorded + side.lost_launches for side in capture.read(path).values())


def hit(one, child, mark, facts):
    """Sends the signal, to the recorder or to the program that it runs."""
    program = [pid for pid in process.processes(mark) if is_built(pid)]
    facts["is_begun"] = bool(program)
    number = SIGNALS.get(one.fault, signal.SIGKILL)
    targets = program if one.fault in SIGNALS else [child.pid]
    for target in targets:
        try:
            os.kill(target, number)
            facts["is_struck"] = True
        except ProcessLookupError:
            pass


def is_built(pid):
    """True if a process is a program of the zoo."""
    try:
        return pathlib.Path(os.readlink(f"/proc/{pid}/exe")).parent == toolkit.BUILT
    except OSError:
        return False


def mount(folder, disk_bytes):
    command = ["mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "none", folder]
    return subprocess.run(command, capture_output=True).returncode == 0


def table(results):
    """Rows of Markdown, one a fault."""
    lines = ["| fault | tries | struck before the end | failures | most seconds |", "|---|---|---|---|---|"]
    groups = collections.defaultdict(list)
    for result in results:
        groups[result["fault"]].append(result)
    for fault in FAULTS:
        tries = [one for one in groups[fault] if "skipped" not in one]
        struck = "-" if fault == "full disk" else sum(one.get("is_struck", False) for one in tries)
        failures = sum(bool(one["found"]) for one in tries)
        seconds = max((one.get("seconds", 0) for one in tries), default=0)
        lines.append(f"| {fault} | {len(tries)} | {struck} | {failures} | {seconds:.1f} |")
    return "\n".join(lines)


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--tries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3600, help="no try begins later")
    parser.add_argument("--out", type=pathlib.Path, default=toolkit.ROOT / "target/zoo/faults")
    return parser.parse_args(words)


def main(words):
    options = parse(words)
    results = Campaign((options.bin / "stallmap-record").resolve(), options).run()
    made(options.out)
    (options.out / "faults.jsonl").write_text("".join(json.dumps(one) + "\n" for one in results))
    text = table(results)
    (options.out / "faults.md").write_text(text + "\n")
    print(text)
    return any(one["found"] for one in results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
