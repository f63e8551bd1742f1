"""The programs of the zoo: purpose, build, start, and expected end of each."""

import dataclasses
import pathlib

HERE = pathlib.Path(__file__).resolve().parent

# Flags of nvcc in addition to those that all sources have.
SOURCES = {
    "graphs": (),
    "streams": (),
    "launches": (),
    "deaths": (),
    "exhaustion": (),
    "memory": ("-lcuda",),
    "modules": ("-lcuda",),
    "device_launches": ("-rdc=true", "-lcudadevrt"),
}


@dataclasses.dataclass(frozen=True)
class Program:
    """One program.

    In `command` and `env`, {python}, {bin}, {here} and {cache} stand for the Python, the folder of built programs, the
    folder of Python programs, and a folder of the program's own that all its runs share.
    """

    name: str
    about: str
    command: tuple
    source: str | None = None  # of SOURCES
    modules: tuple = ()  # Python modules that it needs
    gpus: int = 1
    exit: int = 0  # its exit code, 128 + N after signal N
    dies: bool = False  # its last launches may be lost with it, and the count of those that ran is
    uncounted: str = ""  # why more kernels may run than CUPTI reports
    repeats: str = ""  # why one launch may be several kernels
    serial: tuple = ()  # options that passes need which run kernels one at a time, see docs/src/guide/volume.md
    varies: str = ""  # why launches of two runs need not be equal
    prepared: bool = False  # one more run comes first, and fills caches
    sampled: bool = False  # no launch is so short that it may have no sample
    timed: bool = False  # depends on time
    env: dict = dataclasses.field(default_factory=dict)

    @property
    def alone(self):
        """No other program runs at the same time: it depends on time, or samples the GPU that all use."""
        return self.timed or self.gpus > 1


def cuda(source, name, about, *arguments, **facts):
    """A mode of a CUDA program. The mode has the program's name."""
    return Program(name, about, ("{bin}/" + source, name, *arguments), source, **facts)


def python(name, about, *arguments, file=None, **facts):
    """A Python program."""
    return Program(name, about, ("{python}", "{here}/" + (file or name) + ".py", *arguments), **facts)


# Compiled once, in the run that prepares: later runs find the same kernels, and start faster.
COMPILED = {"TORCHINDUCTOR_CACHE_DIR": "{cache}/inductor", "TRITON_CACHE_DIR": "{cache}/triton"}

# Not three quarters of the GPU's memory at once: other programs run at the same time.
JAX = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "JAX_COMPILATION_CACHE_DIR": "{cache}/jax",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}

BY_DEVICE = "CUPTI may not report what the device decides or launches"
IN_BODIES = "a kernel in the body of a conditional node is one launch, however often it runs"

PROGRAMS = (
    cuda("graphs", "stream_graph", "a captured graph, updated, with other parameters"),
    cuda("graphs", "api_graph", "a graph built by nodes: memset, child graph, copy, disabled node"),
    cuda("device_launches", "conditional_graph", "graph with `if` and `while`", repeats=IN_BODIES),
    cuda("device_launches", "device_graph", "graphs launched by a kernel", uncounted=BY_DEVICE),
    cuda("device_launches", "dynamic", "kernels launched by kernels", uncounted=BY_DEVICE),
    cuda("streams", "threads_streams", "two host threads, eight streams"),
    cuda(
        "streams",
        "flag_wait",
        "a kernel that waits for one launched later on another stream",
        timed=True,
        serial=("--exclude", "wait_for|set"),
    ),
    cuda("streams", "capture_global", "launches of one thread while another captures in the strict mode"),
    cuda("streams", "capture_thread_local", "the same in the mode that watches one thread"),
    cuda("launches", "cooperative", "blocks that wait for each other"),
    cuda("launches", "cluster", "clusters of blocks"),
    cuda("launches", "dependent", "programmatic dependent launches"),
    cuda("launches", "parameters", "32,000 bytes of parameters"),
    cuda("launches", "textures", "texture objects"),
    cuda("launches", "constants", "constant memory that changes"),
    cuda("launches", "tiny_launches", "100,000 launches that do next to nothing", "100000"),
    cuda("launches", "spin", "kernels of 1 to 500 ms", sampled=True, timed=True),
    cuda("memory", "async_pool", "stream-ordered allocations"),
    cuda("memory", "managed", "managed memory"),
    cuda("memory", "pinned", "memory of the host"),
    cuda("memory", "vmm", "memory mapped by hand"),
    cuda("modules", "same_name", "kernels of one name from several modules"),
    cuda("modules", "late", "modules that come and go"),
    cuda("deaths", "os_exit", "ends by _exit(3)", exit=3, dies=True),
    cuda("deaths", "abort", "ends by abort()", exit=134, dies=True),
    cuda("deaths", "sigkill", "kills itself", exit=137, dies=True),
    cuda("deaths", "segv", "writes to address 0", exit=139, dies=True),
    cuda("deaths", "illegal_address", "a kernel writes to unmapped memory", exit=7, dies=True),
    cuda("deaths", "refused", "launches that the driver refuses"),
    python("torch_graph", "a training step as a graph, 20 replays", modules=("torch",)),
    python(
        "torch_compile_default",
        "a transformer trained under torch.compile",
        "default",
        file="torch_compile",
        modules=("torch", "triton"),
        prepared=True,
        env=COMPILED,
    ),
    python(
        "torch_compile_reduce_overhead",
        "the same in graphs of torch.compile",
        "reduce-overhead",
        file="torch_compile",
        modules=("torch", "triton"),
        prepared=True,
        env={**COMPILED, "TORCHINDUCTOR_COMPILE_THREADS": "1"},
    ),
    python(
        "triton_autotune",
        "20 configurations of one kernel",
        modules=("torch", "triton"),
        varies="the fastest configuration is not always the same",
        prepared=True,
        env=COMPILED,
    ),
    python("jax_jit", "products and a loop under jax.jit", modules=("jax",), prepared=True, env=JAX),
    python(
        "cupy_program",
        "elementwise and raw kernels of CuPy",
        modules=("cupy",),
        prepared=True,
        env={"CUPY_CACHE_DIR": "{cache}/cupy"},
    ),
    python(
        "expandable_segments",
        "PyTorch's allocator with expandable segments",
        modules=("torch",),
        env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    ),
    python("data_loader", "workers forked before and after CUDA starts", modules=("torch",)),
    python(
        "child_processes",
        "a forked and a spawned child that use CUDA",
        modules=("torch",),
        uncounted="a forked child of Python's ends by _exit",
    ),
    python("torch_streams", "two streams that wait for each other", modules=("torch",)),
    python(
        "torch_operators",
        "every operator of PyTorch's test data, forward and backward",
        modules=("torch", "expecttest"),
        uncounted="PyTorch's own profiler takes CUPTI's records",
        varies="libraries choose kernels by trying them",
    ),
    python("torch_os_exit", "ends by os._exit(5)", modules=("torch",), exit=5, dies=True),
    python("data_parallel", "nn.DataParallel", modules=("torch",), gpus=2),
    Program(
        "ddp",
        "DistributedDataParallel under torchrun",
        ("{python}", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "{here}/ddp.py"),
        modules=("torch",),
        gpus=2,
    ),
    python("nccl_one_process", "NCCL's kernels that wait for each other, in one process", modules=("torch",), gpus=2),
)


def chosen(names):
    """The programs of these names, all where none is given."""
    known = {program.name: program for program in PROGRAMS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"zoo: no program is called {', '.join(unknown)}; --list shows them")
    return [known[name] for name in names] if names else list(PROGRAMS)
