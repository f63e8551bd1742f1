#!/usr/bin/env python3
"""Runs the zoo: every program alone, counted, and recorded. Reports where the recorder did harm or lost a launch.

    scripts/zoo/run.py BIN [--programs NAME,...] [--passes PASS,...] [--jobs N] [--out DIR]
    scripts/zoo/run.py --list

BIN holds stallmap-record and libstallmap_inject.so. See scripts/zoo/README.md.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import threading

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from zoo import capture, process, programs, report, toolkit  # noqa: E402  # after the path is known
from zoo.result import INSTRUMENTS, Count, Pass, Result  # noqa: E402

# Limit of a native run. torch.compile with cold caches takes most of a minute.
NATIVE_LIMIT_S = 180
# Options of passes that are more than the name of a run.
OPTIONS = {"all": [], "both": ["--only", "accesses,samples"], "bundles": ["--only", "accesses", "--replay"]}
SAMPLING = {"samples", "both", "all"}
# Passes that run kernels one at a time.
SERIAL = {*SAMPLING, "bundles"}


def parse(words):
    """The zoo's options among `words`, and the words that are not its own."""
    environment = os.environ.get
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    names = lambda text: [name for name in text.split(",") if name]
    parser.add_argument("--programs", type=names, default=names(environment("ZOO_PROGRAMS", "")))
    parser.add_argument("--passes", type=names, default=names(environment("ZOO_PASSES", "accesses,samples,timeline")))
    parser.add_argument("--jobs", type=int, default=int(environment("ZOO_JOBS", "4")))
    parser.add_argument("--samples-jobs", type=int, default=int(environment("ZOO_SAMPLES_JOBS", "1")))
    parser.add_argument("--timeout", type=float, default=float(environment("ZOO_TIMEOUT", "90")))
    parser.add_argument("--out", type=pathlib.Path, default=environment("ZOO_OUT", toolkit.ROOT / "target/zoo/out"))
    parser.add_argument("--debugger", default=environment("ZOO_DEBUGGER", ""))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--list", action="store_true")
    options, rest = parser.parse_known_args(words)
    unknown = [name for name in options.passes if name not in INSTRUMENTS]
    if unknown or not options.passes:
        raise SystemExit(f"zoo: no pass is called {', '.join(unknown)}; there are {', '.join(INSTRUMENTS)}")
    options.out = pathlib.Path(options.out).resolve()
    options.programs = programs.chosen(options.programs)
    return options, rest


def listing():
    """The programs, a line each."""
    width = max(len(program.name) for program in programs.PROGRAMS)
    lines = []
    for program in programs.PROGRAMS:
        needs = [f"{program.gpus} GPUs"] if program.gpus > 1 else []
        needs += program.modules
        lines.append(f"{program.name:{width}}  {program.about}" + (f" ({', '.join(needs)})" if needs else ""))
    return "\n".join(lines)


class Zoo:
    """One call: the shared state of all programs' runs."""

    def __init__(self, recorder, options):
        self.recorder = pathlib.Path(recorder)
        self.options = options
        self.environment = {name: value for name, value in os.environ.items() if name != "CUDA_INJECTION64_PATH"}
        self.can_read = capture.is_readable()
        if not self.can_read:
            say("this Python has no pyarrow: launches in captures are not looked at")
        self.lock = threading.Lock()
        # One process samples a GPU. Others would count their launches as lost.
        self.sampling = threading.Semaphore(max(1, options.samples_jobs))

    def run(self):
        """Runs the chosen programs. Returns their results in the table's order, and writes them."""
        self.options.out.mkdir(parents=True, exist_ok=True)
        self.lines = self.options.out / "zoo.jsonl"
        self.lines.write_text("")
        wanted = self.options.programs
        modules = toolkit.python_modules(sorted({module for program in wanted for module in program.modules}))
        gpus = toolkit.gpus()
        results = {program.name: Result(program, skipped=lacks(program, modules, gpus)) for program in wanted}
        self.build(results)
        for result in results.values():
            if result.skipped or result.failed:
                self.write(result)
        self.run_all([result for result in results.values() if not result.skipped and not result.failed])
        text = report.table(results.values(), self.options.passes) + "\n\n" + report.summary(results.values())
        (self.options.out / "zoo.md").write_text(text + "\n")
        return list(results.values()), text

    def build(self, results):
        """Builds everything that the programs need. Those that cannot be built have failed."""
        runnable = [result for result in results.values() if not result.skipped]
        failed = toolkit.build({result.program.source for result in runnable if result.program.source})
        for result in runnable:
            result.failed = failed.get(result.program.source, "")
        self.counter = None if "counter" in failed else toolkit.build_counter()
        if not self.counter:
            say(f"kernels are not counted: {failed['counter']}")

    def run_all(self, results):
        """Several programs at once, then those that need the device for themselves."""
        together = [result for result in results if not result.program.alone]
        with concurrent.futures.ThreadPoolExecutor(max(1, self.options.jobs)) as pool:
            list(pool.map(self.run_program, together))
        for result in results:
            if result.program.alone:
                self.run_program(result)

    def run_program(self, result):
        """A program's runs, one after the other, in a folder of their own."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"zoo-{result.program.name}-"))
        try:
            self.run_in(result, folder)
        except Exception as error:  # a fault of one program must not end the rest
            result.failed = f"the zoo failed: {type(error).__name__}: {error}"
        finally:
            if self.options.keep:
                say(f"{result.program.name}: files are in {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
        self.write(result)
        say(f"{result.program.name}: {result.verdict}")

    def run_in(self, result, folder):
        """Prepares, runs alone, counts, records."""
        program = result.program
        places = {"python": toolkit.PYTHON, "bin": toolkit.BUILT, "here": programs.HERE / "python"}
        places["cache"] = folder / "cache"
        command = [word.format(**places) for word in program.command]
        env = {**self.environment, **{name: value.format(**places) for name, value in program.env.items()}}
        if program.prepared:
            result.native = self.go(command, made(folder / "prepare"), env, NATIVE_LIMIT_S)
            if result.native.hung or result.native.code != program.exit:
                return
        result.native = self.go(command, made(folder / "native"), env, NATIVE_LIMIT_S)
        if result.native.hung or result.native.code != program.exit:
            return
        self.count(result, command, made(folder / "counted"), env)
        for name in self.options.passes:
            result.passes[name] = self.recorded(name, command, made(folder / name), env, result)

    def count(self, result, command, folder, env):
        """Counts the kernels that run, by CUPTI. A process that dies writes no number."""
        if not self.counter:
            result.counted = result.native
            return
        library, cupti = self.counter
        file = folder / "count"
        env = {**env, "CUDA_INJECTION64_PATH": str(library), "ZOO_CUPTI": cupti, "ZOO_COUNT_FILE": str(file)}
        result.counted = self.go(command, folder, env, NATIVE_LIMIT_S)
        result.count = read_counts(sorted(folder.glob("count.*")))

    def go(self, command, folder, env, limit):
        """One run of a command."""
        return process.run(command, folder, env, limit, self.options.debugger)

    def recorded(self, name, command, folder, env, result):
        """One run under the recorder."""
        path = folder / f"{name}.stallmap"
        side = OPTIONS.get(name, ["--only", name])
        extra = result.program.serial if name in SERIAL else []
        full = [str(self.recorder), "-o", str(path), *side, *extra, "--", *command]
        limit = self.options.timeout + 10 * result.native.seconds
        with self.sampling if name in SAMPLING else contextlib.nullcontext():
            ended = self.go(full, folder, env, limit)
        record = Pass(ended, path.exists())
        if self.can_read and path.exists():
            try:
                record.sides = capture.read(path)
                record.is_read = True
            except Exception as error:  # whatever a broken file makes the reader say
                record.unread = f"{type(error).__name__}: {error}"
        return record

    def write(self, result):
        """Adds a result to the JSON lines. Stores its runs' output where something went wrong."""
        with self.lock, self.lines.open("a") as file:
            file.write(json.dumps(report.facts(result)) + "\n")
        if result.verdict == "ok":
            return
        runs = {"native": result.native, "counted": result.counted}
        runs |= {name: record.ended for name, record in result.passes.items()}
        for name, ended in runs.items():
            if ended is not None:
                logs = made(self.options.out / "logs" / result.program.name)
                (logs / f"{name}.stdout").write_bytes(ended.out)
                (logs / f"{name}.stderr").write_text(ended.err)
                if ended.hung:
                    (logs / f"{name}.threads").write_text(ended.threads + "\n")


def lacks(program, modules, gpus):
    """Parts that the machine lacks for a program."""
    missing = [module for module in program.modules if module not in modules]
    if missing:
        return f"{toolkit.PYTHON} has no {', '.join(missing)}"
    return f"needs GPUs: {program.gpus}, found: {gpus}" if program.gpus > gpus else ""


def read_counts(paths):
    """The counts that processes wrote, added up."""
    if not paths:
        return None
    count = Count(processes=len(paths))
    for path in paths:
        for line in path.read_text(errors="replace").splitlines():
            number, name = line.split("\t", 1)
            if name in ("total", "dropped"):
                setattr(count, name, getattr(count, name) + int(number))
            else:
                count.names[name] = count.names.get(name, 0) + int(number)
    return count


def made(folder):
    """The folder, made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def say(text):
    """A line of progress."""
    print(f"zoo: {text}", file=sys.stderr, flush=True)


def main():
    options, rest = parse(sys.argv[1:])
    if options.list:
        print(listing())
        return 0
    if len(rest) != 1 or rest[0].startswith("-"):
        raise SystemExit(__doc__)
    results, text = Zoo(pathlib.Path(rest[0]).resolve() / "stallmap-record", options).run()
    print(text)
    return any(not result.skipped and result.verdict != "ok" for result in results)


if __name__ == "__main__":
    sys.exit(main())
