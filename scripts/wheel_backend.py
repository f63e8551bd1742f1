"""Writes the wheel of stallmap: scripts/wheel [--binaries DIR] [-o DIR]

    cargo build --release --locked -p stallmap-cli
    cargo build --release --locked -p stallmap-record
    cargo build --release --locked -p stallmap-inject
    scripts/wheel                                 target/dist/stallmap-X-py3-none-manylinux_2_Y_x86_64.whl
    scripts/wheel --binaries target/debug         of any profile, such as for a test
    scripts/wheel --analyzer-only                 without the recorder: macOS, Windows, Linux on Arm
    scripts/wheel --platform manylinux_2_28_x86_64   fail if the programs need more
    scripts/wheel --notices target/notices        with NOTICE.txt and sbom.json of scripts/notices

The wheel holds the Python package, both programs (`.data/scripts`), and the library that the recorder injects
(`.data/data/lib/stallmap`, which `stallmap-record` looks into). Libraries of NVIDIA are never in it: the extras `record`
and `record-cu12` require the package that has them. The tag is the oldest glibc with every symbol version that the
programs need. Equal inputs make equal bytes.

`pip install .`, `uv tool install .` and `uvx --from .` call `build_wheel`, which builds the programs first (PEP 517).
"""

import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "stallmap"
# The oldest time that a ZIP archive can hold.
TIME = (1980, 1, 1, 0, 0, 0)
# Libraries that every manylinux system has. Others would have to be in the wheel.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d+|ld-linux-(x86-64|aarch64)\.so\.\d")

METADATA = """\
Metadata-Version: 2.4
Name: stallmap
Version: {version}
Summary: GPU profiler that names the tensor, line and kernel that a CUDA program waits for
License-Expression: Apache-2.0
License-File: LICENSE
{notices}Keywords: cuda,gpu,profiler,pytorch,sql
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Software Development :: Debuggers
Requires-Python: >=3.10
Provides-Extra: record
Requires-Dist: nvidia-cuda-sanitizer-api; extra == "record"
Provides-Extra: record-cu12
Requires-Dist: nvidia-cuda-sanitizer-api-cu12; extra == "record-cu12"
Provides-Extra: arrow
Requires-Dist: pyarrow; extra == "arrow"
Description-Content-Type: text/markdown

"""
WHEEL = """\
Wheel-Version: 1.0
Generator: stallmap scripts/wheel
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """What an installer calls in a clone: builds the programs, and returns the name of the wheel.

    Settings are the options of `scripts/wheel`: `pip install . -C binaries=DIR` takes programs that are built."""
    settings = config_settings or {}
    words = [word for name, value in settings.items() for word in (f"--{name}", value) if word]
    options = arguments(["--output", str(wheel_directory), *words, *([] if has_recorder() else ["--analyzer-only"])])
    if "binaries" not in settings:
        build_programs(options)
    return write(options).name


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("a source archive of stallmap is an archive of its repository")


class UnsupportedOperation(Exception):
    """PEP 517: the backend cannot do this."""


def has_recorder():
    return sys.platform == "linux" and platform.machine().lower() == "x86_64"


def build_programs(options):
    """Builds with cargo into the folder of the programs. A machine that installs once need not wait for smaller programs."""
    cargo = shutil.which("cargo")
    if not cargo:
        sys.exit("error: failed to build stallmap\n\ncaused by: no `cargo` on PATH\n\nhint: install Rust 1.95")
    environment = {"CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16", **os.environ}
    for part in ["stallmap-cli", *([] if options.analyzer_only else ["stallmap-record", "stallmap-inject"])]:
        command = [cargo, "build", "--release", "--locked", "--target-dir", options.binaries.parent, "-p", part]
        if subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr).returncode:
            sys.exit(f"error: failed to build {part}\n\nhint: Rust 1.95 and a C compiler are needed")


def main():
    path = write(arguments())
    print(f"{path}: {path.stat().st_size} bytes")


def write(options):
    """Writes the wheel from built programs, and returns its path."""
    version = read_version()
    programs, library = binaries(options)
    tag = options.platform or default_platform()
    if tag.startswith("manylinux_") and sys.platform == "linux":
        tag = checked(tag, options.platform is not None, [*programs, *library])
    wheel = Wheel(version, tag)
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            wheel.add(f"stallmap/{path.relative_to(PACKAGE).as_posix()}", path.read_bytes())
    for path in programs:
        wheel.add(f"{wheel.data}/scripts/{path.name}", stripped(path, options), 0o755)
    for path in library:
        wheel.add(f"{wheel.data}/data/lib/stallmap/{path.name}", stripped(path, options), 0o755)
    wheel.add(f"{wheel.info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes())
    if options.notices:
        wheel.add(f"{wheel.info}/licenses/NOTICE.txt", (options.notices / "NOTICE.txt").read_bytes())
        wheel.add(f"{wheel.info}/sboms/sbom.cdx.json", (options.notices / "sbom.json").read_bytes())
    notices = "License-File: NOTICE.txt\n" if options.notices else ""
    metadata = METADATA.format(version=version, notices=notices) + (ROOT / "README.md").read_text()
    wheel.add(f"{wheel.info}/METADATA", metadata.encode())
    wheel.add(f"{wheel.info}/WHEEL", WHEEL.format(platform=tag).encode())
    return wheel.write(options.output, options.level)


def arguments(words=None):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], epilog=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target/release", help="folder of the programs")
    parser.add_argument("--analyzer-only", action="store_true", help="leave the recorder out")
    parser.add_argument("--platform", help="platform tag [default: this machine's, with the glibc that is needed]")
    parser.add_argument("--notices", type=pathlib.Path, help="folder that scripts/notices wrote")
    parser.add_argument("--strip", action="store_true", help="remove symbols, as the release profile does")
    parser.add_argument("--level", type=int, default=9, help="compression, 0 to 9 [default: 9]")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "target/dist", help="folder of the wheel")
    return parser.parse_args(words)


def read_version():
    """The workspace's version, which the package must have too."""
    manifest = (ROOT / "Cargo.toml").read_text()
    version = re.search(r'^version = "(.+)"$', manifest, re.MULTILINE)[1]
    package = re.search(r'VERSION = "(.+)"', (PACKAGE / "_version.py").read_text())[1]
    if package != version:
        sys.exit(
            f"scripts/wheel: the package has version {package}, the programs have {version}: python/stallmap/_version.py"
        )
    return version


def binaries(options):
    """The programs, and the recorder's library."""
    windows = (options.platform or default_platform()).startswith("win")
    names = ["stallmap.exe"] if windows else ["stallmap"]
    library = []
    if not options.analyzer_only:
        names.append("stallmap-record")
        library = ["libstallmap_inject.so"]
    for name in [*names, *library]:
        if not (options.binaries / name).is_file():
            sys.exit(f"scripts/wheel: no `{name}` in {options.binaries}: build it, or name its folder with --binaries")
    return [options.binaries / name for name in names], [options.binaries / name for name in library]


def default_platform():
    machine = platform.machine().lower()
    if sys.platform == "linux":
        return f"manylinux_2_17_{machine}"
    if sys.platform == "darwin":
        return f"macosx_11_0_{machine}"
    return "win_amd64"


def checked(tag, is_required, paths):
    """The tag with the glibc that the programs need. Exits where a required tag promises an older one."""
    found = re.fullmatch(r"manylinux_2_(\d+)_(\w+)", tag)
    if not found:
        sys.exit(f"scripts/wheel: `{tag}` is not manylinux_2_N_MACHINE")
    minor, machine = int(found[1]), found[2]
    needs = {path.name: needed_glibc(path) for path in paths}
    needed = max(needs.values())
    if needed > minor and is_required:
        worst = max(needs, key=needs.get)
        sys.exit(
            f"scripts/wheel: {worst} needs glibc 2.{needed}, and {tag} promises 2.{minor}: build on an older system"
        )
    return f"manylinux_2_{max(minor, needed)}_{machine}"


def needed_glibc(path):
    """N of the newest GLIBC_2.N among the symbol versions that an ELF file needs."""
    dynamic = subprocess.run(["objdump", "-p", path], check=True, capture_output=True, text=True).stdout
    foreign = [name for name in re.findall(r"NEEDED\s+(\S+)", dynamic) if not SYSTEM.fullmatch(name)]
    if foreign:
        sys.exit(f"scripts/wheel: {path.name} needs {', '.join(foreign)}, which is not on every system")
    symbols = subprocess.run(["objdump", "-T", path], check=True, capture_output=True, text=True).stdout
    return max((int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", symbols)), default=17)


def stripped(path, options):
    if not options.strip:
        return path.read_bytes()
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["strip", "--strip-unneeded", "-o", file.name, path], check=True)
        return pathlib.Path(file.name).read_bytes()


class Wheel:
    """A wheel's files, until they are written."""

    def __init__(self, version, tag):
        self.info = f"stallmap-{version}.dist-info"
        self.data = f"stallmap-{version}.data"
        self._name = f"stallmap-{version}-py3-none-{tag}.whl"
        self._files = []

    def add(self, name, content, mode=0o644):
        self._files.append((name, content, mode))

    def write(self, folder, level):
        """Writes the archive, and last the list of its files with hashes. Returns its path."""
        record = f"{self.info}/RECORD"
        lines = [f"{name},sha256={digest(content)},{len(content)}" for name, content, _ in self._files]
        self.add(record, "\n".join([*lines, f"{record},,"]).encode() + b"\n")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self._name
        unfinished = path.with_suffix(".unfinished")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
            for name, content, mode in self._files:
                entry = zipfile.ZipInfo(name, TIME)
                entry.external_attr = (0o100000 | mode) << 16
                entry.create_system = 3
                entry.compress_type = zipfile.ZIP_DEFLATED if level else zipfile.ZIP_STORED
                archive.writestr(entry, content, compresslevel=level or None)
        os.replace(unfinished, path)
        return path


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
