"""nvdisasm's output for a cubin's instructions: text, labels, and its table of registers."""

import collections
import re
import subprocess

import tools

FILES = {"GPR": "R", "PRED": "P", "UGPR": "UR", "UPRED": "UP"}
SECTION = re.compile(r"^\t\.section\t\.text\.([^,]+)")
LABEL = re.compile(r"^(\.L_\w+):")
FIRST_HALF = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s+/\* 0x([0-9a-f]{16}) \*/")
SECOND_HALF = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/")

# Of a section of code: offset, bits, text, registers written, registers read.
Row = collections.namedtuple("Row", "offset word text writes reads")
# Name, rows, and offsets by label.
Section = collections.namedtuple("Section", "name rows labels")


def sections(folder, cubin):
    """The sections of code, each once it is complete."""
    command = [tools.nvdisasm(folder, cubin), "-c", "-hex", "-plr", "-lrm", "narrow", cubin]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
    )
    try:
        yield from read(process.stdout)
    finally:
        process.kill()
        process.wait()


def read(lines):
    section, columns, box, first, waiting = None, None, [], None, []
    for line in lines:
        code, bar, table = line.partition(" // ")
        if not bar:
            found = SECTION.match(line)
            if found:
                if section and section.rows:
                    yield section
                section, columns, box, waiting = Section(found[1], [], {}), None, [], []
            continue
        table = table.rstrip("\n")
        if columns is None:
            columns = header(box) if table.startswith("+") and len(box) >= 3 else None
            if table.startswith("|"):
                box.append(table)
            continue
        label = LABEL.match(code)
        if label:
            waiting.append(label[1])
        half = FIRST_HALF.match(code)
        if half:
            first = half
            section.labels.update((name, int(half[1], 16)) for name in waiting)
            waiting = []
            continue
        half = SECOND_HALF.match(code)
        if half and first:
            writes, reads = marked(table, columns)
            word = int(first[3], 16) | int(half[1], 16) << 64
            section.rows.append(Row(int(first[1], 16), word, first[2].strip(), writes, reads))
            first = None
    if section and section.rows:
        yield section


def header(box):
    """The register of each column: its number stands above it, digit by digit."""
    title, last = box[0], box[-1]
    bars = [place for place, letter in enumerate(title) if letter == "|"]
    columns = []
    for left, right in zip(bars, bars[1:]):
        file = FILES[title[left + 1 : right].strip().rstrip(".")]
        for place in range(last.index("#", left) + 1, right):
            if last[place].isdigit():
                number = "".join(row[place] for row in box[1:] if row[place].isdigit())
                columns.append((place, file, int(number)))
    return columns


def marked(table, columns):
    """Registers that the line marks as written (^), read (v) or both (x)."""
    writes, reads = set(), set()
    for place, file, index in columns:
        mark = table[place] if place < len(table) else " "
        if mark in "^x":
            writes.add((file, index))
        if mark in "vx":
            reads.add((file, index))
    return frozenset(writes), frozenset(reads)


def unguarded(text):
    """A line of code without its predicate."""
    return re.sub(r"^@!?U?P[T0-9]+\s+", "", text)


def guard(text):
    """The predicate of a line of code, `-` for none."""
    found = re.match(r"^@(!?U?P[0-9T]+)\s", text)
    return "-" if not found else "@" + found[1].replace("PT", "P7")


def mnemonic(text):
    """The name without modifiers."""
    return re.split(r"[ .;]", unguarded(text), maxsplit=1)[0]


def full_name(text):
    """The name with modifiers."""
    return re.split(r"[ ;]", unguarded(text), maxsplit=1)[0]


def faults(sm, row, ours_written):
    """Known errors of the table here: a reason to leave the row out, and registers to ignore."""
    name, writes, reads = mnemonic(row.text), row.writes, row.reads
    if name == "CALL":
        return "CALL shows the summary of what it calls", ()
    if name in ("P2R", "UP2UR"):
        return None, [("P", index) for index in range(7)] + [("UP", index) for index in range(7)]
    if name in ("R2P", "UR2UP"):
        return None, [("P", index) for index in range(7)] + [("UP", index) for index in range(7)]
    if name in ("LDG", "LDGSTS"):
        both = {register for register in writes & reads if register[0] == "P"}
        return None, list(both - ours_written)
    if sm >= 100 and name in ("TEX", "TLD", "TLD4", "TXD"):
        # The last of four components is missing though the next instruction reads it. So is half of some handles.
        return None, [("R", (row.word >> 64 & 0xFF) + 1), ("UR", (row.word >> 40 & 0xFF) + 1)]
    return None, ()
