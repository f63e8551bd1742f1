"""The committed sample: instructions of stallmap's kernels with nvdisasm's output."""

import re
import subprocess

import oracle
import tools

CODE = tools.ROOT / "schema/sass/testdata/decode"
# ptxas and PTX version by architecture.
TARGETS = {
    "sm_70": (tools.OLD, "8.7"),
    "sm_75": (tools.PTXAS, "9.0"),
    "sm_80": (tools.PTXAS, "9.0"),
    "sm_86": (tools.PTXAS, "9.0"),
    "sm_89": (tools.PTXAS, "9.0"),
    "sm_90a": (tools.PTXAS, "9.0"),
    "sm_100a": (tools.PTXAS, "9.0"),
    "sm_110a": (tools.PTXAS, "9.0"),
    "sm_120a": (tools.PTXAS, "9.0"),
}
# Instructions per opcode and modifiers.
PER_OPCODE = 2
# Registers by letter: PTX type, how many, highest that is loaded, type of loads and stores.
REGISTERS = {
    "r": ("b32", 96, 15, "b32"),
    "d": ("b64", 64, 15, "b64"),
    "f": ("f32", 96, 15, "f32"),
    "g": ("f64", 32, 15, "f64"),
    "h": ("b16", 32, 15, "b16"),
    "p": ("pred", 16, 3, "pred"),
    "q": ("b128", 4, 0, "b128"),
}


def update(folder):
    """Writes one file an architecture."""
    for target, (wheel, version) in TARGETS.items():
        rows = {}
        cubin = build(folder, target, wheel, version)
        for section in oracle.sections(folder, cubin):
            keep(rows, section, tools.architecture(cubin))
        write(target, rows)


def build(folder, target, wheel, version):
    """A cubin of the pieces that the architecture accepts."""
    ptxas, into = tools.tool(folder, wheel, "ptxas"), folder / "sample" / target
    into.mkdir(parents=True, exist_ok=True)
    accepted = []
    for place, piece in enumerate(pieces()):
        code = kernel(piece, f"piece_{place}")
        if assemble(ptxas, target, header(target, version) + code, into / str(place)):
            accepted.append(code)
    everything = header(target, version) + "\n".join(accepted)
    if not assemble(ptxas, target, everything, into / "all"):
        raise SystemExit(f"error: ptxas refuses {into / 'all.ptx'}")
    print(f"{target}: {len(accepted)} pieces of {place + 1}", flush=True)
    return into / "all.cubin"


def assemble(ptxas, target, source, path):
    """True if the assembler accepts it. Otherwise its messages are next to it."""
    path.with_suffix(".ptx").write_text(source)
    command = [ptxas, f"-arch={target}", path.with_suffix(".ptx"), "-o", path.with_suffix(".cubin")]
    done = subprocess.run(command, capture_output=True, text=True)
    path.with_suffix(".log").write_text(done.stdout + done.stderr)
    return done.returncode == 0


def pieces():
    paragraphs = (CODE / "snippets.ptx").read_text().split("\n\n")
    return [paragraph for paragraph in paragraphs if not paragraph.startswith("//")]


def header(target, version):
    return f".version {version}\n.target {target}\n.address_size 64\n.visible .const .align 16 .b8 bank[256];\n"


def kernel(piece, name):
    """A kernel around a piece of code: loads its inputs, stores its outputs."""
    body = re.sub(r"\{([a-z])(\d+)\.\.\1(\d+)\}", expand, piece)
    names = sorted(set(re.findall(r"%([rdfghpq])(\d+)\b", body)), key=lambda name: (name[0], int(name[1])))
    loads = [load(letter, int(index)) for letter, index in names if int(index) <= REGISTERS[letter][2]]
    stores = [store(letter, int(index)) for letter, index in names if int(index) > REGISTERS[letter][2]]
    declared = [f".reg .{kind} %{letter}<{count}>;" for letter, (kind, count, *_) in REGISTERS.items()]
    return "\n".join(
        [
            f".visible .entry {name}(.param .u64 in, .param .u32 number, .param .u64 wide) {{",
            *declared,
            ".reg .b64 %a<4>; .reg .b32 %s<4>; .reg .b32 %u<4>; .reg .b64 %w<4>; .reg .b32 %t<4>;",
            ".shared .align 128 .b8 pool[4096];",
            "ld.param.u64 %a1, [in]; cvta.to.global.u64 %a1, %a1;",
            "ld.param.u32 %u0, [number]; ld.param.u64 %w0, [wide];",
            "mov.u32 %t0, %tid.x; mad.wide.u32 %a0, %t0, 4096, %a1;",
            "mov.u32 %s0, pool; mad.lo.u32 %s0, %t0, 128, %s0;",
            *loads,
            body,
            *stores,
            "ret; }",
            "",
        ]
    )


def expand(found):
    letter, first, last = found[1], int(found[2]), int(found[3])
    return "{" + ", ".join(f"%{letter}{index}" for index in range(first, last + 1)) + "}"


def load(letter, index):
    place = 1024 + 16 * index + 256 * "rdfghpq".index(letter)
    if letter == "p":
        return f"ld.global.u32 %t1, [%a0+{place}]; setp.ne.u32 %p{index}, %t1, 0;"
    return f"ld.global.{REGISTERS[letter][3]} %{letter}{index}, [%a0+{place}];"


def store(letter, index):
    place = 4096 + 16 * index + 2048 * "rdfghpq".index(letter)
    if letter == "p":
        return f"selp.u32 %t1, 1, 0, %p{index}; st.global.u32 [%a0+{place}], %t1;"
    return f"st.global.{REGISTERS[letter][3]} [%a0+{place}], %{letter}{index};"


def keep(rows, section, sm):
    """A few instructions of each opcode and modifiers, except those that the table of registers gets wrong."""
    for row in section.rows:
        reason, ignored = oracle.faults(sm, row, set())
        wide = {register for register in row.writes | row.reads if register[0] == "UR" and register[1] >= 60}
        if reason or ignored or wide:
            continue
        opcode = (row.word & 0xFFF) | (row.word >> 91 & 1) << 12
        chosen = rows.setdefault((opcode, oracle.unguarded(row.text).split(" ")[0]), {})
        if len(chosen) < PER_OPCODE:
            chosen[row.word] = row


def write(target, rows):
    path = CODE / f"{target.rstrip('a')}.txt"
    lines = ["# Bits, name, guard, registers written, registers read, text: nvdisasm's output for stallmap's kernels."]
    lines.append("# Made by scripts/check-decoder --update-sample.")
    for _, chosen in sorted(rows.items()):
        for row in chosen.values():
            text = re.sub(r"\s+", " ", row.text)
            fields = [f"{row.word:032x}", oracle.mnemonic(row.text), oracle.guard(row.text)]
            lines.append("\t".join([*fields, listed(row.writes), listed(row.reads), text]))
    path.write_text("\n".join(lines) + "\n")
    print(f"{path.name}: {len(lines) - 2} instructions", flush=True)


def listed(registers):
    order = {"R": 0, "UR": 1, "P": 2, "UP": 3}
    return " ".join(f"{file}{index}" for file, index in sorted(registers, key=lambda one: (order[one[0]], one[1]))) or "-"
