"""Attacks on recordings that were not finished: what `recover` and `merge` make of damaged folders."""

import os
import pathlib
import shutil
import subprocess

from attacks.base import ROOT, Ran, flipped
from attacks.files import damaged_file, damaged_part
from attacks.rows import changed_rows

RECORDING = ROOT / "target/debug/examples/recording"
# A capture was written, nothing can be used, or options are refused.
CODES = {0, 1, 2, 3, 5, 124, 125}
SPARSE_BYTES = 5 << 30
# Larger ones were made by another damage.
MAX_BYTES = 1 << 24
DEEP = 100_000


def recording(place, name):
    """A sound recording as a folder."""
    if not RECORDING.exists():
        raise SystemExit(f"campaign: build {RECORDING} first: cargo build --workspace --examples")
    subprocess.run([RECORDING, place], check=True)
    return (place / "program.stallmap.partial").rename(place / f"{name}.stallmap.partial")


def damaged(folder, chance):
    """Damages one to three files of a recording, and says how."""
    made = []
    for _ in range(chance.randint(1, 3)):
        files = sorted(file for file in folder.rglob("*") if file.is_file() and 0 < file.stat().st_size < MAX_BYTES)
        if not files:
            break
        # Most of what can be lost is in segments.
        segments = [file for file in files if file.suffix == ".seg"]
        file = chance.choice(segments if segments and chance.randrange(3) else files)
        kind = chance.choice(list(DAMAGES))
        DAMAGES[kind](file, files, chance)
        made.append(f"{file.name}: {kind}")
    return ", ".join(made)


def cut(file, _, chance):
    os.truncate(file, chance.randrange(file.stat().st_size))


def flip(file, _, chance):
    file.write_bytes(flipped(file.read_bytes(), chance, 4))


def flip_head(file, _, chance):
    content = file.read_bytes()
    file.write_bytes(flipped(content[:64], chance, 2) + content[64:])


def remove(file, _, chance):
    file.unlink()
    if chance.randrange(3) == 0 and not any(file.parent.iterdir()):
        file.parent.rmdir()


def swap(file, files, chance):
    other = chance.choice(files)
    one, two = file.read_bytes(), other.read_bytes()
    file.write_bytes(two)
    other.write_bytes(one)


def repeat(file, _, chance):
    content = file.read_bytes()
    at = chance.randrange(len(content))
    file.write_bytes(content + content[at:] * chance.choice([1, 40]))


def false_frames(file, _, chance):
    size = chance.randrange(1, 1 << 26).to_bytes(4, "little")
    frame = b"SMFR\x01\0\0\0" + size + size + bytes(16)
    file.write_bytes(file.read_bytes() + frame * chance.choice([10, 100_000]))


def other_thing(file, _, chance):
    file.unlink()
    kind = chance.randrange(4)
    if kind == 0:
        os.mkfifo(file)
    elif kind == 1:
        file.symlink_to("/dev/zero")
    elif kind == 2:
        file.mkdir()
    else:
        file.symlink_to(file)


def sparse(file, _, __):
    os.truncate(file, SPARSE_BYTES)


def deep(file, _, chance):
    file.write_bytes(chance.choice([b"[", b'{"a":', b'"' + b"x" * 64]) * DEEP)


DAMAGES = {
    function.__name__: function
    for function in (cut, flip, flip_head, remove, swap, repeat, false_frames, other_thing, sparse, deep)
}


def recovered(counts, _, place, chance):
    """Recovers a damaged recording: a capture that `check` accepts, or an error without one."""
    folder = recording(place, "a")
    made = damaged(folder, chance)
    judge(counts, ["recover", folder, "-o", place / "out.stallmap"], place, made)


def merged(counts, _, place, chance):
    """Merges recordings of which some are damaged, one is there twice, or one is missing or no recording."""
    folders = [recording(place, name) for name in ("a", "b", "c")[: chance.randint(2, 3)]]
    made = [f"{folder.name[0]}: {damaged(folder, chance)}" for folder in folders if chance.randrange(2)]
    kind = chance.randrange(6)
    if kind == 0:
        folders.append(chance.choice(folders))
    elif kind == 1:
        shutil.rmtree(folders[0])
    elif kind == 2:
        folders.append(place)
    judge(counts, ["merge", *folders, "-o", place / "out.stallmap"], place, "; ".join(made))


# Those with bundles.
REPLAYED = ["blame_replays", "graph_bundles", "graph_replay"]


def exported(counts, _, place, chance):
    """Bundles of damaged captures as programs, which are written and not run."""
    capture = ROOT / f"testdata/{chance.choice(REPLAYED)}.stallmap"
    bad = chance.choice([damaged_file, damaged_part, damaged_part, changed_rows])(capture, place, chance)
    if bad is None:
        return
    before = set(place.iterdir())
    words = ["replay", bad, "--export", place / "programs"]
    words += ["--launches", chance.choice(["0-9", "1", "a", "99999999999999999999", "5-2"])] if chance.randrange(2) else []
    recorder = pathlib.Path(counts.options.stallmap).with_name("stallmap-record")
    ran = Ran(counts.options, words, program=recorder)
    left = [new.name for new in set(place.iterdir()) - before if new.name != "programs"]
    problem = ran.problem(counts.options, CODES) or (f"left {left}" if left else None)
    counts.note(ran, problem, [bad])


def judge(counts, words, place, made):
    """Runs a command of the recorder. What it writes passes `check`, and nothing else is left."""
    output, before = place / "out.stallmap", set(place.iterdir())
    recorder = pathlib.Path(counts.options.stallmap).with_name("stallmap-record")
    ran = Ran(counts.options, words, program=recorder)
    problem = ran.problem(counts.options, CODES)
    left = [new.name for new in set(place.iterdir()) - before if new != output]
    problem = problem or (f"left {left}" if left else None)
    if not problem and (ran.code == 0) != output.exists():
        problem = f"exit code {ran.code}, and {'an' if output.exists() else 'no'} output"
    counts.note(ran, problem and f"{problem} ({made})", [word for word in words if isinstance(word, pathlib.Path)])
    if output.exists():
        checked = Ran(counts.options, ["check", output])
        problem = checked.problem(counts.options, {0})
        counts.note(checked, problem and f"{problem} ({made})", [output])


ATTACKS = {"recovery": recovered, "merging": merged, "exported bundles": exported}
