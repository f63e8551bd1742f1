"""One run of a command, with a time limit, all its processes, and stacks of its threads if it hangs."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import threading
import time
import uuid

# How long processes may take to end after the one that was started.
AFTERMATH_S = 3
# How long a debugger may take.
DEBUGGER_S = 60
MARK = "ZOO_RUN"


@dataclasses.dataclass
class Ended:
    """The end of a run."""

    code: int  # exit code, 128 + N after signal N
    seconds: float
    out: bytes
    err: str
    threads: str = ""  # what each thread did, where the time limit ended it
    left: int = 0  # processes that outlived the first one

    @property
    def hung(self):
        return bool(self.threads)


def run(command, folder, env, limit, debugger="", strike=None, aftermath=AFTERMATH_S):
    """Runs `command` in `folder`. Output goes to files: no process that outlives the first can hold us back.

    `strike` is a time in seconds and a function that is called then with the child and the run's mark, unless the child
    has ended. Processes may take `aftermath` seconds to end after the child.
    """
    mark = uuid.uuid4().hex
    out, err = folder / "stdout", folder / "stderr"
    begin = time.monotonic()
    with out.open("wb") as out_file, err.open("wb") as err_file:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env={**env, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=out_file,
            stderr=err_file,
            start_new_session=True,
        )
        threads = ""
        if strike:
            moment, function = strike
            timer = threading.Timer(moment, function, [child, mark])
            timer.start()
        try:
            child.wait(limit)
        except subprocess.TimeoutExpired:
            threads = describe(processes(mark), debugger) or "(no process could be looked at)"
            kill(mark)
            kill_group(child)
        code = child.wait()
        if strike:
            timer.cancel()
            timer.join()
    seconds = time.monotonic() - begin
    left = wait_for_others(mark, aftermath)
    return Ended(
        code=code if code >= 0 else 128 - code,
        seconds=seconds,
        out=out.read_bytes(),
        err=err.read_text(errors="replace"),
        threads=threads,
        left=left,
    )


def processes(mark):
    """Processes that were started by the run with this mark, however far down."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # it ended, or is not ours
    return sorted(found)


def kill(mark):
    """Ends the run's processes."""
    for process in processes(mark):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass


def kill_group(child):
    """Ends the group of a child that is not reaped yet: a process without an environment to read may be in it."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def wait_for_others(mark, aftermath):
    """Waits for processes that are still there, then ends them. Returns their number."""
    end = time.monotonic() + aftermath
    while left := processes(mark):
        if time.monotonic() > end:
            kill(mark)
            return len(left)
        time.sleep(0.05)
    return 0


def describe(ids, debugger):
    """State of each thread of these processes, with their stacks if there is a debugger."""
    lines = [line for process in ids for line in describe_process(process)]
    if debugger:
        lines += [line for process in ids if uses_cuda(process) for line in stacks(process, debugger)]
    return "\n".join(lines)


def uses_cuda(process):
    """True if the driver is loaded into a process."""
    return "libcuda.so" in text_of(pathlib.Path(f"/proc/{process}/maps"))


def stacks(process, debugger):
    """The stacks of a process's threads, from a debugger such as cuda-gdb."""
    command = [debugger, "-p", str(process), "-batch", "-ex", "thread apply all backtrace 40"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEBUGGER_S)
        text = done.stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        text = str(error)
    yield f"stacks of process {process}, by {debugger}:"
    yield from ("  " + line for line in text.splitlines())


def describe_process(process):
    """A line for the process, then lines for its threads."""
    folder = pathlib.Path(f"/proc/{process}")
    command = text_of(folder / "cmdline").replace("\0", " ").strip()
    yield f"process {process}: {command}"
    try:
        tasks = sorted(folder.glob("task/*"), key=lambda task: int(task.name))
    except OSError:
        return
    for task in tasks:
        status = text_of(task / "status").splitlines()
        state = next((line.split(":", 1)[1].strip() for line in status if line.startswith("State:")), "?")
        name, waits = text_of(task / "comm").strip(), text_of(task / "wchan").strip()
        call = text_of(task / "syscall").split(" ")[0].strip()
        yield f"  thread {task.name} {name}: {state}, waits in {waits or '?'}, system call {call or '?'}"
        yield from ("    " + line for line in text_of(task / "stack").splitlines())


def text_of(path):
    """A file of /proc, empty where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
