#!/usr/bin/env python3
"""Strikes recorded programs of the zoo at random moments, and reports what it left.

    scripts/zoo/faults.py BIN [--tries 100] [--seed 1] [--jobs N] [--seconds S] [--out DIR] [--programs NAME,...]

BIN holds stallmap-record and libstallmap_inject.so. A seed gives the same programs, passes, faults and moments again.
A full disk is a small file system in memory, which needs the right to mount one. Tries that take the device's memory
come first, one by one. Then --jobs tries run at a time [default: as many as there are cores]. No try begins after
--seconds. DIR [default: target/zoo/faults] gets faults.md, the table, and faults.jsonl, one object a try.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from zoo import capture, judge, process, programs, strikes, toolkit  # noqa: E402  # after the path is known
from zoo.run import NATIVE_LIMIT_S, lacks, made, say  # noqa: E402

# Short ones that launch the same kernels each time, and end by themselves or die.
SMALL = ("stream_graph", "api_graph", "threads_streams", "capture_global", "capture_thread_local", "cooperative")
SMALL += ("cluster", "dependent", "parameters", "textures", "constants", "spin", "async_pool", "managed", "pinned")
SMALL += ("vmm", "same_name", "late", "refused", "os_exit", "abort", "sigkill", "segv", "illegal_address")
LARGE = ("torch_graph", "torch_streams", "torch_os_exit", "expandable_segments", "jax_jit", "cupy_program")
# Part of the tries that strike a large program: one takes as long as five others.
LARGE_PART = 0.1
# MiB that are left to the recorder.
LEFT_MIB = (0, 2, 8, 32, 64, 128, 512)
EXHAUSTING = tuple(
    programs.cuda("exhaustion", "memory_taken", f"all memory but {mib} MiB is taken", str(mib)) for mib in LEFT_MIB
) + (programs.cuda("exhaustion", "memory_runs_out", "allocates until there is no memory"),)
# One process samples a GPU, and the rest count their launches as lost: fewer tries of that pass show as much.
PASSES = {"accesses": 5, "timeline": 4, "samples": 2}
FAULTS = {"SIGKILL": 4, "SIGSEGV": 3, "abort": 3, "recorder killed": 4, "full disk": 3, "host memory": 3}
FAULTS |= {"recorder's memory": 2, "reader ended": 2, "own end": 2}
DEVICE = "device memory"
# Part of the tries that take the device's memory.
DEVICE_PART = 0.03
# A recorded run may take so long, and so many times as long as alone.
LIMIT_S, LIMIT_TIMES = 60, 20
# Bytes of a disk that is soon full: from less than a header to more than most captures.
DISK_BYTES = (1 << 12, 1 << 22)
# Bytes that a process can still get.
MEMORY_BYTES = (1 << 12, 1 << 26)
# Runs without the recorder that show how a program ends where its memory does.
CONTROLS = 3


@dataclasses.dataclass(frozen=True)
class Try:
    """One fault."""

    number: int
    program: programs.Program
    side: str
    fault: str
    moment: float  # part of the time that the recorded run takes
    disk_bytes: int = 0
    memory_bytes: int = 0


@dataclasses.dataclass
class Known:
    """A program as it runs without a fault."""

    ended: process.Ended
    launches: dict  # by pass: one counts a refused launch as lost, another does not see it
    seconds: dict  # by pass, and natively under ""


class Campaign:
    """One call."""

    def __init__(self, recorder, options):
        self.recorder, self.options = recorder, options
        self.environment = {name: value for name, value in os.environ.items() if name != "CUDA_INJECTION64_PATH"}
        self.known, self.results = {}, []
        self.caches = pathlib.Path(tempfile.mkdtemp(prefix="faults-caches-"))
        self.lock = threading.Lock()

    def words(self, program):
        """The program's command and its environment."""
        cache = made(self.caches / program.name)
        places = {"bin": toolkit.BUILT, "python": toolkit.PYTHON, "here": programs.HERE / "python", "cache": cache}
        env = {**self.environment, **{name: value.format(**places) for name, value in program.env.items()}}
        return [word.format(**places) for word in program.command], env

    def recorded(self, one, path):
        extra = one.program.serial if one.side == "samples" else ()
        return [str(self.recorder), "-o", str(path), "--only", one.side, *extra, "--", *self.words(one.program)[0]]

    def run(self):
        """Runs all tries while there is time."""
        end = time.monotonic() + self.options.seconds
        small, large = self.wanted()
        tries = draw_all(self.options, small, large, end_of=EXHAUSTING if self.has_device_tries() else ())
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(self.learn, small + large))
            for one in tries:
                if one.fault == DEVICE:
                    self.strike_in_time(one, end)
            rest = [one for one in tries if one.fault != DEVICE and one.program.command in self.known]
            list(pool.map(lambda one: self.strike_in_time(one, end), rest))
        shutil.rmtree(self.caches, ignore_errors=True)

    def wanted(self):
        """The small and the large programs that this machine can run."""
        names = self.options.programs or SMALL + LARGE
        chosen = [program for program in programs.chosen(names) if program.name in SMALL + LARGE]
        modules = toolkit.python_modules(sorted({module for program in chosen for module in program.modules}))
        for program in chosen:
            if reason := lacks(program, modules, 1):
                say(f"{program.name}: skipped: {reason}")
        chosen = [program for program in chosen if not lacks(program, modules, 1)]
        failed = toolkit.build({program.source for program in chosen if program.source} | {"exhaustion"})
        failed.pop("counter", None)
        if failed:
            raise SystemExit(f"faults: {failed}")
        small = [program for program in chosen if program.name in SMALL]
        return small, [program for program in chosen if program.name in LARGE]

    def has_device_tries(self):
        return not self.options.programs

    def learn(self, program):
        """Runs a program alone, then under each pass. One that differs then is a result, and is not struck."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="faults-"))
        words, env = self.words(program)
        try:
            for turn in range(1 + program.prepared):
                ended = process.run(words, made(folder / f"alone{turn}"), env, NATIVE_LIMIT_S)
            seconds, launches = {"": ended.seconds}, {}
            for side in PASSES:
                path = made(folder / side) / "a.stallmap"
                run = process.run(self.recorded(Try(0, program, side, "", 0), path), folder / side, env, NATIVE_LIMIT_S)
                seconds[side] = run.seconds
                if run.hung or (run.code, run.out) != (ended.code, ended.out):
                    text = f"differs without a fault: exit code {run.code}, not {ended.code}: {run.err[-400:]}"
                    return self.note({"program": program.name, "pass": side, "fault": "none", "found": [text]})
                if path.exists():
                    launches[side] = judge.accounted(capture.read(path))
            say(f"{program.name}: launches {launches}, seconds {seconds}")
            self.known[program.command] = Known(ended, launches, seconds)
        except Exception as error:  # a fault of this script is found too
            text = f"the script failed: {type(error).__name__}: {error}"
            self.note({"program": program.name, "pass": "", "fault": "none", "found": [text]})
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def strike_in_time(self, one, end):
        if time.monotonic() < end:
            self.note(self.strike(one))

    def note(self, facts):
        """Keeps a result, and writes all of them: what was seen stays where the rest is cut off."""
        if facts["found"]:
            say(f"try {facts.get('try', '-')}: {json.dumps(facts)}")
        with self.lock:
            self.results.append(facts)
            with (self.options.out / "faults.jsonl").open("a") as file:
                file.write(json.dumps(facts) + "\n")

    def strike(self, one):
        """One try. Returns its facts, with `found`: failures of the recorder."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="faults-"))
        disk = made(folder / "disk")
        name = " ".join([one.program.name, *one.program.command[2:]])
        facts = {"try": one.number, "program": name, "pass": one.side, "fault": one.fault, "found": []}
        is_mounted = one.fault == "full disk" and strikes.mount(disk, one.disk_bytes)
        try:
            if one.fault == "full disk" and not is_mounted:
                return {**facts, "skipped": "no right to mount"}
            if one.fault == DEVICE:
                ended = self.alone(one.program, folder)
                if ended.code != one.program.exit:
                    return {**facts, "skipped": f"exit code {ended.code} without the recorder: {ended.err[-200:]}"}
            self.judge(one, folder, disk / "a.stallmap", facts)
        except Exception as error:  # a fault of this script is found too
            facts["found"].append(f"the script failed: {type(error).__name__}: {error}")
        finally:
            if is_mounted:
                subprocess.run(["umount", "-l", disk], check=False)
            shutil.rmtree(folder, ignore_errors=True)
        return facts

    def alone(self, program, folder):
        """How a program ends that takes the device's memory."""
        if program.command not in self.known:
            words, env = self.words(program)
            ended = process.run(words, made(folder / "alone"), env, NATIVE_LIMIT_S)
            self.known[program.command] = Known(ended, {}, {"": ended.seconds})
        return self.known[program.command].ended

    def judge(self, one, folder, path, facts):
        known, seen = self.known[one.program.command], self.run_struck(one, folder, path, facts)
        if not seen.is_hung:
            self.look(one, path, folder, seen, facts)
        native = judge.Native(known.ended.code, known.ended.out, known.launches.get(one.side, 0), one.program.dies)
        found = judge.faults(seen, native)
        if any(text.startswith("exit code") for text in found) and one.fault in judge.OF_MEMORY:
            native.struck_codes = frozenset(self.controls(one, folder))
            facts["without the recorder"] = sorted(native.struck_codes)
            found = judge.faults(seen, native)
        facts["found"] += found
        if found:
            facts["out"], facts["threads"] = seen.out.decode(errors="replace")[-400:], facts.get("threads", "")

    def run_struck(self, one, folder, path, facts):
        known = self.known[one.program.command]
        seconds = known.seconds.get(one.side, known.ended.seconds)
        facts["moment_s"] = round(one.moment * seconds, 3)
        facts["is_struck"] = False
        has_strike = one.fault not in ("full disk", "own end", DEVICE)
        strike = (facts["moment_s"], lambda child, mark: hit(one, child.pid, process.processes(mark), facts))
        limit = LIMIT_S + LIMIT_TIMES * seconds
        is_orphan = one.fault in judge.OF_RECORDER
        run = process.run(
            self.recorded(one, path),
            folder,
            self.words(one.program)[1],
            limit,
            self.options.debugger,
            strike=strike if has_strike else None,
            aftermath=limit if is_orphan else process.AFTERMATH_S,
        )
        facts |= {"code": run.code, "seconds": round(run.seconds, 2), "err": run.err[-600:]}
        if run.hung:
            facts["threads"] = run.threads[-4000:]
        stated = re.search(r"^launches: (\d+)$", run.err, re.M)
        return judge.Seen(
            fault=one.fault,
            is_struck=facts["is_struck"],
            is_begun=facts.get("is_begun", True),
            code=run.code,
            out=run.out,
            err=run.err,
            is_hung=run.hung,
            is_left=run.left > 0,
            has_capture=path.exists(),
            has_folder=False,
            recovered=None,
            launches=None,
            missing=0,
            stated=int(stated.group(1)) if stated else None,
        )

    def look(self, one, path, folder, seen, facts):
        """Recovers and reads what is left."""
        partial = path.with_name(path.name + ".partial")
        seen.has_folder = partial.exists()
        if one.fault == "full disk" and not seen.has_capture and seen.has_folder:
            moved = folder / partial.name
            shutil.copytree(partial, moved)
            partial, path = moved, folder / path.name
        if not seen.has_capture and partial.exists():
            command = [self.recorder, "recover", partial]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
            seen.recovered = facts["recovered"] = done.returncode
            facts["recover"] = done.stderr[-300:]
        if not path.exists():
            return
        sides = capture.read(path)
        seen.launches = facts["launches"] = judge.accounted(sides)
        losses = collections.Counter()
        for side in sides.values():
            for (_, reason), count in side.losses.items():
                losses[reason] += count
        facts["rows"] = capture.rows(path)
        facts["unwritten"] = sum(losses[reason] for reason in judge.UNWRITTEN)
        seen.ended_early = bool(judge.ENDED & losses.keys())
        facts["missing"] = seen.missing = losses[judge.MISSING]

    def controls(self, one, folder):
        """How the program ends under the same fault without the recorder."""
        words, env = self.words(one.program)
        known = self.known[one.program.command]
        for turn in range(CONTROLS):
            strike = lambda child, _: strikes.limit_memory(child.pid, one.memory_bytes >> turn)
            place = made(folder / f"control{turn}")
            moment = one.moment * known.ended.seconds
            yield process.run(words, place, env, NATIVE_LIMIT_S, strike=(moment, strike)).code


def draw_all(options, small, large, end_of):
    """All tries of a seed: those that take the device's memory first."""
    chance = random.Random(options.seed)
    device = round(options.tries * DEVICE_PART) if end_of else 0
    tries = [
        Try(number, chance.choice(end_of), chance.choice(["accesses", "timeline", "samples"]), DEVICE, 0)
        for number in range(device)
    ]
    return tries + [draw(chance, number, small, large) for number in range(device, options.tries)]


def draw(chance, number, small, large):
    """One try."""
    fault = chance.choices(list(FAULTS), FAULTS.values())[0]
    side = "accesses" if fault == "reader ended" else chance.choices(list(PASSES), PASSES.values())[0]
    among = large if large and (chance.random() < LARGE_PART or not small) else small
    spread = lambda least, most: int(least * (most / least) ** chance.random())
    return Try(
        number, chance.choice(among), side, fault, chance.random(), spread(*DISK_BYTES), spread(*MEMORY_BYTES)
    )


def hit(one, recorder, ids, facts):
    """Strikes the recorder, or the program that it runs."""
    program = strikes.program_of(ids)
    facts["is_begun"] = program is not None
    target = recorder if one.fault in judge.OF_RECORDER else program
    if target is None:
        return
    if one.fault in ("host memory", "recorder's memory"):
        facts["is_struck"] = strikes.limit_memory(target, one.memory_bytes)
    elif one.fault == "reader ended":
        facts["is_struck"] = strikes.end_reader(target)
    else:
        facts["is_struck"] = strikes.send(target, strikes.SIGNALS.get(one.fault, signal.SIGKILL))


def table(results):
    """Rows of Markdown, one a fault, and a sum."""
    head = ["fault", "tries", "struck before the end", "failures", "rows found", "rows lost and counted"]
    head += ["written rows missing", "most seconds"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    done = [one for one in results if "skipped" not in one and one["fault"] != "none"]
    for fault in [DEVICE, *FAULTS, "all"]:
        tries = [one for one in done if fault in (one["fault"], "all")]
        add = lambda name: sum(one.get(name, 0) for one in tries)
        struck = "-" if fault in ("full disk", "own end", DEVICE) else f"{add('is_struck'):,}"
        failures = sum(bool(one["found"]) for one in tries)
        seconds = max((one.get("seconds", 0) for one in tries), default=0)
        cells = [fault, f"{len(tries):,}", struck, f"{failures:,}"]
        cells += [f"{add(name):,}" for name in ("rows", "unwritten", "missing")]
        lines.append(f"| {' | '.join(cells)} | {seconds:.1f} |")
    return "\n".join(lines)


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--tries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 4)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--programs", type=lambda text: text.split(","), default=[])
    parser.add_argument("--debugger", default="", help="such as cuda-gdb: stacks of a run that hangs")
    parser.add_argument("--out", type=pathlib.Path, default=toolkit.ROOT / "target/zoo/faults")
    return parser.parse_args(words)


def main(words):
    options = parse(words)
    made(options.out)
    (options.out / "faults.jsonl").write_text("")
    recorder = (options.bin / "stallmap-record").resolve()
    if not recorder.exists():
        raise SystemExit(f"faults: there is no {recorder}")
    campaign = Campaign(recorder, options)
    try:
        campaign.run()
    finally:
        text = table(campaign.results)
        (options.out / "faults.md").write_text(text + "\n")
        print(text)
    skipped = collections.Counter(one["skipped"] for one in campaign.results if "skipped" in one)
    for reason, count in skipped.items():
        print(f"skipped {count} tries: {reason}")
    return any(one["found"] for one in campaign.results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
