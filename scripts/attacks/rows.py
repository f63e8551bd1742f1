"""Attacks on the content of captures: other rows under a right manifest, and answers that were stored."""

import pathlib
import shutil
import subprocess
import zipfile

from attacks.base import ROOT, Ran, flipped
from attacks.files import READERS, SMALL_ANSWERS

# Those with the newer tables: counted accesses, pointers, activities of the GPU, experiments, source text, graph nodes.
NEWER = ["graph_bundles", "graph_replay", "ablation_truth", "time_truth", "blame_replays", "two_ranks", "access_truth"]
OTHER_ROWS = ROOT / "target/debug/examples/other_rows"
# Damaged or of another capture.
REFUSED = {3, 4}


def changed_rows(capture, place, chance):
    """A capture with rows that are repeated, missing, mixed or extreme. None if it has no rows to change."""
    if not OTHER_ROWS.exists():
        raise SystemExit(f"campaign: build {OTHER_ROWS} first: cargo build --workspace --examples")
    source = ROOT / f"testdata/{chance.choice(NEWER)}.stallmap" if chance.randrange(4) else capture
    bad, seed = place / "other.stallmap", str(chance.randrange(1 << 63))
    made = subprocess.run([OTHER_ROWS, source, bad, seed], capture_output=True, text=True)
    return None if made.returncode else bad


def other_rows(counts, capture, place, chance):
    """Every command survives what `check` accepts."""
    bad = changed_rows(capture, place, chance)
    if bad is None:
        return
    checked = Ran(counts.options, ["check", bad])
    counts.note(checked, checked.problem(counts.options, {0, 1, 3}), [bad])
    for words in chance.sample(READERS, 3):
        words = [str(bad) if word == "IN" else word.replace("OUT", str(place / "out")) for word in words]
        ran = Ran(counts.options, words)
        problem = ran.problem(counts.options)
        if not problem and checked.code == 0 and ran.code in REFUSED:
            problem = f"`check` accepts it, and the exit code is {ran.code}"
        counts.note(ran, problem, [bad])
        for new in place.glob("out*"):
            shutil.rmtree(new) if new.is_dir() else new.unlink()


def stored_answers(counts, capture, place, chance):
    """Answers in the cache's folder, or in the capture, with changed bytes: the same text again, or an error."""
    cache, own = place / "cache", place / "own.stallmap"
    shutil.copy(capture, own)
    words = [word if word != "IN" else str(own) for word in chance.choice(SMALL_ANSWERS)]
    known = Ran(counts.options, words, STALLMAP_CACHE=str(cache))
    files = sorted(file for file in cache.rglob("*") if file.is_file() and file.stat().st_size)
    if chance.randrange(2) and files:
        for file in chance.sample(files, min(len(files), 3)):
            damage(file, chance)
        ran = Ran(counts.options, words, STALLMAP_CACHE=str(cache))
        problem = ran.problem(counts.options)
        return counts.note(ran, problem or (None if ran.text == known.text else "another answer"), files)
    prepared = Ran(counts.options, ["prepare", own, "--in-place"], STALLMAP_CACHE=str(cache))
    counts.note(prepared, prepared.problem(counts.options, {0}), [own])
    folder = place / "folder"
    with zipfile.ZipFile(own) as archive:
        archive.extractall(folder)
        before = set(zipfile.ZipFile(capture).namelist())
        added = [folder / name for name in archive.namelist() if name not in before]
    if added:
        damage(chance.choice(added), chance)
    words = [word if word != str(own) else str(folder) for word in words]
    ran = Ran(counts.options, words)
    counts.note(ran, ran.problem(counts.options), [folder])


def damage(file, chance):
    """Changes bytes of a file, cuts it, or puts something else in its place."""
    content, kind = file.read_bytes(), chance.randrange(4)
    if kind == 0:
        file.write_bytes(content[: chance.randrange(len(content) or 1)])
    elif kind == 1:
        file.unlink()
        pathlib.Path(file).mkdir()
    else:
        file.write_bytes(flipped(content, chance, 4) if content else b"x")


ATTACKS = {"other rows": other_rows, "stored answers": stored_answers}
