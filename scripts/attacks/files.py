"""Attacks on files: damaged captures, other containers, full disks, interruptions, secrets."""

import pathlib
import re
import shutil
import signal
import threading
import zipfile

from attacks.base import Ran, flipped

READERS = [
    ["check", "IN"], ["info", "IN"], ["IN"], ["report", "IN"], ["report", "IN", "--html", "OUT.html"], ["source", "IN"],
    ["top", "tensors", "IN"], ["tree", "IN"], ["forest", "IN"], ["diff", "IN", "IN"], ["redact", "IN", "OUT.stallmap"],
    ["pack", "IN", "OUT.stallmap"], ["unpack", "IN", "OUT"], ["export", "perfetto", "IN", "-o", "OUT.json"],
    ["sql", "IN", "-c", "SELECT count(*), sum(samples) FROM pc_sample"],
]
WRITERS = [
    (["report", "IN", "--html", "OUT"], ".html"), (["forest", "IN", "--svg", "OUT"], ".svg"),
    (["sql", "IN", "-c", "SELECT * FROM memory_access", "-o", "OUT"], ".csv"), (["pack", "IN", "OUT"], ".stallmap"),
    (["redact", "IN", "OUT"], ".stallmap"), (["export", "perfetto", "IN", "-o", "OUT"], ".json"),
]
# Short ones, whose answers are stored.
SMALL_ANSWERS = [["IN"], ["report", "IN"], ["top", "tensors", "IN"], ["tree", "IN"], ["forest", "IN"], ["source", "IN"]]
# Those that never replace a file.
CREATES = {"pack", "redact"}


def damaged_file(capture, place, chance):
    """The capture with changed bytes, cut, or with parts exchanged."""
    content, kind = capture.read_bytes(), chance.randrange(4)
    if kind == 0:
        content = content[: chance.randrange(len(content))]
    elif kind == 1:
        content = flipped(content[:-4096], chance) + content[-4096:]
    elif kind == 2:
        content = content[:-4096] + flipped(content[-4096:], chance)
    else:
        one, other, length = (chance.randrange(len(content) - 512) for _ in range(3))
        length = 1 + length % 512
        part = content[one : one + length]
        content = content[:other] + part + content[other + length :]
    file = place / "damaged.stallmap"
    file.write_bytes(content)
    return file


def damaged_part(capture, place, chance):
    """The capture as a folder, with changed bytes in tables, cubins or the manifest."""
    folder = place / "damaged"
    with zipfile.ZipFile(capture) as archive:
        archive.extractall(folder)
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)
    chosen = chance.choice([[folder / "manifest.json"], files, files, files])
    for file in chance.sample(chosen, min(len(chosen), chance.randint(1, 3))):
        content = file.read_bytes()
        # The metadata of Parquet is at the end, and damage there goes further.
        tail = len(content) // 4 if chance.randrange(2) else len(content)
        file.write_bytes(content[: len(content) - tail] + flipped(content[len(content) - tail :], chance, 4))
    return folder


def other_container(capture, place, chance):
    """The capture with one more entry, an entry less, or one entry twice."""
    names = [
        "../out", "/out", "tables/../../out", ".git/config", "tables/.x.parquet", "cubins/x", "tables\\x", "con",
        "tables/run.parquet", "TABLES/run.parquet", "tables", "a/" * 400 + "x", "tables/\x1b[8m.parquet", "manifest.json",
    ]
    file = place / "container.stallmap"
    with zipfile.ZipFile(capture) as source, zipfile.ZipFile(file, "w") as target:
        entries = source.infolist()
        left_out = chance.choice([None, chance.choice(entries).filename])
        for entry in entries:
            if entry.filename != left_out:
                kind = chance.choice([zipfile.ZIP_STORED] * 9 + [zipfile.ZIP_DEFLATED])
                target.writestr(zipfile.ZipInfo(entry.filename), source.read(entry), kind)
        if chance.randrange(4):
            import warnings

            warnings.simplefilter("ignore")
            target.writestr(zipfile.ZipInfo(chance.choice(names)), b"[core]\nfsmonitor = true\n")
    return file


def read_all(make):
    """Runs commands on a capture that was made by `make`."""

    def attack(counts, capture, place, chance):
        file = make(capture, place, chance)
        for words in chance.sample(READERS, 5):
            before = set(place.iterdir())
            words = [str(file) if word == "IN" else word.replace("OUT", str(place / "out")) for word in words]
            ran = Ran(counts.options, words)
            problem = ran.problem(counts.options)
            outside = [new.name for new in set(place.iterdir()) - before if not new.name.startswith("out")]
            counts.note(ran, problem or (f"left {outside}" if outside else None), [file])
            for new in set(place.iterdir()) - before:
                shutil.rmtree(new) if new.is_dir() else new.unlink()

    return attack


def interfered(interfere, codes):
    """Runs a command that writes, under a fault. The file is whole or as it was, and nothing else is left."""

    def attack(counts, capture, place, chance):
        words, ending = chance.choice(WRITERS)
        output = place / f"out{ending}"
        words = [str(capture) if word == "IN" else word.replace("OUT", str(output)) for word in words]
        whole = Ran(counts.options, words)
        if whole.code != 0:
            return counts.note(whole, f"exit code {whole.code} without a fault")
        size, old = output.stat().st_size, None
        output.unlink()
        if words[0] not in CREATES and chance.randrange(2):
            old = b"old"
            output.write_bytes(old)
        ran = Ran(counts.options, words, **interfere(chance, size, whole.seconds))
        now = output.read_bytes() if output.exists() else None
        problem = ran.problem(counts.options, codes)
        # A signal can come between the last write and the end.
        is_whole = now is not None and len(now) >= size * 9 // 10
        if is_whole and ending == ".stallmap":
            is_whole = Ran(counts.options, ["check", output]).code == 0
        if not problem and ran.code == 0:
            problem = None if is_whole else "success, and no whole output"
        elif not problem and now != old and not is_whole:
            problem = "a torn output" if now else "the old output is gone"
        left = [file.name for file in place.iterdir() if file != output]
        counts.note(ran, problem or (f"left {left}" if left else None))

    return attack


def full_disk(chance, size, _):
    return {"disk_bytes": chance.randrange(size + 1)}


def interrupted(chance, _, seconds):
    return {"signal_after": chance.random() * seconds}


# Above the size up to which captures are read at once.
LARGE_BYTES = 33 << 20


def changing(counts, capture, place, chance):
    """A large capture is cut, or written to, while a command reads it: a result, or an error."""
    file, own = place / "large.stallmap", capture.read_bytes()
    with open(file, "wb") as made:
        made.truncate(LARGE_BYTES)
    with zipfile.ZipFile(capture) as source, zipfile.ZipFile(file, "a") as target:
        for entry in source.infolist():
            target.writestr(zipfile.ZipInfo(entry.filename), source.read(entry))

    def change():
        with open(file, "r+b") as opened:
            kind, size = chance.randrange(3), file.stat().st_size
            if kind == 0:
                return opened.truncate(chance.choice([0, LARGE_BYTES, chance.randrange(LARGE_BYTES, size)]))
            opened.seek(0 if kind == 1 else chance.randrange(LARGE_BYTES, size))
            opened.write(own if kind == 1 else chance.randbytes(1 << 16))

    words = chance.choice(READERS)
    words = [str(file) if word == "IN" else word.replace("OUT", str(place / "out")) for word in words]
    # Half of the tries come while it opens the file.
    timer = threading.Timer(chance.random() * chance.choice([0.05, 2]), change)
    timer.start()
    ran = Ran(counts.options, words)
    timer.cancel()
    timer.join()
    problem = ran.problem(counts.options, {0, 1, 3})
    left = [new.name for new in place.iterdir() if new != file and not (new.name.startswith("out") and ran.code == 0)]
    counts.note(ran, problem or (f"left {left}" if left else None))


def rows(counts, capture, statement):
    """The rows of a query as lines of CSV."""
    return Ran(counts.options, ["sql", capture, "--format", "csv", "-c", statement]).text.splitlines()[1:]


def redacted(counts, capture, place, chance):
    """Redacts with random options, and searches all tables of the result for hosts, folders and arguments."""
    kinds = chance.sample(["symbols", "names", "times"], chance.randrange(4))
    output = place / "public.stallmap"
    also = ["--also", ",".join(kinds)] if kinds else []
    coarse = ["--coarsen"] if chance.randrange(2) else []
    ran = Ran(counts.options, ["redact", capture, output, *also, *coarse])
    problem = ran.problem(counts.options, {0, 5})
    if not problem and ran.code == 0:
        known = rows(counts, capture, "SELECT DISTINCT unnest([host, working_directory, program, arguments]) FROM run")
        words = {word for line in known for word in re.findall(r"[\w./-]{4,}", line)}
        secrets = {word for word in words if "/" in word.strip("/") or word in known}
        with zipfile.ZipFile(output) as archive:
            content = [archive.read("manifest.json").decode()]
            tables = [pathlib.PurePath(name).stem for name in archive.namelist() if name.startswith("tables/")]
        content += [line for table in tables for line in rows(counts, output, f"SELECT * FROM {table}")]
        found = [secret for secret in secrets if any(secret in line for line in content)]
        checked = Ran(counts.options, ["check", output])
        problem = f"{found[0]} stays" if found else f"check of it: {checked.text}" if checked.code else None
        problem = problem or (None if secrets else "no secret to search for")
    counts.note(ran, problem, [capture])


ATTACKS = {
    "damaged files": read_all(damaged_file),
    "damaged parts": read_all(damaged_part),
    "other containers": read_all(other_container),
    "full disk": interfered(full_disk, {0, 5}),
    "interruption": interfered(interrupted, {0, 5, 130, -signal.SIGINT}),
    "redaction": redacted,
    "changing files": changing,
}
