"""The process `stallmap serve --stdio`, which opens captures once and answers requests.

A request is the number of its bytes and JSON. A result is frames: a letter, the number of bytes, the bytes. Numbers
have 32 bits, little-endian.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import tempfile
import threading
import weakref
from typing import Any, BinaryIO, Dict, List, NamedTuple, Optional, Sequence, Tuple

from stallmap import _program
from stallmap._errors import Error

_PROTOCOL = 1
# Bytes of the program's messages that an error carries.
_MOST_MESSAGE_BYTES = 4000


class Section(NamedTuple):
    """Rows of one result: an Arrow IPC stream, with the name and the query of a section."""

    name: Optional[str]
    title: Optional[str]
    sql: Optional[str]
    rows: Optional[int]
    stream: bytes


class Child:
    """One process per set of captures. It starts at the first request, and again after it has ended."""

    def __init__(self, captures: Sequence[str]) -> None:
        self._captures = list(captures)
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._messages: Optional[BinaryIO] = None
        self._end: Any = None
        self._owner = 0
        self._lock = threading.Lock()
        # The program's first frame: its version, and the number of losses.
        self.hello: Dict[str, Any] = {}

    def start(self) -> None:
        """Opens the captures, if that has not been done."""
        with self._lock:
            self._started()

    def ask(self, request: Dict[str, Any]) -> Tuple[List[Section], Dict[str, Any]]:
        """The results of one request: sections, and facts about them."""
        with self._lock:
            process = self._started()
            try:
                text = json.dumps(request).encode()
                process.stdin.write(struct.pack("<I", len(text)) + text)  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
                return self._answer(process)
            except Error:
                raise
            except OSError as error:
                raise self._ended() from error
            except BaseException:
                # Ctrl-C: the rest of the answer is unread.
                self._stop()
                raise

    def close(self) -> None:
        """Ends the process."""
        with self._lock:
            self._stop()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return self._process
        if self._owner == os.getpid():
            self._stop()
        command = [_program.path(), "serve", "--stdio", "--", *self._captures]
        self._messages = tempfile.TemporaryFile()
        try:
            # In its own session, because Ctrl-C is for Python alone.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._messages,
                start_new_session=os.name != "nt",
            )
        except OSError as error:
            self._messages.close()
            raise _program.not_started(command[0], error) from error
        self._owner = os.getpid()
        self._end = weakref.finalize(self, _end, self._process, self._messages, self._owner)
        self.hello = self._greeting(self._process)
        return self._process

    def _greeting(self, process: subprocess.Popen[bytes]) -> Dict[str, Any]:
        try:
            letter, content = self._frame(process)
            if letter == b"E":
                raise _error(content)
            hello: Dict[str, Any] = json.loads(content)
            if hello.get("protocol") != _PROTOCOL:
                version = hello.get("version")
                hint = "install one release of the package and of the program"
                raise Error(f"the program `stallmap` is of another release: {version}", hint, 5)
            return hello
        except BaseException:
            self._stop()
            raise

    def _answer(self, process: subprocess.Popen[bytes]) -> Tuple[List[Section], Dict[str, Any]]:
        sections: List[Section] = []
        head: Dict[str, Any] = {}
        stream = bytearray()
        while True:
            letter, content = self._frame(process)
            if letter == b"A":
                stream += content
                continue
            if stream:
                name, title, sql, rows = (head.get(field) for field in ("name", "title", "sql", "rows"))
                sections.append(Section(name, title, sql, rows, bytes(stream)))
                stream = bytearray()
            if letter == b"S":
                head = json.loads(content)
            elif letter == b"D":
                return sections, json.loads(content)
            elif letter == b"E":
                raise _error(content)
            else:
                self._stop()
                raise Error(f"the program `stallmap` sent an unknown frame: {letter!r}", None, 5)

    def _frame(self, process: subprocess.Popen[bytes]) -> Tuple[bytes, bytes]:
        head = process.stdout.read(5)  # type: ignore[union-attr]
        if len(head) < 5:
            raise self._ended()
        count = struct.unpack("<I", head[1:])[0]
        content = process.stdout.read(count)  # type: ignore[union-attr]
        if len(content) < count:
            raise self._ended()
        return head[:1], content

    def _ended(self) -> Error:
        """Why the process has ended without an answer."""
        process, messages = self._process, self._messages
        if process is None or messages is None:
            return Error("the program `stallmap` has ended", None, 5)
        code = process.wait()
        size = messages.seek(0, os.SEEK_END)
        messages.seek(max(0, size - _MOST_MESSAGE_BYTES))
        text = messages.read().decode("utf-8", "replace")
        self._stop()
        if code < 0:
            return Error(f"the program `stallmap` was ended by signal {-code}", "repeat the query, which starts the program again", code)
        return _program.of_messages(text, code)

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        self._process = self._messages = self._end = None


def _end(process: subprocess.Popen[bytes], messages: BinaryIO, owner: int) -> None:
    if owner != os.getpid():
        return  # A forked child ends: the process answers its parent.
    process.kill()
    process.wait()
    for file in (process.stdin, process.stdout, messages):
        try:
            file.close()  # type: ignore[union-attr]
        except OSError:
            pass  # Bytes that the ended process did not read.


def _error(content: bytes) -> Error:
    fields = json.loads(content)
    return Error(fields["error"], fields.get("hint"), fields.get("code"), fields.get("excerpt"))
