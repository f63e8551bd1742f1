"""Tools of the machine: compilers, CUPTI, GPUs, Python modules. Builds the programs and the library that counts."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

from zoo.programs import HERE, SOURCES

ROOT = HERE.parent.parent
PYTHON = os.environ.get("PYTHON", sys.executable)
NVCC = os.environ.get("NVCC", "nvcc")
ARCHITECTURE = os.environ.get("ARCH", "arch=compute_90,code=sm_90")
BUILT = ROOT / "target/zoo/bin"
FOUND = ROOT / "target/zoo/cupti.json"


class Missing(Exception):
    """Something that cannot be built or found, as text."""


def python_modules(names):
    """Those of the modules that the programs' Python has."""
    code = "import importlib.util, sys; print(*(n for n in sys.argv[1:] if importlib.util.find_spec(n)))"
    done = subprocess.run([PYTHON, "-c", code, *names], text=True, capture_output=True)
    return set(done.stdout.split())


def gpus():
    """Number of GPUs that programs see."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip() and device.strip() != "-1"])
    try:
        done = subprocess.run(["nvidia-smi", "-L"], text=True, capture_output=True)
        return sum(line.startswith("GPU ") for line in done.stdout.splitlines())
    except FileNotFoundError:
        return len([path for path in pathlib.Path("/dev").glob("nvidia[0-9]*")])


def newer(path, sources):
    """True if `path` was made after all of `sources`."""
    return path.exists() and path.stat().st_mtime > max(source.stat().st_mtime for source in sources)


def make(command, path, sources):
    """Runs a compiler unless its result is there."""
    if newer(path, sources):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(command, text=True, capture_output=True)
    except OSError as error:
        raise Missing(f"cannot run {command[0]}: {error}") from error
    if done.returncode != 0:
        raise Missing(f"{path.name} cannot be built: {done.stderr[-2000:]}")
    return path


def build_program(source):
    """Builds a CUDA program."""
    file = HERE / "cuda" / f"{source}.cu"
    flags = ["-std=c++17", "-O2", "-lineinfo", "-gencode", ARCHITECTURE, *SOURCES[source]]
    command = [NVCC, *flags, *driver_folders(), "-o", str(BUILT / source), str(file)]
    return make(command, BUILT / source, [file, file.parent / "zoo.h"])


def driver_folders():
    """Folder of the driver for a linker: nvcc looks only in its own toolkit's usual places."""
    places = ["lib64/stubs", "lib/stubs", "targets/x86_64-linux/lib/stubs"]
    folders = [root / place for root in toolkits() for place in places]
    folders += [pathlib.Path("/usr/local/nvidia/lib64"), pathlib.Path("/usr/lib/x86_64-linux-gnu")]
    return [f"-L{folder}" for folder in folders if (folder / "libcuda.so").exists()]


def build_counter():
    """Builds the library that counts kernels. Returns its path and CUPTI's."""
    cupti = find_cupti()
    file = HERE / "count_kernels.c"
    includes = [f"-I{folder}" for folder in cupti["includes"]]
    path = BUILT / "count_kernels.so"
    flags = ["-std=gnu11", "-O2", "-shared", "-fPIC", *includes]
    make(["gcc", *flags, "-o", str(path), str(file), "-ldl", "-lpthread"], path, [file])
    return path, cupti["library"]


def build(sources):
    """Builds the counter and these programs at once. Returns failures by name (`counter` for the counter)."""
    failed = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 4) as pool:
        works = {source: pool.submit(build_program, source) for source in sources}
        works["counter"] = pool.submit(build_counter)
        for name, work in works.items():
            try:
                work.result()
            except Missing as error:
                failed[name] = str(error)
    return failed


def find_cupti():
    """Finds CUPTI's header and library, once."""
    if FOUND.exists():
        found = json.loads(FOUND.read_text())
        if all(pathlib.Path(path).exists() for path in [found["library"], *found["includes"]]):
            return found
    found = search_cupti()
    FOUND.parent.mkdir(parents=True, exist_ok=True)
    FOUND.write_text(json.dumps(found))
    return found


def search_cupti():
    """CUPTI of nvcc's toolkit, else of Python's packages, else of the machine."""
    roots = toolkits() + package_folders()
    headers = [folder for root in roots for folder in header_folders(root)]
    libraries = [path for root in roots for path in library_files(root)]
    if not headers:
        headers = [path.parent for path in everywhere("cupti.h")]
    if not libraries:
        libraries = everywhere("libcupti.so*")
    if not headers or not libraries:
        raise Missing("CUPTI was not found: no cupti.h or no libcupti.so")
    # Its header includes cuda.h and crt/host_defines.h, which may be elsewhere.
    others = [root / "include" for root in roots]
    return {
        "includes": [str(folder) for folder in dict.fromkeys([headers[0], *others]) if folder.is_dir()],
        "library": str(libraries[0]),
    }


def toolkits():
    """Folders of CUDA toolkits, that of nvcc first."""
    nvcc = shutil.which(NVCC)
    named = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    roots = [pathlib.Path(nvcc).resolve().parent.parent] if nvcc else []
    roots += [pathlib.Path(name) for name in named if name] + [pathlib.Path("/usr/local/cuda")]
    return [root for root in roots if root.is_dir()]


def package_folders():
    """Folders of NVIDIA's Python packages."""
    code = "import nvidia; print(*nvidia.__path__, sep='\\n')"
    done = subprocess.run([PYTHON, "-c", code], text=True, capture_output=True)
    parents = [pathlib.Path(line) for line in done.stdout.splitlines()]
    return [folder for parent in parents for folder in sorted(parent.glob("*")) if (folder / "include").is_dir()]


def header_folders(root):
    """Folders below a toolkit or package that hold CUPTI's header."""
    places = ["extras/CUPTI/include", "include", "targets/x86_64-linux/include"]
    return [root / place for place in places if (root / place / "cupti.h").exists()]


def library_files(root):
    """CUPTI's libraries below a toolkit or package."""
    places = ["extras/CUPTI/lib64", "lib64", "lib", "targets/x86_64-linux/lib"]
    return [path for place in places for path in sorted((root / place).glob("libcupti.so*"))]


def everywhere(name):
    """Files of this name on the machine. Slow."""
    command = ["find", "/", "-name", name, "-not", "-path", "/proc/*"]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return [pathlib.Path(line) for line in sorted(done.stdout.splitlines())]
