"""Rows of a query, for any library that reads Arrow."""

from __future__ import annotations

import html
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional

from stallmap._errors import Error

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

# Rows that a notebook shows.
_SHOWN = 50


class Result:
    """Rows as an Arrow IPC stream, which is read when it is used.

    It has the Arrow PyCapsule interface: polars, pandas, DuckDB, pyarrow and others take it as it is.
    """

    def __init__(self, stream: bytes, sql: Optional[str], rows: int, absence: Optional[str] = None) -> None:
        # The bytes of the Arrow IPC stream.
        self.stream = stream
        # The query that returns these rows.
        self.sql = sql
        # Reason for missing rows, if the capture causes it.
        self.absence = absence
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def arrow(self) -> pyarrow.Table:
        """The rows as a table of pyarrow."""
        return _needed("pyarrow").ipc.open_stream(self.stream).read_all()

    def pl(self) -> polars.DataFrame:
        """The rows as a data frame of polars."""
        frame: polars.DataFrame = _needed("polars").read_ipc_stream(self.stream)
        return frame

    def df(self) -> pandas.DataFrame:
        """The rows as a data frame of pandas.

        Columns have the types of Arrow: a number of 64 bits stays one where another row has none.
        """
        pandas = _needed("pandas")
        return self.arrow().to_pandas(types_mapper=pandas.ArrowDtype)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._reader().__arrow_c_stream__(requested_schema)

    def _reader(self) -> Any:
        """A reader with the Arrow PyCapsule interface, of the first library that is installed."""
        if _installed("pyarrow") is not None:
            return import_module("pyarrow.ipc").open_stream(self.stream)
        if _installed("nanoarrow") is not None:
            return import_module("nanoarrow.ipc").InputStream.from_readable(self.stream)
        if (polars := _installed("polars")) is not None:
            return polars.read_ipc_stream(self.stream)
        raise _missing("pyarrow, nanoarrow or polars")

    def __repr__(self) -> str:
        if not self._rows and self.absence:
            return f"<stallmap.Result: 0 rows: {self.absence}>"
        return f"<stallmap.Result: {self._rows} {'row' if self._rows == 1 else 'rows'}>"

    def _repr_html_(self) -> str:
        if not self._rows:
            return f"<p>{html.escape(self.absence or 'no rows')}</p>"
        names, rows = self._head(_SHOWN)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
        rest = self._rows - len(rows)
        more = f"<p>{rest} more {'row' if rest == 1 else 'rows'}</p>" if rest else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _head(self, count: int) -> Any:
        """The names of the columns, and the first rows."""
        if _installed("pyarrow") is not None:
            table = self.arrow()
            columns = [column.to_pylist() for column in table.slice(0, count).columns]
            return table.column_names, list(zip(*columns))
        frame = self.pl()
        return frame.columns, frame.head(count).rows()


def _cell(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
        return f'<td style="text-align: right">{text}</td>'
    # What a capture holds is text, never markup.
    return f'<td style="text-align: left">{"" if value is None else html.escape(str(value))}</td>'


def _installed(name: str) -> Optional[ModuleType]:
    try:
        return import_module(name)
    except ImportError:
        return None


def _needed(name: str) -> Any:
    module = _installed(name)
    if module is None:
        raise _missing(name)
    if name == "pyarrow":
        import_module("pyarrow.ipc")
    return module


def _missing(name: str) -> Error:
    return Error(f"{name} is not installed", f"pip install {name.split(',')[0]}", 5)
