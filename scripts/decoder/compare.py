"""The decoder against nvdisasm: names, guards, registers, branch targets, and control words by their use."""

import collections
import re

import oracle
import tools

# Fields of a line of decode_listing.
NAME, CLASS, GUARD, WRITES, READS, FLOW, CONTROL, FULL_NAME = 1, 2, 3, 4, 5, 7, 8, 9
# Cubins of an architecture that are looked at.
CUBINS = 16
TARGETED = re.compile(r"\b(BRA|BSSY|CALL)\b.*`\((\.L_\w+)\)")


class Totals:
    """Results for an architecture."""

    def __init__(self):
        self.compared = self.exact = self.partly = self.branches = self.named = 0
        self.names = collections.Counter()
        self.left_out = collections.Counter()
        self.disagreements = collections.defaultdict(list)
        self.barriers = collections.Counter()


def run(cubins, folder, limit):
    """Totals by architecture, from up to so many instructions of each, taken evenly from its cubins."""
    program = tools.listing()
    by_architecture = collections.defaultdict(list)
    for cubin in cubins:
        if tools.architecture(cubin) >= 70:
            by_architecture[tools.architecture(cubin)].append(cubin)
    totals = {}
    for sm, group in sorted(by_architecture.items()):
        totals[sm] = Totals()
        group = spread(group)
        for place, cubin in enumerate(group):
            budget = (limit - totals[sm].compared) // (len(group) - place)
            one_cubin(totals[sm], sm, cubin, folder, program, budget)
        print(f"sm_{sm}: {totals[sm].compared} compared", flush=True)
    return totals


def spread(cubins):
    """Some of the cubins, evenly: large ones take nvdisasm long before it prints the first line."""
    step = max(1, len(cubins) // CUBINS)
    return cubins[step - 1 :: step]


def one_cubin(totals, sm, cubin, folder, program, budget):
    before = totals.compared
    for section in oracle.sections(folder, cubin):
        if totals.compared - before >= budget:
            return
        fields = tools.decode(program, [(sm, row.word) for row in section.rows])
        for row, ours in zip(section.rows, fields):
            one_row(totals, sm, row, ours)
        targets(totals, section, fields)
        barriers(totals, section, fields)


def one_row(totals, sm, row, ours):
    name = oracle.mnemonic(row.text)
    writes, reads = tools.registers(ours[WRITES]), tools.registers(ours[READS])
    reason, ignored = oracle.faults(sm, row, writes)
    if reason:
        totals.left_out[reason] += 1
        return
    if ignored:
        totals.left_out[f"registers of {name} that the table omits or marks twice"] += 1
    totals.compared += 1
    compared = lambda registers: {one for one in registers if is_compared(sm, one) and one not in ignored}
    totals.partly += any(one[0] == "UR" and not is_compared(sm, one) for one in writes | reads)
    full_name = oracle.full_name(row.text)
    if ours[FULL_NAME] == full_name:
        totals.named += 1
    else:
        totals.names[f"{ours[FULL_NAME]}, not {full_name}"] += 1
    wrong = []
    if ours[NAME] != name:
        wrong.append(f"name {ours[NAME]}")
    if ours[GUARD] != oracle.guard(row.text):
        wrong.append(f"guard {ours[GUARD]}")
    if compared(writes) != compared(row.writes):
        wrong.append(f"writes {shown(compared(writes))}, not {shown(compared(row.writes))}")
    if compared(reads) != compared(row.reads):
        wrong.append(f"reads {shown(compared(reads))}, not {shown(compared(row.reads))}")
    if wrong:
        totals.disagreements[name].append((row, "; ".join(wrong)))
    else:
        totals.exact += 1


def is_compared(sm, register):
    """B registers are not in nvdisasm's table, nor are UR63 and above of the architectures that have them."""
    file, index = register
    return file != "B" and not (file == "UR" and sm >= 100 and index >= 63)


def shown(registers):
    return " ".join(f"{file}{index}" for file, index in sorted(registers)) or "none"


def targets(totals, section, fields):
    """Branches go where nvdisasm's labels are."""
    for row, ours in zip(section.rows, fields):
        found = TARGETED.search(row.text)
        kind, _, rest = ours[FLOW].partition(",")
        if not found or found[1] == "BSSY" or found[2] not in section.labels:
            continue
        totals.branches += 1
        displacement = rest.partition(",")[0]
        expected = str(section.labels[found[2]] - row.offset - 16)
        if kind not in ("branch", "call") or displacement != expected:
            totals.disagreements["branch targets"].append((row, f"{ours[FLOW]}, not {expected}"))


def barriers(totals, section, fields):
    """Checks control words by a compiler's obligations, because no tool prints them."""
    set_here, starts = set(), set(section.labels.values())
    for _, write, read, _ in (ours[CONTROL].split() for ours in fields):
        set_here.update({write, read} - {"-"})
    pending = {}
    for row, ours in zip(section.rows, fields):
        _, write, read, mask = ours[CONTROL].split()
        waited = {str(index) for index in range(6) if int(mask, 16) >> index & 1} | counted(row, ours)
        totals.barriers["barriers named"] += len({write, read} - {"-"})
        totals.barriers["barrier 6 named"] += (write == "6") + (read == "6")
        totals.barriers["waits"] += len(waited)
        totals.barriers["waits without a setter in the section"] += len(waited - set_here)
        if row.offset in starts:
            pending = {}
        cover(totals, row, ours, pending, waited)
        if ours[FLOW] != "next":
            pending = {}
        if write != "-":
            # The predicate of a generic atomic is there before its barrier is released.
            results = [one for one in tools.registers(ours[WRITES]) if ours[NAME] != "ATOM" or one[0] != "P"]
            pending.update((register, write) for register in results)


def counted(row, ours):
    """Barriers that DEPBAR waits for: those down to a count are taken as waited for, whatever the count."""
    if ours[NAME] != "DEPBAR":
        return set()
    empty = {str(index) for index in range(6) if row.word >> 32 + index & 1}
    return empty | ({str(row.word >> 44 & 7)} if row.word >> 47 & 1 else set())


def cover(totals, row, ours, pending, waited):
    """In straight code, a reader of a register waits for the barrier that guards it, or an earlier instruction did."""
    for register in [register for register, barrier in pending.items() if barrier in waited]:
        del pending[register]
    late = tools.registers(ours[READS]) & set(pending)
    totals.barriers["reads behind a barrier"] += bool(waited)
    if late:
        totals.barriers["reads too early"] += 1
        totals.disagreements["early reads"].append((row, f"{shown(late)} before the wait"))
    for register in tools.registers(ours[WRITES]):
        pending.pop(register, None)


def report(totals):
    """Prints the result. The exit code is 1 below 99.95 %."""
    print("\narch\tcompared\texact\tshare\twith modifiers\tbranches\tleft out\tpartly")
    all_compared = all_exact = 0
    for sm, found in totals.items():
        share = found.exact / max(found.compared, 1)
        left_out = sum(count for reason, count in found.left_out.items() if reason.startswith("CALL"))
        named = found.named / max(found.compared, 1)
        counts = f"{found.branches}\t{left_out}\t{found.partly}"
        print(f"sm_{sm}\t{found.compared}\t{found.exact}\t{share:.5%}\t{named:.3%}\t{counts}")
        all_compared += found.compared
        all_exact += found.exact
    print(f"all\t{all_compared}\t{all_exact}\t{all_exact / max(all_compared, 1):.5%}")
    for sm, found in totals.items():
        print(f"\nsm_{sm}: " + ", ".join(f"{name} {count}" for name, count in sorted(found.barriers.items())))
        for reason, count in sorted(found.left_out.items()):
            print(f"  left out: {count} {reason}")
        for name, count in found.names.most_common(12):
            print(f"  name: {count} {name}")
        for name, rows in sorted(found.disagreements.items(), key=lambda entry: -len(entry[1])):
            print(f"  {name}: {len(rows)} disagree")
            for row, wrong in rows[:3]:
                print(f"    {row.word:032x} {row.text[:120]} | {wrong[:300]}")
    return 0 if all_exact >= 0.9995 * all_compared else 1
