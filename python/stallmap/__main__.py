"""`python -m stallmap`: the program `stallmap`."""

import os
import subprocess
import sys

from stallmap import _program
from stallmap._errors import Error


def main() -> None:
    """Runs the program with this process's arguments, in its place where the system can."""
    try:
        command = [_program.path(), *sys.argv[1:]]
    except Error as error:
        sys.exit(f"error: {error}")
    if os.name == "nt":
        sys.exit(subprocess.run(command).returncode)
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(f"error: {_program.not_started(command[0], error)}")


main()
