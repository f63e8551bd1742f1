"""What a struck run must hold: pure rules over what was seen, without processes."""

import dataclasses
import re

from zoo.strikes import SIGNALS

# Reasons of losses that stand for rows which a process had recorded and not written when it ended.
UNWRITTEN = {"row was not written when the process ended", "records were not written when the process ended"}
# The reason of a loss that stands for rows which were written, and are gone.
MISSING = "written row is missing"
# Reasons of losses that say that nothing was counted any more.
ENDED = {"memory ran out and recording ended"}
# Faults after which the recorder itself may have ended.
OF_RECORDER = {"recorder killed", "recorder's memory"}
# Faults after which the program may end otherwise, as it does without the recorder.
OF_MEMORY = {"host memory"}
# The recorder's exit code where the capture could not be written.
NOT_WRITTEN = 124
# What a program may say of an allocation that failed. Another text is the recorder's own.
NO_MEMORY = re.compile(r"bad_alloc|MemoryError|out of memory|Cannot allocate memory|cannot allocate|ENOMEM", re.I)


@dataclasses.dataclass
class Seen:
    """One run under a fault."""

    fault: str
    is_struck: bool  # before the program ended
    is_begun: bool  # the program ran when it was struck
    code: int
    out: bytes
    err: str
    is_hung: bool
    is_left: bool  # processes outlived it
    has_capture: bool  # the recorder finished it
    has_folder: bool  # there was something to recover
    recovered: int | None  # exit code of `recover`
    launches: int | None  # recorded or counted as lost, where there is a capture
    missing: int  # rows that were written and are gone
    ended_early: bool = False  # recording ended before the program, and says so
    stated: int | None = None  # launches that the program itself counted


@dataclasses.dataclass
class Native:
    """The same program without a fault."""

    code: int
    out: bytes
    launches: int  # of the same pass
    dies: bool  # it ends without its handlers, and its last launches may be lost with it
    struck_codes: frozenset = frozenset()  # how it ended under the same fault without the recorder


def accounted(sides):
    """Launches that a capture has: recorded, or counted as lost. A launch that the driver refuses is a loss, too."""
    # Launches whose reader ended are counted by the program, and by the capture, which lacks their rows.
    twice = sum(side.losses["launch", "its records could not be read"] for side in sides.values())
    lost = sum(count for side in sides.values() for (kind, _), count in side.losses.items() if kind == "launch")
    return sum(side.recorded for side in sides.values()) + lost - twice


def faults(seen, native):
    """What the recorder did wrong, as text."""
    if seen.is_hung or seen.is_left:
        return ["hang"]
    found = ["panic"] if "panicked" in seen.err else []
    # Killed before it started the program, the recorder leaves nothing to judge.
    if seen.fault in OF_RECORDER and not seen.is_begun:
        return found
    found += of_end(seen, native)
    if seen.recovered:
        found.append("not recovered")
    if seen.missing:
        found.append(f"{seen.missing} rows that were written are missing")
    return found + of_capture(seen, native)


def of_end(seen, native):
    """Faults of the program's end and output."""
    is_struck_itself = seen.is_struck and (seen.fault in SIGNALS or seen.fault in OF_MEMORY)
    found = []
    if not (native.out.startswith(seen.out) if is_struck_itself else seen.out == native.out):
        found.append("other output")
    if seen.fault in OF_RECORDER and seen.is_struck:
        return found
    allowed = {native.code}
    if seen.is_struck and seen.fault in SIGNALS:
        allowed.add(128 + SIGNALS[seen.fault])
    if seen.is_struck and seen.fault in OF_MEMORY:
        allowed |= native.struck_codes
        # The program's own words for it.
        if NO_MEMORY.search(seen.err) and "memory allocation of" not in seen.err:
            return found
    # The documented exit code where a program succeeded and its capture could not be written.
    if seen.fault == "full disk" and native.code == 0:
        allowed.add(NOT_WRITTEN)
    if seen.code not in allowed:
        found.append(f"exit code {seen.code}, not {sorted(allowed)}")
    return found


def of_capture(seen, native):
    """Faults of what was recorded."""
    if seen.launches is None:
        must_have = seen.fault not in OF_RECORDER | OF_MEMORY | {"full disk"}
        return ["no capture"] if must_have and "nothing was recorded" not in seen.err else []
    if seen.stated is not None:
        right = seen.launches == seen.stated
        return [] if right else [f"{seen.launches} launches, the program counted {seen.stated}"]
    # A program that dies without its handlers has launches in flight, and more of them are known where it is struck.
    if seen.launches > native.launches and not native.dies:
        return [f"{seen.launches} launches, {native.launches} without a fault"]
    # The program ended as it does alone: each launch must have a row or a loss.
    ended_alone = seen.code == native.code and not native.dies and not seen.ended_early
    if seen.has_capture and ended_alone and seen.fault not in OF_RECORDER and seen.launches < native.launches:
        missing = native.launches - seen.launches
        return [f"{missing} of {native.launches} launches have neither a row nor a loss"]
    return []
