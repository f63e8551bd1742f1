"""Tools and libraries from wheels, and the decoder's own listing."""

import pathlib
import re
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# What is fetched: name, version wanted, files of the wheel.
NVDISASM = ("nvidia-cuda-nvdisasm", "", "bin/nvdisasm")
CUOBJDUMP = ("nvidia-cuda-cuobjdump", "", "bin/cuobjdump")
PTXAS = ("nvidia-cuda-nvcc", "", "bin/ptxas")
# The last release that knows sm_70, with nvdisasm for the older kind of cubins.
OLD = ("triton", "==3.4.0", "nvidia/bin/")
LIBRARIES = [
    ("bitsandbytes", "", "libbitsandbytes_cuda128.so"),
    ("bitsandbytes", "", "libbitsandbytes_cuda130.so"),
    ("nvidia-nccl-cu13", "", "libnccl.so.2"),
]
LARGE = [
    ("sgl-kernel", "==0.3.21", "flashmla_ops.abi3.so"),
    ("sgl-kernel", "==0.3.21", "sm100/common_ops.abi3.so"),
]


def fetch(folder, wheel):
    """The files of a wheel whose path holds the part. They are fetched and unpacked once."""
    name, version, part = wheel
    unpacked = folder / name
    if not unpacked.exists():
        downloads = folder / "wheels" / name
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", downloads, name + version]
        if version:
            command += ["--python-version", "3.12", "--only-binary", ":all:"]
        subprocess.run(command, check=True)
        for archive in downloads.glob("*.whl"):
            zipfile.ZipFile(archive).extractall(unpacked)
    found = sorted(path for path in unpacked.rglob("*") if path.is_file() and part in path.as_posix())
    if not found:
        raise SystemExit(f"error: no `{part}` in the wheel of {name}\n\nhint: remove {unpacked} and try again")
    return found


def tool(folder, wheel, name):
    """The path of a tool in a wheel."""
    path = next(path for path in fetch(folder, wheel) if path.name == name)
    path.chmod(0o755)
    return path


def libraries(folder, large):
    """Cubins of the libraries, each library's in a folder of its own, smallest first."""
    cubins = []
    for wheel in LIBRARIES + (LARGE if large else []):
        for library in fetch(folder, wheel):
            into = folder / "cubins" / f"{wheel[0]}-{library.parent.name}-{library.name}"
            if not into.exists():
                extract(folder, library, into)
            cubins += sorted(into.glob("*.cubin"), key=lambda path: (path.stat().st_size, path.name))
    return cubins


def extract(folder, library, into):
    """Unpacks all cubins of a library."""
    partial = into.with_suffix(".partial")
    partial.mkdir(parents=True, exist_ok=True)
    command = [tool(folder, CUOBJDUMP, "cuobjdump"), "-xelf", "all", library.resolve()]
    subprocess.run(command, cwd=partial, check=True, stdout=subprocess.DEVNULL)
    partial.rename(into)


def nvdisasm(folder, cubin):
    """The nvdisasm for a cubin: 13.x reads registers only from the newer kind, which its header marks."""
    with open(cubin, "rb") as file:
        version = file.read(9)[8]
    return tool(folder, NVDISASM if version >= 8 else OLD, "nvdisasm")


def architecture(cubin):
    """The number of a cubin's architecture."""
    with open(cubin, "rb") as file:
        header = file.read(52)
    flags = int.from_bytes(header[48:52], "little")
    return flags >> 8 & 0xFF if header[8] >= 8 else flags & 0xFF


def listing():
    """Builds the decoder's example. Returns its path."""
    command = ["cargo", "build", "--release", "--quiet", "-p", "stallmap-sass", "--example", "decode_listing"]
    subprocess.run(command, cwd=ROOT, check=True)
    return ROOT / "target/release/examples/decode_listing"


def decode(program, words):
    """The fields that the decoder reads from (architecture, bits) pairs."""
    text = "".join(f"{sm} {word:032x}\n" for sm, word in words)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def registers(text):
    """A set of (file, index) from `R2-R3 UR4 P0`."""
    found = set()
    for run in text.split():
        if run == "-":
            continue
        first, _, last = run.partition("-")
        file = re.match("[A-Z]+", first).group()
        low = int(first[len(file) :])
        high = int(last[len(file) :]) if last else low
        found.update((file, index) for index in range(low, high + 1))
    return found
