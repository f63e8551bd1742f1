"""Results for people and programs: a Markdown table, and one JSON object a program."""

from zoo.result import INSTRUMENTS

ERR_BYTES = 6000


def table(results, passes):
    """All results as a Markdown table."""
    heads = ["program", "native launches", *(f"recorded ({name})" for name in passes), "not recorded, counted"]
    heads += [f"exit native/{'/'.join(name[:3] for name in passes)}", "same output", "native s"]
    heads += [*(f"{name} s" for name in passes), "verdict"]
    rows = [row(result, passes) for result in results]
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def summary(results):
    """Number of programs that are right."""
    verdicts = [result.verdict for result in results]
    skipped = sum(verdict.startswith("skipped") for verdict in verdicts)
    good = verdicts.count("ok")
    return f"{len(verdicts)} programs: {good} ok, {len(verdicts) - good - skipped} not, {skipped} skipped"


def row(result, passes):
    """A result's cells."""
    records = [result.passes.get(name) for name in passes]
    ends = [result.native, *(record and record.ended for record in records)]
    return [
        result.program.name,
        native_launches(result),
        *(recorded(record, name) for record, name in zip(records, passes)),
        losses(result, passes) or "-",
        "/".join(code(end) for end in ends),
        same_output(result),
        *(seconds(end) for end in ends),
        shortened(result.verdict.replace("\n", " ")),
    ]


def shortened(text, limit=400):
    return text if len(text) <= limit else text[:limit] + " ..."


def native_launches(result):
    """CUPTI's count, with `>=` if it may not see all."""
    if result.count is None:
        return "-"
    return (">= " if result.program.uncounted else "") + f"{result.count.total:,}"


def recorded(record, name):
    """Recorded launches by instrument, and those that match none."""
    if record is None or not record.sides:
        return "-"
    sides = [record.sides.get(instrument) for instrument in INSTRUMENTS[name]]
    text = " + ".join(f"{side.recorded:,}" if side else "-" for side in sides)
    unmatched = sum(side.unmatched for side in sides if side)
    return text + (f", {unmatched:,} match none" if unmatched else "")


def losses(result, passes):
    """Counted losses of launches and sources, and the number of other kinds."""
    texts = []
    for name in passes:
        record = result.passes.get(name)
        for instrument, side in (record.sides if record else {}).items():
            shown = {key: count for key, count in side.losses.items() if key[0] in ("launch", "source")}
            words = [f"{count:,} {kind}: {reason}" for (kind, reason), count in sorted(shown.items())]
            others = len(side.losses) - len(shown)
            words += [f"{others} other kinds"] if others else []
            if words:
                texts.append(f"{name if name != 'both' else instrument}: {', '.join(words)}")
    return " / ".join(texts)


def code(ended):
    """An exit code, `hang`, or `-` where there was no run."""
    return "-" if ended is None else "hang" if ended.hung else str(ended.code)


def seconds(ended):
    return "-" if ended is None else f"{ended.seconds:.1f}"


def same_output(result):
    """`yes`, or the passes whose output is another."""
    if result.native is None or not result.passes:
        return "-"
    others = [name for name, record in result.passes.items() if record.ended.out != result.native.out]
    return f"no ({', '.join(others)})" if others else "yes"


def facts(result):
    """Everything about a program, for JSON."""
    is_good = result.verdict == "ok"
    return {
        "program": result.program.name,
        "verdict": result.verdict,
        "expected_exit": result.program.exit,
        "native": of_end(result.native, is_good),
        "counted": of_end(result.counted, is_good),
        "count": vars(result.count) if result.count else None,
        "passes": {name: of_pass(record, result, is_good) for name, record in result.passes.items()},
    }


def of_end(ended, is_good):
    """A run's end. Its output only where something went wrong."""
    if ended is None:
        return None
    found = {"code": ended.code, "seconds": round(ended.seconds, 3), "hang": ended.hung, "left": ended.left}
    if not is_good:
        found["stdout"] = ended.out.decode(errors="replace")[-ERR_BYTES:]
        found["stderr"] = ended.err[-ERR_BYTES:]
    if ended.hung:
        found["threads"] = ended.threads[: 4 * ERR_BYTES]
    return found


def of_pass(record, result, is_good):
    """A recorded run."""
    return {
        **of_end(record.ended, is_good),
        "capture": record.has_capture,
        "unread": record.unread,
        "sides": {instrument: of_side(side, result.count) for instrument, side in record.sides.items()},
    }


def of_side(side, count):
    """One instrument's part of a capture, with the kernels that it did not record as often as they ran."""
    found = {key: value for key, value in vars(side).items() if key not in ("kernels", "losses")}
    found["losses"] = {f"{kind}: {reason}": number for (kind, reason), number in sorted(side.losses.items())}
    if count:
        missing = {name: number - side.kernels.get(name, 0) for name, number in count.names.items()}
        found["missing"] = {name: number for name, number in missing.items() if number > 0}
        found["unexpected"] = {
            name: number - count.names.get(name, 0)
            for name, number in side.kernels.items()
            if number > count.names.get(name, 0)
        }
    return found
