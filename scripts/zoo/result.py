"""The runs of one program, with the verdict."""

import dataclasses

from zoo.programs import Program

# The instrument of a capture's side, by the pass that records it.
INSTRUMENTS = {
    "accesses": ["accesses"],
    "samples": ["pc_samples"],
    "timeline": ["timeline"],
    "bundles": ["accesses"],
    "both": ["accesses", "pc_samples"],
    "all": ["accesses", "pc_samples", "timeline"],
}
WORDS = {"accesses": "accesses", "pc_samples": "samples", "timeline": "timeline"}


@dataclasses.dataclass
class Count:
    """The kernels that CUPTI saw in a run without the recorder."""

    total: int = 0
    dropped: int = 0
    processes: int = 0
    names: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Pass:
    """One recorded run."""

    ended: object
    has_capture: bool
    is_read: bool = False  # not where this Python has no reader
    sides: dict = dataclasses.field(default_factory=dict)  # by instrument
    unread: str = ""  # why the capture is no good


@dataclasses.dataclass
class Result:
    """Everything about a program."""

    program: Program
    skipped: str = ""
    failed: str = ""  # before anything was recorded
    native: object = None
    counted: object = None  # the run under CUPTI
    count: Count | None = None
    passes: dict = dataclasses.field(default_factory=dict)

    @property
    def verdict(self):
        """`ok`, or everything that went wrong."""
        if self.skipped:
            return f"skipped: {self.skipped}"
        return "; ".join(self.faults()) or "ok"

    def faults(self):
        """All faults, as text."""
        if self.failed:
            return [self.failed]
        faults = faults_of_end(self.native, self.program.exit, "native") + self.faults_of_count()
        for name, record in self.passes.items():
            faults += [f"{name}: {fault}" for fault in self.faults_of_pass(name, record)]
        return faults

    def faults_of_count(self):
        """Faults of the count of kernels that ran, if they can be counted."""
        if self.counted is None or self.program.dies:
            return []
        faults = faults_of_end(self.counted, self.native.code, "counted")
        if self.count is None:
            faults.append("kernels were not counted")
        elif self.count.dropped:
            faults.append(f"CUPTI lost {self.count.dropped} records: kernels were not counted")
        return faults

    def faults_of_pass(self, name, record):
        """Faults of a recorded run."""
        faults = faults_of_end(record.ended, self.native.code, "")
        if record.ended.out != self.native.out:
            faults.append(f"output differs: {difference(self.native.out, record.ended.out)}")
        if record.ended.left > self.native.left:
            faults.append(f"left {record.ended.left} processes behind")
        if record.ended.hung:
            return faults
        if not record.has_capture and not self.program.dies:
            faults.append("no capture")
        if record.unread:
            return faults + [f"the capture cannot be read: {record.unread}"]
        if record.is_read:
            for instrument in INSTRUMENTS[name]:
                faults += self.faults_of_side(instrument, record.sides.get(instrument))
        return faults

    def faults_of_side(self, instrument, side):
        """Launches that one instrument did not account for."""
        if side is None:
            return [] if self.program.dies else [f"nothing of the {WORDS[instrument]} instrument"]
        faults = []
        if self.program.repeats:
            faults += [] if side.recorded else ["no launch recorded"]
        elif self.count and not self.count.dropped and not self.program.dies:
            faults += faults_of_count(self.count.total, side, bool(self.program.uncounted))
        if side.unmatched and not self.program.varies and not self.program.dies:
            faults.append(f"{side.unmatched} launches match none")
        lost_samples = any(kind in ("sample", "source") for kind, _ in side.losses)
        if instrument == "pc_samples" and self.program.sampled and side.unsampled and not lost_samples:
            faults.append(f"{side.unsampled} launches have neither samples nor a loss")
        lost_times = sum(count for (kind, _), count in side.losses.items() if kind == "activity")
        if instrument == "timeline" and side.untimed > lost_times and not self.program.dies:
            faults.append(f"{side.untimed} launches have neither a time nor a loss")
        return faults


def faults_of_end(ended, code, which):
    """Faults of a run's end: it hung, or has another exit code."""
    prefix = f"{which}: " if which else ""
    if ended.hung:
        return [f"{prefix}hang, ended after {ended.seconds:.0f} s"]
    return [] if ended.code == code else [f"{prefix}exit code {ended.code}, not {code}"]


def faults_of_count(native, side, is_least):
    """Faults of rows and counted losses, against the kernels that ran (at least so many where CUPTI misses some)."""
    accounted = side.recorded + side.lost_launches
    if accounted < native:
        return [f"{native - accounted} of {native} launches neither recorded nor counted"]
    if side.recorded > native and not is_least:
        return [f"{side.recorded} launches recorded, {native} ran"]
    if accounted > native and not is_least:
        return [f"{accounted - native} launches counted beyond the {native} that ran"]
    return []


def difference(expected, found):
    """The first line that differs."""
    left, right = (text.decode(errors="replace").splitlines() for text in (expected, found))
    for number, (one, other) in enumerate(zip(left, right), 1):
        if one != other:
            return f"line {number}: `{one[:80]}` became `{other[:80]}`"
    return f"{len(left)} lines became {len(right)}"
