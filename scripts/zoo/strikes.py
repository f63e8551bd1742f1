"""Faults that strike a process of a recorded run: signals, memory that ends, a thread that ends. Linux, x86-64."""

import ctypes
import os
import pathlib
import resource
import signal
import subprocess
import time

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGSEGV": signal.SIGSEGV, "abort": signal.SIGABRT}
RECORDER = "stallmap-record"
READER = "stallmap-reader"

PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_ATTACH, PTRACE_DETACH = 12, 13, 16, 17
WALL = 0x40000000  # waits for threads, too
SYS_EXIT, SYS_FUTEX, SYS_CLOCK_NANOSLEEP = 60, 202, 230
# In struct user_regs_struct, as 64-bit words.
REGISTERS, RAX, RDI, ORIG_RAX, RIP = 27, 10, 14, 15, 16
# How long a strike looks for its process or thread.
SEARCH_S = 5


def program_of(ids):
    """The process that the recorder runs now, among these: the oldest that is no recorder."""
    others = [process for process in ids if name_of(process) != RECORDER]
    return min(others, key=started, default=None)


def name_of(process):
    """The file's name of a process's program, empty where it has ended."""
    try:
        return pathlib.Path(os.readlink(f"/proc/{process}/exe")).name.removesuffix(" (deleted)")
    except OSError:
        return ""


def started(process):
    """When a process started, in ticks of the clock."""
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
        return int(stat.rsplit(")", 1)[1].split()[19])
    except (OSError, IndexError, ValueError):
        return float("inf")


def send(process, number):
    """Sends a signal. True if there was a process to send it to."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return False
    return True


def limit_memory(process, more_bytes):
    """Lets a process have so many bytes of addresses more than it has, and no more."""
    try:
        pages = int(pathlib.Path(f"/proc/{process}/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + more_bytes
        resource.prlimit(process, resource.RLIMIT_AS, (most, most))
    except (OSError, ValueError, IndexError):
        return False
    return True


def end_reader(process):
    """Ends the thread that reads what the GPU wrote, as if it had never returned. True if there was one."""
    end = time.monotonic() + SEARCH_S
    while time.monotonic() < end and os.path.exists(f"/proc/{process}/task"):
        waiting = [thread for thread in threads(process, READER) if waits(process, thread)]
        if waiting:
            return end_thread(process, waiting[0])
        time.sleep(0.002)
    return False


def threads(process, name):
    """Threads of a process with this name."""
    found = []
    for task in pathlib.Path(f"/proc/{process}/task").glob("*"):
        try:
            if (task / "comm").read_text().strip() == name[:15]:
                found.append(int(task.name))
        except OSError:
            continue
    return found


def waits(process, thread):
    """True if a thread sleeps or waits: then it holds no lock."""
    try:
        call = pathlib.Path(f"/proc/{process}/task/{thread}/syscall").read_text().split()[0]
    except (OSError, IndexError):
        return False
    return call in (str(SYS_FUTEX), str(SYS_CLOCK_NANOSLEEP))


def end_thread(process, thread):
    """Makes a thread call exit(2), which ends it alone. False where the system does not allow that."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    instruction = syscall_instruction(process)
    if instruction is None or libc.ptrace(PTRACE_ATTACH, thread, None, None) != 0:
        return False
    os.waitpid(thread, WALL)
    registers = (ctypes.c_uint64 * REGISTERS)()
    libc.ptrace(PTRACE_GETREGS, thread, None, registers)
    registers[RAX], registers[RDI], registers[RIP] = SYS_EXIT, 0, instruction
    registers[ORIG_RAX] = ctypes.c_uint64(-1).value  # the call that was interrupted does not begin again
    is_set = libc.ptrace(PTRACE_SETREGS, thread, None, registers) == 0
    libc.ptrace(PTRACE_DETACH, thread, None, None)
    return is_set


def syscall_instruction(process):
    """The address of a `syscall` instruction in a process's C library."""
    try:
        for line in pathlib.Path(f"/proc/{process}/maps").read_text().splitlines():
            place, rights, offset, _, _, *path = line.split()
            if "x" in rights and path and pathlib.Path(path[0]).name.startswith("libc.so"):
                begin, end = (int(text, 16) for text in place.split("-"))
                with open(path[0], "rb") as file:
                    file.seek(int(offset, 16))
                    found = file.read(end - begin).find(b"\x0f\x05")
                if found >= 0:
                    return begin + found
    except (OSError, ValueError):
        pass
    return None


def mount(folder, disk_bytes):
    """Makes a folder a small file system. False where the right to do so is missing."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "none", folder]
    return subprocess.run(command, capture_output=True).returncode == 0
