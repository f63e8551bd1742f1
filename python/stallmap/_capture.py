"""Open captures."""

from __future__ import annotations

import html
import os
import re
import warnings
from typing import Any, Dict, List, Optional, Sequence, Union

from stallmap import _program
from stallmap._child import Child
from stallmap._diff import Diff
from stallmap._errors import Error, LossWarning
from stallmap._result import Result

Location = Union[str, "os.PathLike[str]"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def open(capture: Optional[Location] = None, /, **named: Location) -> Capture:
    """Opens a capture: a path, or an https:// or s3:// URL. Several need names: `open(a=..., b=...)`.

    In SQL, tables of a named capture are `a.launch`, and those of all captures together `every.launch`.
    """
    if (capture is None) == (not named):
        raise Error("name one capture, or several by keywords", 'stallmap.open("train.stallmap")', 2)
    captures = {None: _place(capture)} if capture is not None else {name: _place(it) for name, it in named.items()}
    opened = Capture(captures)  # type: ignore[arg-type]
    opened._child.start()
    count = opened._child.hello.get("losses", 0)
    if count:
        noun = "kind of data is" if count == 1 else "kinds of data are"
        warnings.warn(f"{count} {noun} incomplete: `capture.losses` lists them", LossWarning, stacklevel=2)
    return opened


def _place(location: Any) -> str:
    text: str = os.fspath(location)
    return text if re.match(r"[a-z0-9]+://", text) else os.path.abspath(text)


class Capture:
    """One capture, or several by name, open in a process that stays for more queries."""

    def __init__(self, captures: Dict[Optional[str], str]) -> None:
        self._captures = captures
        named = [place if name is None else f"{name}={place}" for name, place in captures.items()]
        self._child = Child(named)

    def sql(self, query: str, **parameters: Any) -> Result:
        """Rows of a statement. `$name` in it is replaced by the value of a parameter, as a literal."""
        return self._one({"sql": _filled(query, parameters)})

    def report(self, section: str, top: int = 10) -> Result:
        """Rows of a section of `stallmap report`: `findings`, `tensors`, `why`, `kernels`, `lines`, and so on."""
        return self._one({"section": section, "top": int(top)})

    @property
    def findings(self) -> Result:
        """Changes that save time, with evidence and bounds."""
        return self.report("findings")

    @property
    def tensors(self) -> Result:
        """Stalls by tensor."""
        return self.report("tensors")

    @property
    def coverage(self) -> Result:
        """Recorded part of the run."""
        return self.report("coverage")

    @property
    def losses(self) -> Result:
        """Data that the capture lacks. No rows: nothing was lost."""
        losses = self.report("losses")
        losses.absence = None
        return losses

    def diff(
        self,
        other: Union[Capture, Location],
        *,
        by: Union[str, Sequence[str]] = (),
        metric: str = "samples",
        per: str = "auto",
        top: int = 10,
        all: bool = False,
        force: bool = False,
    ) -> Diff:
        """Significant changes from this capture to another one, with the options of `stallmap diff`."""
        parts = [by] if isinstance(by, str) else list(by)
        options = ["--metric", metric, "--per", per, "--top", str(int(top))]
        options += [word for part in parts for word in ("--by", part)]
        options += ["--all"] * all + ["--force"] * force
        after = other._only() if isinstance(other, Capture) else _place(other)
        child = Child([f"a={self._only()}", f"b={after}"])
        try:
            sections, _ = child.ask({"diff": options})
        finally:
            child.close()
        return Diff({it.name or "": Result(it.stream, it.sql, it.rows or 0) for it in sections})

    def close(self) -> None:
        """Ends the process. Another query starts it again."""
        self._child.close()

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _one(self, request: Dict[str, Any]) -> Result:
        sections, done = self._child.ask(request)
        section = sections[0]
        return Result(section.stream, section.sql or request.get("sql"), done["rows"], done.get("absence"))

    def _only(self) -> str:
        if len(self._captures) > 1:
            raise Error("several captures are open", "open the two to compare, each alone", 2)
        return next(iter(self._captures.values()))

    def __repr__(self) -> str:
        places = [place if name is None else f"{name}={place}" for name, place in self._captures.items()]
        return f"<stallmap.Capture: {', '.join(places)}>"

    def _repr_html_(self) -> str:
        screens: List[str] = [_program.output([place]) for place in self._captures.values()]
        return "".join(f"<pre>{html.escape(screen)}</pre>" for screen in screens)


def _filled(query: str, parameters: Dict[str, Any]) -> str:
    unused = set(parameters)

    def literal(found: re.Match[str]) -> str:
        name = found[1]
        if name not in parameters:
            return found[0]
        unused.discard(name)
        return _literal(name, parameters[name])

    filled = re.sub(r"\$([A-Za-z_][A-Za-z0-9_]*)", literal, query)
    if unused:
        raise Error(f"the statement has no parameter ${sorted(unused)[0]}", None, 2)
    return filled


def _literal(name: str, value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    raise Error(f"the parameter ${name} is neither a number nor a text", None, 2)
