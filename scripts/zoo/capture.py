"""Launches in a capture, by instrument: rows, and counted losses."""

import collections
import dataclasses
import io
import json
import zipfile

# Reasons of rows of kind `launch` that stand for no kernel: it never ran.
NO_KERNEL = {"refused by the driver"}
# Single launches are listed up to so many.
FEW = 16


@dataclasses.dataclass
class Side:
    """One instrument's part of a capture, all processes together."""

    rows: int = 0
    recorded: int = 0
    unmatched: int = 0
    samples: int = 0
    lost_samples: int = 0
    # Launches that were recorded, less those with a measured time.
    untimed: int = 0
    # Lane accesses: counted ones, or those with rows. A launch that refers to another one has that one's.
    accesses: int = 0
    # Launches whose accesses are another launch's. They are recorded.
    referring: int = 0
    kernels: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    losses: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    details: dict = dataclasses.field(default_factory=dict)
    samples_of_launches: list = dataclasses.field(default_factory=list)
    unsampled: int = 0

    @property
    def lost_launches(self):
        """Kernels that ran and are counted as not recorded."""
        lost = (count for (kind, reason), count in self.losses.items() if kind == "launch" and reason not in NO_KERNEL)
        return sum(lost)


def is_readable():
    """True if this Python can read captures."""
    try:
        import pyarrow.parquet  # noqa: F401  # asked for, not used here
    except ImportError:
        return False
    return True


def read(path):
    """The capture's sides by instrument: `accesses`, `pc_samples`, `timeline`."""
    with zipfile.ZipFile(path) as archive:
        instruments = dict(rows_of(archive, "run", "run_id", "instrument"))
        sides = {instrument: Side() for instrument in instruments.values()}
        names = kernel_names(archive)
        references = rows_of(archive, "launch", "kernel_id", "accesses_of")
        models = {kernel_id: model for kernel_id, model in references if model is not None}
        counted = collections.Counter()
        for kernel_id, lanes in rows_of(archive, "access_summary", "kernel_id", "lane_count"):
            counted[kernel_id] += lanes
        columns = ["run_id", "kernel_id", "matched", "recorded", "sample_count", "lost_sample_count", "lane_access_count"]
        launches = [(instruments[row[0]], *row[1:]) for row in rows_of(archive, "launch_run", *columns)]
        of_rows = {row[1]: row[-1] or 0 for row in launches if row[0] == "accesses"}
        for instrument, kernel_id, matched, recorded, samples, lost_samples, _ in launches:
            side, model = sides[instrument], models.get(kernel_id, kernel_id)
            if instrument == "accesses":
                side.accesses += counted.get(model, of_rows.get(model, 0))
                side.referring += kernel_id in models
                recorded = recorded or kernel_id in models
            add_launch(side, (kernel_id, matched, recorded, samples, lost_samples), names)
        timed = {row for row in rows_of(archive, "gpu_activity", "run_id", "kernel_id") if row[1] is not None}
        for instrument, side in sides.items():
            side.untimed = side.recorded - sum(instruments[run] == instrument for run, _ in timed)
        for run, kind, reason, count, detail in rows_of(
            archive, "loss", "run_id", "kind", "reason", "lost_count", "detail"
        ):
            side = sides[instruments[run]]
            side.losses[kind, reason] += count
            if detail:
                side.details.setdefault(f"{kind}: {reason}", detail[:300])
    return sides


def add_launch(side, row, names):
    """Adds a row of `launch_run`."""
    kernel_id, matched, recorded, samples, lost_samples = row
    side.rows += 1
    side.recorded += recorded
    side.unmatched += matched == "unmatched"
    side.samples += samples or 0
    side.lost_samples += lost_samples or 0
    side.unsampled += recorded and not samples
    if recorded:
        side.kernels[names.get(kernel_id, "?")] += 1
    if len(side.samples_of_launches) < FEW:
        side.samples_of_launches.append(samples)


def kernel_names(archive):
    """The mangled name of every launch's kernel, by kernel_id."""
    functions = dict(rows_of(archive, "function", "function_id", "name"))
    launches = rows_of(archive, "launch", "kernel_id", "function_id")
    return {kernel_id: functions.get(function_id, "?") for kernel_id, function_id in launches}


def rows_of(archive, table, *columns):
    """Rows of a table, as tuples of these columns. None where the table has no file."""
    from pyarrow import parquet

    try:
        data = archive.read(f"tables/{table}.parquet")
    except KeyError:
        return iter(())
    read = parquet.read_table(io.BytesIO(data), columns=list(columns))
    return zip(*(read.column(column).to_pylist() for column in columns))


def rows(path):
    """Rows of all tables of a capture."""
    with zipfile.ZipFile(path) as archive:
        return sum(table["rows"] for table in json.loads(archive.read("manifest.json"))["tables"])
