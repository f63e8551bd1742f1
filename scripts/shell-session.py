"""A user at the shell: types into a pseudo-terminal and looks at the output.

Usage: shell-session.py STALLMAP CAPTURE FOLDER. Exits with 1 and prints the expected text if it does not appear.
FOLDER is a place for a history and a pager. `tests/cli/terminal.rs` calls it.
"""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

PATIENCE_S = 120.0
ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r")


class Session:
    """A shell in a terminal of its own."""

    def __init__(self, command, environment):
        self.seen = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, environment)
        self.resize(200)

    def resize(self, rows):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 160, 0, 0))

    def type(self, text):
        """Types after clearing earlier output. Text that is typed before the prompt is there may be lost."""
        self.seen = b""
        os.write(self.terminal, text.encode())

    def text(self):
        return ESCAPE.sub(b"", self.seen).decode(errors="replace")

    def read(self, seconds):
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        if ready:
            try:
                self.seen += os.read(self.terminal, 65536)
            except OSError:
                return False
        return True

    def expect(self, pattern, why):
        """Waits for a pattern in the output since the last line was typed."""
        end = time.monotonic() + PATIENCE_S
        while not re.search(pattern, self.text()):
            if time.monotonic() > end or not self.read(0.2):
                sys.exit(f"{why}: {pattern!r} is not in:\n{self.text()}")

    def ask(self, line, pattern, why):
        """Types a line, waits for its result and for the next prompt."""
        self.type(line + "\r")
        self.expect(pattern, why)
        self.prompt(pattern)

    def prompt(self, after):
        """Waits for the prompt behind a result: on a line of its own, since a line that is redrawn has one too."""
        self.expect(after + r"[\s\S]*\nstallmap> $", "the prompt comes back")

    def ended(self):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            self.read(0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        sys.exit("the shell does not leave")


def completion(shell):
    shell.type("SELECT launch_count FROM kernel_cos\t")
    shell.expect(r"kernel_cost", "a view is completed")
    shell.ask(" LIMIT 1;", r"1 row, preparing .*, execution ", "what was completed is run, and timed")
    shell.type("SELECT dur\t")
    shell.expect(r"SELECT dur", "a column without its table is left alone")
    shell.type("\x15SELECT gri FROM launch" + "\x1b[D" * len(" FROM launch") + "\t")
    shell.expect(r"grid_", "columns are those of the table that is read")
    shell.type("\x03")
    shell.expect(r"stallmap> $", "Ctrl-C gives the line up")
    shell.type(".exa\t")
    shell.expect(r"\.examples", "a dot-command is completed")
    shell.ask("", r"Which tensors does the GPU wait for most\?", "examples are listed")
    shell.ask(".examples 1", r"memory_percent[\s\S]*row", "an example is printed and run")


def statements(shell):
    shell.type("SELECT 41 + 1 AS one,\r")
    shell.expect(r"one,", "a line without a semicolon is not the end")
    shell.expect(r"\n     \.\.\.> $", "the prompt says that it continues")
    shell.ask("2 AS two;", r"one +two\s+─+ +─+\s+42 +2\s+1 row", "a statement has several lines")
    shell.ask(".timing off", r"off", "timing is switched off")
    shell.ask("SELECT kernal FROM kernel_cost;", r"kernal FROM[\s\S]*\^\^\^\^\^\^[\s\S]*did you mean `kernel`", "a caret points")
    shell.ask("CREATE VIEW of_mine AS SELECT 5 AS five;", r";", "a view is made")
    shell.ask("SELECT 1 AS one, 2 AS two\\G", r"─ row 1 ─+\s+one  1\s+two  2", "rows are records")
    shell.ask("SELECT 1 AS one;", r"one\s+─+\s+1", "but only once")
    shell.ask(".expanded on", r"on", "every statement's rows are records")
    shell.ask("SELECT 3 AS three;", r"─ row 1 ─+\s+three  3", "so they are")
    shell.ask(".expanded auto", r"auto", "as they fit")
    shell.ask("\\d", r"tensor_stall_cost|no dot-command|table +rows", "commands of another shell need no semicolon")
    shell.ask(".doc intervall", r"`\.views` list names in the shell", "a wrong name is explained in terms of the shell")
    for line in ["SELECT launch_count", "FROM kernel_cost"]:
        shell.type(line + "\r")
        shell.expect(r"\n     \.\.\.> $", "the statement continues")
    shell.type("WHERE kern\t")
    shell.expect(r"\.\.\.> WHERE kernel", "columns are those of the table above")
    shell.type("\x03")
    shell.expect(r"stallmap> $", "Ctrl-C gives all lines up")
    shell.type("SELECT * FROM of_m\t;\r")
    shell.expect(r"of_mine;[\s\S]*five", "a view of the session is completed")
    shell.prompt("five")


def cancelling(shell):
    shell.type("SELECT sum(a.pc + b.pc + c.pc) FROM memory_access a, memory_access b, memory_access c;\r")
    shell.expect(r"running", "a long query says that it runs")
    shell.type("\x03")
    shell.expect(r"cancelled[\s\S]*stallmap> $", "Ctrl-C cancels the query")
    if not re.search(rb"\x1b\[2Kerror: cancelled", re.sub(rb"\x1b\[[0-9;]*m", b"", shell.seen)):
        sys.exit(f"the line of the progress is still there: {shell.seen!r}")
    shell.ask("SELECT 3 + 4 AS seven;", r"seven\s+─+\s+7", "and not the shell")
    shell.type("\x03")
    shell.expect(r"stallmap> $", "Ctrl-C at the prompt does nothing")
    shell.type("\x03")
    shell.expect(r"Ctrl-D or \.quit leaves", "a second one says what leaves")
    shell.prompt("leaves")


def paging(shell, pager):
    shell.resize(10)
    shell.ask(f".pager {pager}", r"pager", "a pager is named")
    shell.ask(".views", r"PAGED[\s\S]*tensor_stall_cost", "what is longer than the screen is paged")
    shell.ask("SELECT * FROM stall_reason;", r"PAGED[\s\S]*long_scoreboard", "rows too")
    shell.type("SELECT 6 AS short;\r")
    shell.expect(r"short\s+─+\s+6[\s\S]*stallmap> $", "what is short is shown")
    if "PAGED" in shell.text():
        sys.exit("one row is paged")
    shell.ask(".pager no-such-pager", r"pager", "a pager that is not there")
    shell.ask(".views", r"cannot be run[\s\S]*tensor_stall_cost", "is no failure")
    shell.ask(".pager true", r"true", "a pager that reads nothing")
    shell.ask(".views", r"\.views", "is none either")
    shell.ask(".pager off", r"off", "the pager is switched off")
    shell.ask(".views", r"tensor_stall_cost", "and everything is shown")


def main():
    program, capture, folder = sys.argv[1:]
    pager = os.path.join(folder, "pager")
    with open(pager, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho PAGED\ncat\n")
    os.chmod(pager, 0o755)
    environment = {
        "PATH": os.environ["PATH"],
        "TERM": "xterm",
        "NO_COLOR": "1",
        "HOME": folder,
        "XDG_STATE_HOME": folder,
        "STALLMAP_CACHE": "off",
    }
    shell = Session([program, "sql", capture], environment)
    shell.expect(r"stallmap> $", "the shell greets")
    completion(shell)
    statements(shell)
    cancelling(shell)
    paging(shell, pager)
    shell.type("\x04")
    if (code := shell.ended()) != 0:
        sys.exit(f"Ctrl-D leaves with {code}")
    with open(os.path.join(folder, "stallmap", "history"), encoding="utf-8") as file:
        history = file.read()
    if "SELECT 41 + 1 AS one,\\n2 AS two;" not in history:
        sys.exit(f"a statement of two lines is one entry of the history:\n{history}")


main()
